//! Records a command: `record DIRECTORY COMMAND [ARGUMENT...]`. For benches and tests of this crate alone; users have
//! `quell record`.

use quell_record::{ENGINE, Recording};
use quell_trace::Header;
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let directory = arguments.next().unwrap_or_default();
    let command: Vec<OsString> = arguments.collect();
    let header = header(&command);
    let environment = std::env::vars_os().collect();
    match quell_record::record(&Recording { command, environment, directory: directory.into(), header }) {
        Ok(recorded) => {
            if let Some(problem) = recorded.problem {
                complain(&problem);
            }
            ExitCode::from(recorded.exit.shell_status() as u8)
        }
        Err(error) => {
            complain(&error);
            match error {
                quell_record::RecordError::NotFound { .. } => ExitCode::from(127),
                quell_record::RecordError::NotExecutable { .. } => ExitCode::from(126),
                _ => ExitCode::from(125),
            }
        }
    }
}

#[allow(clippy::print_stderr, reason = "an example has no printer")]
fn complain(error: &dyn std::error::Error) {
    eprintln!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  {error}");
        cause = error.source();
    }
}

fn header(command: &[OsString]) -> Header {
    Header {
        working_directory: std::env::current_dir()
            .map_or_else(|_| String::new(), |path| path.display().to_string()),
        host: "example".to_owned(),
        user: rustix::process::geteuid().as_raw(),
        ..Header::begun(
            ENGINE,
            env!("CARGO_PKG_VERSION"),
            command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        )
    }
}
