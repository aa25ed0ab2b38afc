//! `quell synth`.

use crate::failure::Failure;
use crate::flags::{ModulesSetup, Synth, SynthOutput, SynthShape};
use crate::printer::Printer;
use crate::signals::Signals;
use crate::traces;
use quell_base::shell::quoted_name;
use quell_base::shown;
use quell_synth::{
    JuliaShape, LibraryPositions, ModulesSetting, ModulesShape, PynamicShape, SearchPathShape, SynthError,
    SynthRequest, TraceShape, WarpShape,
};
use quell_trace::{Header, Nanos, ServedBy};
use std::path::{Path, PathBuf};

pub(crate) fn run(flags: &Synth, printer: &mut Printer) -> Result<u8, Failure> {
    let (name, shape, output) = shape(&flags.shape);
    let directory = output.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.qtrace")));
    let root = root(name, output)?;
    if ServedBy::of_type(&output.file_system) != ServedBy::Network {
        printer.warn(&format!("`{}` is no network file system that quell knows", output.file_system));
    }
    let aside = traces::aside(&directory, output.force)?;
    let request = SynthRequest {
        shape,
        root,
        kind: output.file_system.clone(),
        compute: nanos(output.compute),
        trace: aside.clone().unwrap_or_else(|| directory.clone()),
        tree: output.tree.clone(),
        header: header(name),
    };
    let signals = Signals::watch()?;
    let made = quell_synth::make(&request, &|| signals.have_come()).map_err(|error| match error {
        SynthError::Interrupted => {
            Failure::message("interrupted; what was made is removed").status(signals.status())
        }
        error => explain(error),
    })?;
    if let Some(aside) = aside {
        traces::replace(&directory, &aside)?;
    }
    let (name, trace) = (shown(&directory), quoted_name(&directory));
    printer.talk(&format!("made {} calls in `{name}`; next: quell report {trace}", made.calls));
    if let Some(tree) = &output.tree {
        let (below, tree) = (shown(tree), quoted_name(tree));
        let (files, mib) = (made.files, made.bytes.div_ceil(1 << 20));
        printer.talk(&format!("wrote {files} files, {mib} MiB, below `{below}`; to issue the calls: quell replay {trace} --root {tree}"));
    }
    Ok(0)
}

fn shape(flags: &SynthShape) -> (&'static str, TraceShape, &SynthOutput) {
    match flags {
        SynthShape::Pynamic(flags) => {
            let shape = PynamicShape {
                modules: flags.modules,
                utilities: flags.utilities,
                entries: flags.entries,
                bytes: flags.bytes.map_or(PynamicShape::default().bytes, |bytes| bytes.0),
                touched: flags.touched,
                visit: nanos(flags.visit),
            };
            ("pynamic", TraceShape::Pynamic(shape), &flags.output)
        }
        SynthShape::Warp(flags) => ("warp", TraceShape::Warp(WarpShape), &flags.output),
        SynthShape::Julia(flags) => {
            let (packages, files) = (flags.packages, flags.files);
            let shape = JuliaShape { packages, files, project: flags.project_stats, missed: flags.misses };
            ("julia", TraceShape::Julia(shape), &flags.output)
        }
        SynthShape::Modules(flags) => {
            let setup = match flags.setup {
                ModulesSetup::Plain => ModulesSetting::Plain,
                ModulesSetup::RcFile => ModulesSetting::RcFile,
                ModulesSetup::Eval => ModulesSetting::Eval,
                ModulesSetup::Virtual => ModulesSetting::Virtual,
            };
            let shape =
                ModulesShape { paths: flags.paths, names: flags.names, versions: flags.versions, setup };
            ("modules", TraceShape::Modules(shape), &flags.output)
        }
        SynthShape::SearchPath(flags) => {
            let positions = match flags.positions.is_empty() {
                true => LibraryPositions::Uniform,
                false => LibraryPositions::Given(flags.positions.clone()),
            };
            let bytes = flags.bytes.map_or(1 << 16, |bytes| bytes.0);
            let shape = SearchPathShape { entries: flags.entries, names: flags.names, positions, bytes };
            ("search-path", TraceShape::SearchPath(shape), &flags.output)
        }
    }
}

/// The directory that the trace names.
fn root(name: &str, output: &SynthOutput) -> Result<PathBuf, Failure> {
    let named = output.tree.clone().or_else(|| output.at.clone());
    let named = named.unwrap_or_else(|| Path::new("/shared").join(name));
    let root = std::path::absolute(&named)
        .map_err(|error| Failure::new(error).context(format!("cannot use `{}`", named.display())))?;
    // Components without `.` and doubled slashes, which no program would pass.
    let root: PathBuf = root.components().collect();
    let is_short = root.as_os_str().len() <= LONGEST_ROOT;
    if root.parent().is_none() || root.to_str().is_none() || !is_short {
        let message = format!("`{}` cannot be the directory of a shape", named.display());
        return Err(
            Failure::message(message).hint("name a directory below `/`, in UTF-8 and of at most 1024 bytes")
        );
    }
    Ok(root)
}

/// Leaves room for names in it. Unit: bytes.
const LONGEST_ROOT: usize = 1024;

fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

/// A header without anything of this node or this hour: same flags, same bytes.
fn header(name: &str) -> Header {
    Header::begun("synth", env!("CARGO_PKG_VERSION"), vec![name.to_owned()])
}

fn explain(error: SynthError) -> Failure {
    let hint = match error {
        SynthError::Trace(error) => return traces::explain(error),
        SynthError::Interrupted => return Failure::new(error),
        SynthError::TooLarge { .. } | SynthError::TooManyBytes { .. } => "choose smaller sizes",
        SynthError::NotEmpty { .. } => "`--tree DIR` wants a new directory, or an empty one",
        SynthError::NoRoom { .. } => {
            "`--tree DIR` elsewhere, or smaller sizes; without it only the trace is made"
        }
        SynthError::Write { .. } => "`--tree DIR` writes elsewhere; without it only the trace is made",
    };
    Failure::new(error).hint(hint)
}
