//! `quell record --python`: the tree of imports, against what the interpreter itself tells, and a program that notices nothing.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::{Need, Test};

const ALL: &[Need] = &[Need::Ptrace, Need::Program("python3")];

/// Many modules, some of them within others, one in vain, one in a thread, one by name, and one within a function.
const APP: &str = "\
import asyncio, unittest, email.message
import http.client
import xml.dom.minidom
try:
    import nowhere_to_be_found
except ImportError:
    pass
import importlib, threading
importlib.import_module('sqlite3')
def late():
    import tarfile
threading.Thread(target=late).start()
from concurrent.futures import process
";

/// Tells each open of a file by Python, with the module whose import runs in its thread: by the names that the interpreter's own
/// import has in its frames.
const ORACLE: &str = "\
import sys
opened = []
def hook(event, arguments):
    if event != 'open' or not isinstance(arguments[0], str):
        return
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == '_find_and_load' and 'name' in frame.f_locals and code.co_filename.startswith('<frozen importlib'):
            opened.append((frame.f_locals['name'], arguments[0]))
            return
        frame = frame.f_back
sys.addaudithook(hook)
exec(compile(open('app.py').read(), 'app.py', 'exec'))
import threading
[thread.join() for thread in threading.enumerate() if thread is not threading.current_thread()]
sys.stdout.write(''.join('%s\\t%s\\n' % each for each in opened))
";

type Counted = BTreeMap<(String, String), u64>;

fn counted(pairs: impl Iterator<Item = (String, String)>) -> Counted {
    let mut counted = Counted::new();
    pairs.for_each(|pair| *counted.entry(pair).or_default() += 1);
    counted
}

/// Opens of Python's files that succeeded, each with the import that it belongs to.
fn opens(test: &Test, trace: &str) -> Counted {
    let table = test.quell(&["export", trace, "--format", "csv", "-o", "-"]).succeeds();
    let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = rows.next().unwrap();
    let at = |name: &str| names.iter().position(|other| *other == name).unwrap();
    let (class, result, path, import) = (at("class"), at("result"), at("path"), at("import"));
    counted(rows.filter_map(|row| {
        let is_open = row[class] == "open" && !row[result].is_empty() && !row[import].is_empty();
        is_open.then(|| (row[import].to_owned(), row[path].to_owned()))
    }))
}

#[test]
fn privileged_opens_belong_to_the_imports_that_python_tells() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.write("app.py", APP);
    test.write("oracle.py", ORACLE);
    test.script(
        "python3 oracle.py >warm; $quell -q record --python -f -o app.qtrace -- python3 oracle.py >told",
    )
    .succeeds();
    let told = std::fs::read_to_string(test.path("told")).unwrap();
    let told = told.lines().filter_map(|line| line.split_once('\t'));
    let told = counted(told.map(|(module, path)| (module.to_owned(), path.to_owned())));
    let ours = opens(&test, "app.qtrace");
    let all: u64 = told.values().sum();
    let right: u64 = told.iter().map(|(key, &count)| count.min(ours.get(key).copied().unwrap_or(0))).sum();
    let wrong: Vec<_> = told.iter().filter(|(key, count)| ours.get(*key) != Some(count)).collect();
    assert!(all > 100, "{all}");
    assert!(right * 100 >= all * 95, "{right} of {all}: {wrong:#?}");
}

/// The modules of `-X importtime` with those within them, in the order of their ends: `time | time |   NAME`.
fn importtime(text: &str) -> Vec<(usize, String)> {
    let row = |line: &str| {
        let name = line.strip_prefix("import time:")?.rsplit_once('|')?.1;
        let name = name.strip_prefix(' ')?;
        let depth = name.len() - name.trim_start().len();
        Some((depth / 2, name.trim().to_owned()))
    };
    text.lines().filter_map(row).collect()
}

/// Pairs of importer and imported module, from rows that come after those within them.
fn parents(rows: &[(usize, String)]) -> BTreeMap<String, String> {
    let mut parents = BTreeMap::new();
    let mut around: Vec<&str> = Vec::new();
    for (depth, name) in rows.iter().rev() {
        around.truncate(*depth);
        // An absent module may be asked for again: the last time counts.
        let parent = || around.last().copied().unwrap_or_default().to_owned();
        parents.entry(name.clone()).or_insert_with(parent);
        around.push(name);
    }
    parents
}

#[test]
fn privileged_the_tree_is_that_of_importtime() {
    let Some(test) = Test::privileged(ALL) else { return };
    // The interpreter counts the depth of all threads in one number, so that only one may import at a time.
    let start = "threading.Thread(target=late).start()";
    assert!(APP.contains(start));
    test.write(
        "app.py",
        APP.replace(start, "late = threading.Thread(target=late); late.start(); late.join()"),
    );
    let script =
        "python3 app.py; $quell -q record --python -f -o app.qtrace -- python3 -X importtime app.py 2>told";
    test.script(script).succeeds();
    let report = test.json(&["report", "--json", "app.qtrace"]);
    let mut ours = BTreeMap::new();
    let mut around: Vec<&str> = Vec::new();
    for row in report["imports"].as_array().unwrap() {
        let (depth, module) = (row["depth"].as_u64().unwrap() as usize, row["module"].as_str().unwrap());
        around.truncate(depth);
        ours.insert(module.to_owned(), around.last().copied().unwrap_or_default().to_owned());
        around.push(module);
    }
    let mut theirs = parents(&importtime(&std::fs::read_to_string(test.path("told")).unwrap()));
    // These two are the hook itself, which asks for the site's own while it is read.
    theirs.retain(|module, _| !["sitecustomize", "usercustomize"].contains(&module.as_str()));
    // Ours has no built-in module. Theirs has those before the hook, and none that `importlib.import_module` asks for.
    let both: Vec<_> = theirs.iter().filter(|(module, _)| ours.contains_key(*module)).collect();
    let wrong: Vec<_> = both.iter().filter(|(module, parent)| ours[*module] != **parent).collect();
    assert!(both.len() > 100, "{}", both.len());
    assert!(wrong.len() * 20 <= both.len(), "{wrong:#?} of {}", both.len());
    // The statement that asked, also for one in a function, and for one in vain.
    let asked = |module: &str| {
        let rows = report["imports"].as_array().unwrap();
        let row = rows.iter().find(|row| row["module"] == module).unwrap();
        (
            row["file"].as_str().unwrap_or_default().rsplit('/').next().unwrap().to_owned(),
            row["line"].as_u64(),
        )
    };
    let app = |line| ("app.py".to_owned(), Some(line));
    assert_eq!(asked("asyncio"), app(1));
    assert_eq!(asked("nowhere_to_be_found"), app(5));
    assert_eq!(asked("tarfile"), app(11));
    assert_eq!(asked("asyncio.base_events").0, "__init__.py");
    // Each row has the operations of those within it.
    let sums = |of: &str| {
        report["imports"].as_array().unwrap().iter().map(|row| number(&row["own"][of])).sum::<u64>()
    };
    let outermost = report["imports"].as_array().unwrap().iter().filter(|row| row["depth"] == 0);
    let whole: u64 = outermost.map(|row| number(&row["all"]["metadata_operations"])).sum();
    assert_eq!(whole, sums("metadata_operations"));
    let standard = &report["packages"][0];
    assert_eq!(
        (standard["language"].as_str(), standard["name"].as_str()),
        (Some("Python"), Some("(standard library)"))
    );
    assert!(number(&standard["importing"]["metadata_operations"]) >= number(&standard["own"]["opens"]));
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

#[test]
fn privileged_the_hook_is_neither_in_the_trace_nor_in_the_way() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.write("app.py", APP);
    // A site's own module of the name that the hook uses, and a PYTHONPATH of the user's.
    test.write("lib/sitecustomize.py", "import sys\nsys.site_was_here = True\n");
    test.write(
        "show.py",
        "import sys\nexec(open('app.py').read())\nprint(sys.site_was_here, sys.path, sorted(sys.modules))\n",
    );
    test.write("wrong.py", "import broken\n");
    test.write("broken.py", "1/0\n");
    test.script(
        "export PYTHONPATH=lib PYTHONHASHSEED=0
for program in show wrong; do
    python3 $program.py >$program.plain 2>&1 || true
    $quell -q record -f -o $program-plain.qtrace -- python3 $program.py >/dev/null 2>&1 || true
    $quell -q record -f --python -o $program.qtrace -- python3 $program.py >$program.hooked 2>&1 || true
    cmp $program.plain $program.hooked
done
! ls -d ${TMPDIR:-/tmp}/quell-python-$$-* 2>/dev/null",
    )
    .succeeds();
    let counts = |trace: &str| {
        let report = test.json(&["report", "--json", trace]);
        (report["totals"]["metadata_operations"].clone(), report["totals"]["missed"].clone())
    };
    for program in ["show", "wrong"] {
        assert_eq!(
            counts(&format!("{program}.qtrace")),
            counts(&format!("{program}-plain.qtrace")),
            "{program}"
        );
    }
    let rows = test.quell(&["export", "show.qtrace", "--format", "csv", "-o", "-"]);
    assert!(!rows.succeeds().contains("quell-python"));
}

#[test]
fn privileged_imports_are_in_every_form() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.write("app.py", "import json, asyncio\n");
    test.script("$quell -q record --python -f -o app.qtrace -- python3 app.py").succeeds();
    let text = test.quell(&["report", "app.qtrace"]).succeeds();
    assert!(
        text.contains("Packages by operations") && text.contains("Imports, with those within them"),
        "{text}"
    );
    assert!(text.contains("  asyncio.base_events"), "{text}");
    let csv = test.quell(&["report", "--csv", "imports", "app.qtrace"]).succeeds();
    assert!(csv.starts_with("depth,module,package,file,line,imports,"), "{csv}");
    test.quell(&["report", "--html", "page.html", "app.qtrace"]).succeeds();
    let page = std::fs::read_to_string(test.path("page.html")).unwrap();
    assert!(page.contains("<code>asyncio.base_events</code>"));
    test.quell(&["export", "app.qtrace", "--format", "speedscope", "-o", "app.json"]).succeeds();
    let graph: Value = serde_json::from_slice(&std::fs::read(test.path("app.json")).unwrap()).unwrap();
    let profile = |name: &str| {
        graph["profiles"].as_array().unwrap().iter().find(|profile| profile["name"] == name).unwrap().clone()
    };
    let frames = graph["shared"]["frames"].as_array().unwrap();
    let place = frames.iter().position(|frame| frame["name"] == "asyncio.base_events").unwrap();
    assert!(frames[place]["file"].as_str().unwrap().ends_with("asyncio/__init__.py"));
    let by_import = profile("metadata operations by import");
    let weighs =
        by_import["samples"].as_array().unwrap().iter().zip(by_import["weights"].as_array().unwrap());
    let inside = weighs.filter(|(stack, _)| stack.as_array().unwrap().contains(&place.into()));
    let inside: u64 = inside.map(|(_, weight)| number(weight)).sum();
    let report = test.json(&["report", "--json", "app.qtrace"]);
    let row = report["imports"].as_array().unwrap().iter().find(|row| row["module"] == "asyncio.base_events");
    assert_eq!(inside, number(&row.unwrap()["all"]["metadata_operations"]));
}
