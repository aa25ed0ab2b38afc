//! DuckDB, as a program or as a module of Python. It reads a script from its standard input, and answers with a line of JSON for
//! each row. Arguments would be too short for the names of a day: the kernel takes 128 KiB each. Source: execve(2),
//! `MAX_ARG_STRLEN`.

use crate::{
    DataSet, Dialect, FleetDays, FleetError, FleetRow, Grouping, Question, Repeats, ServedJob, ServedRow,
    ServedSum,
};
use quell_base::escape;
use rustix::fs::MemfdFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// An engine of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine(Form);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Program,
    Module,
}

impl Engine {
    /// Looks for the program `duckdb`, then for the module of `python3`.
    ///
    /// # Errors
    /// [`FleetError::NoEngine`].
    pub fn find() -> Result<Self, FleetError> {
        let forms = [(Form::Program, "duckdb", "-version"), (Form::Module, "python3", PROBE)];
        let answers = |(_, program, words): &(Form, &str, &str)| {
            let words = if *program == "python3" { vec!["-c", words] } else { vec![*words] };
            let run = Command::new(program).args(words).current_dir("/").stdin(Stdio::null()).output();
            run.is_ok_and(|output| output.status.success())
        };
        forms.into_iter().find(answers).map(|(form, ..)| Self(form)).ok_or(FleetError::NoEngine)
    }

    /// Asks the data set. Shape: the rows of each grouping in its order.
    ///
    /// # Errors
    /// [`FleetError::WrongFile`] for a file that is no table of jobs; [`FleetError::Engine`].
    pub fn ask(
        self,
        (data_set, days): (&DataSet, &FleetDays),
        question: &Question,
        groupings: &[Grouping],
    ) -> Result<Vec<FleetRow>, FleetError> {
        let query = |repeats| move |grouping: &Grouping| question.sql(*grouping, Dialect::DuckDb, repeats);
        let quick = groupings.iter().map(query(Repeats::None));
        let queries: Vec<String> = quick.chain([question.repeats()]).collect();
        let mut answer: Vec<FleetRow> = self.rows(data_set, days, "", &queries)?;
        match answer.pop() {
            Some(repeated) if repeated.jobs > 0.0 => {
                let queries: Vec<String> = groupings.iter().map(query(Repeats::Possible)).collect();
                self.rows(data_set, days, "", &queries)
            }
            _ => Ok(answer),
        }
    }

    /// Joins the data set with what the file system's servers counted. Shape: the rows sorted by operations, most first.
    ///
    /// # Errors
    /// As for [`Engine::ask`].
    pub fn join(
        self,
        (data_set, days): (&DataSet, &FleetDays),
        question: &Question,
        served: &[ServedJob],
    ) -> Result<(ServedSum, Vec<ServedRow>), FleetError> {
        let table = Question::served_table(served);
        let [sum, rows] = question.served();
        let sum: Vec<ServedSum> = self.rows(data_set, days, &table, &[sum])?;
        let rows = self.rows(data_set, days, &table, &[rows])?;
        Ok((sum.first().copied().unwrap_or_default(), rows))
    }

    /// The answers to queries, after statements that prepare them.
    fn rows<Row: DeserializeOwned>(
        self,
        data_set: &DataSet,
        days: &FleetDays,
        prepare: &str,
        queries: &[String],
    ) -> Result<Vec<Row>, FleetError> {
        let mut script = format!("{SETTINGS}{};\n{prepare}", Question::view_of(days));
        for query in queries {
            script += &format!("COPY ({query}) TO '/dev/stdout' (FORMAT json);\n");
        }
        for attempt in 1.. {
            match self.run(data_set.directory(), &script).and_then(|text| rows(&text)) {
                // A file was listed, and its day was compacted before it was opened.
                Err(FleetError::Engine { .. }) if attempt < ATTEMPTS => {}
                Err(error @ FleetError::Engine { .. }) => return data_set.verify().and(Err(error)),
                answer => return answer,
            }
        }
        Ok(Vec::new())
    }

    /// Runs statements in `directory`; returns what they print.
    pub(crate) fn run(self, directory: &Path, script: &str) -> Result<Vec<u8>, FleetError> {
        raise_limit();
        let run = standard_input(script)
            .and_then(|script| self.command().current_dir(directory).stdin(script).output());
        let Output { status, stdout, stderr } = run.map_err(FleetError::io("ask DuckDB in", directory))?;
        match status.success() {
            true => Ok(stdout),
            false => Err(FleetError::Engine { reason: reason(&stderr) }),
        }
    }

    fn command(self) -> Command {
        match self.0 {
            Form::Program => {
                let mut command = Command::new("duckdb");
                command.args(["-init", "/dev/null", "-batch", "-bail"]);
                command
            }
            Form::Module => {
                let mut command = Command::new("python3");
                command.args(["-c", MODULE]);
                command
            }
        }
    }
}

/// A file in memory: DuckDB prints while it reads, and pipes would have to be served both at once.
fn standard_input(script: &str) -> io::Result<Stdio> {
    let mut file = File::from(rustix::fs::memfd_create("quell", MemfdFlags::CLOEXEC)?);
    file.write_all(script.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

/// DuckDB 1.0 keeps every file of a day open that it merges.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Most days have fewer files than the limit, so a refusal is not fatal.
    _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Looks for the module without loading it, which takes a tenth of a second.
const PROBE: &str = "import importlib.util, sys; sys.exit(importlib.util.find_spec('duckdb') is None)";

/// The working directory is a data set in which others write: no module comes from there.
const MODULE: &str = "import sys
sys.path[:] = [place for place in sys.path if place.startswith('/')]
sys.dont_write_bytecode = True
import duckdb
try:
    duckdb.connect().execute(sys.stdin.read())
except Exception as error:
    sys.exit(str(error))
";

/// Nothing is fetched, and nothing is written into the data set.
const SETTINGS: &str = "SET autoinstall_known_extensions = false;
SET temp_directory = '';
SET preserve_insertion_order = false;
";

/// Times that a question is asked.
const ATTEMPTS: u32 = 3;

fn rows<Row: DeserializeOwned>(text: &[u8]) -> Result<Vec<Row>, FleetError> {
    let rows = serde_json::Deserializer::from_slice(text).into_iter().collect::<Result<_, _>>();
    rows.map_err(|error: serde_json::Error| FleetError::Engine { reason: error.to_string() })
}

/// The first line of DuckDB's message, escaped. Later ones repeat the query. Range: at most 300 characters.
fn reason(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it gave no reason");
    escape(line).chars().take(LONGEST).collect()
}

/// Characters of a reason at most.
const LONGEST: usize = 300;
