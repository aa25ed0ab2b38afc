//! Records a command: `record DIRECTORY COMMAND [ARGUMENT...]`, or its start with `record --start=SECONDS DIRECTORY ...`,
//! where the start is over after so many quiet seconds. For benches and tests of this crate alone; users have
//! `quell record`.

use quell_record::{ENGINE, EngineChoice, RecordRequest, RecordedScope, StartLimits, TracePurpose};
use quell_trace::Header;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let mut directory = arguments.next().unwrap_or_default();
    let mut scope = RecordedScope::Run;
    if let Some(quiet) = directory.to_str().and_then(|word| word.strip_prefix("--start=")) {
        let quiet = Duration::from_secs_f64(quiet.parse().unwrap_or_default());
        scope = RecordedScope::Start(StartLimits { quiet, ..StartLimits::default() });
        directory = arguments.next().unwrap_or_default();
    }
    let command: Vec<OsString> = arguments.collect();
    let header = header(&command);
    let environment = std::env::vars_os().collect();
    let (engine, roots, directory) = (EngineChoice::Ptrace, Vec::new(), directory.into());
    let request = RecordRequest {
        command,
        environment,
        directory,
        header,
        scope,
        engine,
        roots,
        purpose: TracePurpose::Any,
        python: quell_record::PythonHook::None,
    };
    match quell_record::record(&request, &mut ()) {
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
