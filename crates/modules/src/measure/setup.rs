//! The strategies: for each its copies of the modulepaths, its variables and its variant of the tool, and the versions that
//! have it.

use super::copy;
use super::measurement::{MeasureRequest, MeasuredCommand};
use crate::convert::{self, Consent, Destination, Strategy, SystemNames};
use crate::scan::{ModuleTree, ScanOptions};
use crate::tools::{self, Environment, Tool, ToolKind, User};
use crate::verify::{JudgedSide, NoJudge};
use crate::{ModulesError, caches};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The run of a tool with a strategy.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) name: &'static str,
    pub(super) tool: Tool,
    pub(super) environment: Environment,
    /// Further arguments of every command.
    pub(super) options: Vec<OsString>,
    /// quell and the image from which it runs the tool.
    pub(super) image: Option<(PathBuf, PathBuf)>,
    /// Directories whose calls count, by modulepath.
    pub(super) trees: Vec<Vec<PathBuf>>,
    /// The strategy's requirements on the site.
    pub(super) note: Option<String>,
}

/// The basis on which strategies are set up.
pub(super) struct SetupContext<'a> {
    pub(super) request: &'a MeasureRequest,
    /// Plain copies of the modulepaths.
    pub(super) copies: &'a [PathBuf],
    /// Modulepaths that modulefiles of the copies add, each with the one that does.
    pub(super) added: &'a [(PathBuf, PathBuf)],
    /// The directory of a user's recordings.
    pub(super) recordings: &'a Path,
}

/// Sets a strategy up, or gives the reason for which that cannot be.
type Prepare = fn(&mut SetupContext<'_>) -> Result<Setup, String>;

/// The strategies for a tool.
pub(super) fn strategies(tool: &Tool) -> Vec<(&'static str, Prepare)> {
    match tool.kind {
        ToolKind::Modules => vec![
            ("no extension library", without_library),
            ("plain", plain),
            ("modulepath rc", rc),
            ("eval", eval),
            ("virtual", virtual_modules),
            ("cache", cache),
            ("cache, 4096 bytes", small_cache),
            ("cache, 1000000 bytes", large_cache),
            ("cache ignored", ignored_cache),
            ("image", image),
        ],
        ToolKind::Lmod => vec![
            ("plain", plain),
            ("system cache", system_cache),
            ("system cache, cached loads", cached_loads),
            ("image", image),
        ],
    }
}

impl Setup {
    /// The plain tool on the plain tree.
    pub(super) fn plain(request: &MeasureRequest, copies: &[PathBuf], added: &[(PathBuf, PathBuf)]) -> Self {
        let side = JudgedSide { modulepaths: copies.to_vec(), ..JudgedSide::default() };
        let trees = copies.iter().map(|copy| with_added(copy, added)).collect();
        Self { trees, ..Self::of_side(request, &side, "plain") }
    }

    /// The plain tool on a side of a conversion. No tree's calls count yet.
    pub(super) fn of_side(request: &MeasureRequest, side: &JudgedSide, name: &'static str) -> Self {
        Self {
            name,
            tool: request.tool.clone(),
            environment: side.environment(&request.variables),
            options: Vec::new(),
            image: None,
            trees: Vec::new(),
            note: None,
        }
    }

    /// A command line of the tool.
    pub(super) fn words(&self, question: &[OsString]) -> Vec<OsString> {
        let image = self.image.iter().flat_map(|(quell, image)| -> [OsString; 4] {
            [quell.into(), "run".into(), image.into(), "--".into()]
        });
        image.chain(self.tool.words()).chain(question.iter().cloned()).collect()
    }

    fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.variables.push((name.into(), value.into()));
        self
    }
}

impl SetupContext<'_> {
    fn plain(&self, name: &'static str) -> Setup {
        Setup { name, ..Setup::plain(self.request, self.copies, self.added) }
    }

    fn needs(&self, major: u32, minor: u32) -> Result<(), String> {
        match self.request.tool.version.is_at_least(major, minor) {
            true => Ok(()),
            false => Err(format!("Modules has it from {major}.{minor}")),
        }
    }

    /// Converts the copies without a judge, because nothing is installed. Calls on the copies count as well, because a new
    /// tree may lead there.
    fn converted(
        &mut self,
        name: &'static str,
        strategy: Strategy,
        note: Option<&str>,
    ) -> Result<Setup, String> {
        let told = |error: ModulesError| error.to_string();
        let scan = |copy: &PathBuf| ModuleTree::scan(copy, ScanOptions::default());
        let trees: Vec<ModuleTree> = self.copies.iter().map(scan).collect::<Result<_, _>>().map_err(told)?;
        let plan = convert::plan(&trees, strategy, Consent::default(), &mut SystemNames);
        if let Some(refusal) = plan.trees.iter().flat_map(|tree| &tree.refusals).next() {
            return Err(refusal.to_string());
        }
        let out = self.request.work.join(strategy.name());
        let written = convert::write(&plan, &Destination::Out(out), &mut NoJudge).map_err(told)?;
        let targets = written.targets.into_iter().zip(self.copies);
        let modulepaths = targets.map(|(new, copy)| new.unwrap_or_else(|| copy.clone())).collect();
        let side = JudgedSide { modulepaths, variables: strategy.variables(), root: None, over: Vec::new() };
        let mut setup = self.plain(name);
        setup.environment = side.environment(&self.request.variables);
        for (tree, new) in setup.trees.iter_mut().zip(side.modulepaths) {
            tree.push(new);
        }
        setup.note = note.map(str::to_owned);
        Ok(setup)
    }
}

fn plain(context: &mut SetupContext<'_>) -> Result<Setup, String> {
    Ok(context.plain("plain"))
}

/// Needs no rebuild: a copy of the tool looks for the library in a directory that does not exist.
fn without_library(context: &mut SetupContext<'_>) -> Result<Setup, String> {
    context.needs(4, 3)?;
    let mut setup = context.plain("no extension library");
    let text = fs::read_to_string(&setup.tool.script).map_err(|error| error.to_string())?;
    let begin = text.find("set libdir {").ok_or("the tool does not name the directory of its library")?;
    let end = begin + text[begin..].find('}').ok_or("the tool does not name the directory of its library")?;
    let script = context.request.work.join("without-library.tcl");
    let text = format!("{}set libdir {{/nonexistent{}", &text[..begin], &text[end..]);
    fs::write(&script, text).map_err(|error| error.to_string())?;
    setup.tool.script = script;
    Ok(setup)
}

fn rc(context: &mut SetupContext<'_>) -> Result<Setup, String> {
    context.needs(4, 3)?;
    context.converted("modulepath rc", Strategy::Rc, None)
}

const EVAL: &str = "every user needs mcookie_check=eval, and the tree must hold nothing but modulefiles";

fn eval(context: &mut SetupContext<'_>) -> Result<Setup, String> {
    context.needs(5, 1)?;
    context.converted("eval", Strategy::Eval, Some(EVAL))
}

fn virtual_modules(context: &mut SetupContext<'_>) -> Result<Setup, String> {
    context.needs(5, 1)?;
    context.converted(
        "virtual",
        Strategy::Virtual,
        Some("every user needs mcookie_check=eval; without it every load opens every file"),
    )
}

/// Caches are built by the user that measures, not by root.
fn builder(request: &MeasureRequest) -> caches::CacheBuilder<'_> {
    caches::CacheBuilder::new(&request.tool, Some(&request.user))
}

/// The copies with caches. They are made once.
fn with_caches(context: &mut SetupContext<'_>, name: &'static str) -> Result<Setup, String> {
    context.needs(5, 3)?;
    let directory = context.request.work.join("cache");
    if !directory.exists() {
        let copies = copy::modulepaths(context.copies, &directory).map_err(|error| error.to_string())?;
        for copy in &copies {
            caches::modules::build(
                builder(context.request),
                copy,
                None,
                caches::modules::Rebuild::All,
                &context.request.work,
            )
            .map_err(|error| error.to_string())?;
        }
    }
    let names = context.copies.iter().map(|copy| copy.file_name().unwrap_or_default());
    let copies: Vec<PathBuf> = names.map(|name| directory.join(name)).collect();
    let copies = copies.into_iter().map(|copy| copy.canonicalize()).collect::<Result<Vec<_>, _>>();
    let copies = copies.map_err(|error| error.to_string())?;
    Ok(Setup { name, ..Setup::plain(context.request, &copies, context.added) })
}

fn cache(context: &mut SetupContext<'_>) -> Result<Setup, String> {
    with_caches(context, "cache")
}

fn small_cache(context: &mut SetupContext<'_>) -> Result<Setup, String> {
    Ok(with_caches(context, "cache, 4096 bytes")?.with("MODULES_CACHE_BUFFER_BYTES", "4096"))
}

fn large_cache(context: &mut SetupContext<'_>) -> Result<Setup, String> {
    Ok(with_caches(context, "cache, 1000000 bytes")?.with("MODULES_CACHE_BUFFER_BYTES", "1000000"))
}

fn ignored_cache(context: &mut SetupContext<'_>) -> Result<Setup, String> {
    let mut setup = with_caches(context, "cache ignored")?;
    setup.options.push("--ignore-cache".into());
    Ok(setup)
}

fn system_cache(context: &mut SetupContext<'_>) -> Result<Setup, String> {
    let directory = context.request.work.join("lmod-cache");
    let built = caches::lmod::build(builder(context.request), context.copies, &directory);
    let built = built.map_err(|error| error.to_string())?;
    let mut setup = context.plain("system cache").with("LMOD_RC", directory.join(caches::lmod::SETTINGS));
    let left_out = built.left_out.len();
    setup.note = (left_out > 0)
        .then(|| format!("{left_out} modulepaths are left out: some users cannot read all their files"));
    Ok(setup)
}

fn cached_loads(context: &mut SetupContext<'_>) -> Result<Setup, String> {
    let setup = system_cache(context)?.with("LMOD_CACHED_LOADS", "yes");
    Ok(Setup { name: "system cache, cached loads", ..setup })
}

/// An image of quell, made from the recordings of the plain commands.
fn image(context: &mut SetupContext<'_>) -> Result<Setup, String> {
    let image = context.recordings.join("image.qimg");
    let mut arguments: Vec<OsString> =
        vec!["pack".into(), "--quiet".into(), "-o".into(), image.clone().into()];
    for copy in context.copies {
        arguments.push("--root".into());
        arguments.push(copy.into());
    }
    let traces = MeasuredCommand::ALL.into_iter();
    let traces = traces.map(|action| context.recordings.join(format!("plain-{}.qtrace", action.name())));
    // Not every tool has all commands.
    arguments.extend(traces.filter(|trace| trace.symlink_metadata().is_ok()).map(OsString::from));
    let user: &User = &context.request.user;
    quell(context.request, &arguments, user)?;
    let probe = [OsString::from("run"), "--require".into(), image.clone().into(), "--".into(), "true".into()];
    quell(context.request, &probe, user)?;
    let mut setup = context.plain("image");
    setup.image = Some((context.request.quell.clone(), image));
    Ok(setup)
}

/// A modulepath, and those that its modulefiles add, at any depth.
fn with_added(modulepath: &Path, added: &[(PathBuf, PathBuf)]) -> Vec<PathBuf> {
    let mut all = vec![modulepath.to_owned()];
    let mut next = 0;
    while let Some(by) = all.get(next).cloned() {
        let more = added.iter().filter(|(path, adder)| *adder == by && !all.contains(path));
        let more: Vec<PathBuf> = more.map(|(path, _)| path.clone()).collect();
        all.extend(more);
        next += 1;
    }
    all
}

/// Runs quell as this user.
fn quell(request: &MeasureRequest, arguments: &[OsString], user: &User) -> Result<tools::ToolAnswer, String> {
    let mut command = std::process::Command::new(&request.quell);
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    let answer = tools::run(command, user, tools::PATIENCE).map_err(|error| error.to_string())?;
    match answer.status {
        0 => Ok(answer),
        _ => Err(String::from_utf8_lossy(&answer.stderr).trim().replace('\n', "; ")),
    }
}
