//! The pages of `quell report --html` and `quell predict --html`.

use crate::failure::Failure;
use crate::printer::Printer;
use std::io::ErrorKind;
use std::path::Path;

/// Stands for standard output.
const STDOUT: &str = "-";

/// Writes a page to a file, or prints it.
pub(crate) fn write(page: &str, file: &Path, printer: &Printer) -> Result<(), Failure> {
    if is_stdout(file) {
        return printer.data(page);
    }
    quell_base::files::put(file, page.as_bytes()).map_err(|error| explain(error, file))?;
    printer.talk(&format!("wrote `{}`, a page for a browser", file.display()));
    Ok(())
}

/// The page goes to standard output.
pub(crate) fn is_stdout(file: &Path) -> bool {
    file.as_os_str() == STDOUT
}

fn explain(error: std::io::Error, file: &Path) -> Failure {
    let hint = match error.kind() {
        ErrorKind::NotFound => Some("the directory must be there already"),
        ErrorKind::IsADirectory => Some("name a file, such as `--html report.html`"),
        _ => None,
    };
    Failure::new(error).context(format!("cannot write `{}`", file.display())).hints(hint)
}
