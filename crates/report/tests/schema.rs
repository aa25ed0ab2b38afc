//! The output has the structure that the schema promises: every property declared, every required one there,
//! every type right.

use quell_analyse::{LimitsInForce, Summary, Tally, compare, diagnose};
use quell_report::view::{self, ReportView, Rows};
use quell_trace::*;
use serde_json::Value;

fn schema(name: &str) -> Value {
    let named = view::SCHEMAS.iter().find(|(known, _)| *known == name);
    named.expect("a schema of this name").1()
}

/// Checks `value` against the part of JSON Schema that the generator uses.
fn check(root: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let definition = root.pointer(&reference[1..]).expect("a definition");
        return check(root, definition, value, at);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let null = choices.iter().any(|choice| choice["type"] == "null");
        if value.is_null() && null {
            return;
        }
        let other = choices.iter().find(|choice| choice["type"] != "null").expect("a choice");
        return check(root, other, value, at);
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    assert!(types.contains(&kind), "{at}: {kind} is not {types:?}");
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(value.get(name).is_some(), "{at}: `{name}` is missing");
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        let declared =
            schema["properties"].get(name).unwrap_or_else(|| panic!("{at}: `{name}` is undeclared"));
        assert!(
            declared["description"].is_string() || declared["$ref"].is_string(),
            "{at}.{name} is not described"
        );
        check(root, declared, member, &format!("{at}.{name}"));
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(root, &schema["items"], item, &format!("{at}[{index}]"));
    }
}

fn summary(completeness: Completeness) -> Summary {
    let mut header = Header {
        completeness,
        exit: (completeness == Completeness::Complete).then_some(Exit::Signal(11)),
        seconds: (completeness == Completeness::Complete).then_some(1.5),
        host: "node".into(),
        rank: Some(RankId(0)),
        ranks: Some(2),
        ..Header::begun("ptrace", "0", vec!["a".into()])
    };
    header.recorder.lost = 1;
    let mut paths = PathTable::default();
    let target = Some(paths.intern(b"/a/lib/python3.11/site-packages/b/__init__.py"));
    let mount = Mount::of_type(0, "/", "lustre");
    let execution = Execution::of(0, Nanos(0), vec!["a".into()]);
    let import = Import {
        thread: ThreadId(0),
        begin: Nanos(0),
        end: None,
        module: "b".into(),
        file: Some("a.py".into()),
        line: 1,
        origin: None,
    };
    let context = Context {
        mounts: vec![mount],
        processes: vec![Process::first(Pid(1))],
        threads: vec![Thread::first(Pid(1), ProcessId(0))],
        executions: vec![execution],
        imports: vec![import],
        ..Context::default()
    };
    let mut tally = Tally::new("a.qtrace", &header, &paths, &context);
    for outcome in [Outcome::Success(3), Outcome::Failure(Errno::ENOENT), Outcome::Failure(Errno(13))] {
        let event = Event::new(Call::Openat);
        tally.add(&Event { target, outcome, duration: Nanos(1_500), file_system: Some(MountId(0)), ..event });
        tally.add(&Event { target, outcome, ..Event::new(Call::Stat) });
    }
    tally.finish()
}

fn report_of(summary: &Summary) -> ReportView {
    view::report(summary, &diagnose(summary, &LimitsInForce::default()), Rows::Top)
}

#[test]
fn reports_and_diffs_are_as_their_schemas_say() {
    let (report, diff) = (schema("report"), schema("diff"));
    let summaries = [Summary::default(), summary(Completeness::Complete), summary(Completeness::Partial)];
    for a in &summaries {
        check(&report, &report, &serde_json::to_value(report_of(a)).unwrap(), "report");
        for b in &summaries {
            check(
                &diff,
                &diff,
                &serde_json::to_value(view::diff(&compare(a, b), &[], Rows::Top)).unwrap(),
                "diff",
            );
        }
    }
    // Each list of the full report has been checked with at least one entry, but for findings.
    let full = serde_json::to_value(report_of(&summaries[1])).unwrap();
    for (name, value) in full.as_object().unwrap() {
        let empty = value.as_array().is_some_and(Vec::is_empty);
        assert!(!empty || name == "findings", "{name} is empty");
    }
}

#[test]
fn findings_and_remedies_are_as_their_schemas_say() {
    let (report, fix) = (schema("report"), schema("fix"));
    let a = summary(Completeness::Complete);
    let thresholds =
        quell_analyse::findings::LIMITS.iter().map(|limit| (limit.threshold.name.to_owned(), 0.0));
    let limits = LimitsInForce { thresholds: thresholds.collect(), osts: None };
    let diagnosis = diagnose(&a, &limits);
    assert!(!diagnosis.findings.is_empty());
    check(
        &report,
        &report,
        &serde_json::to_value(view::report(&a, &diagnosis, Rows::Top)).unwrap(),
        "report",
    );
    check(&fix, &fix, &serde_json::to_value(view::fix(&a, &diagnosis.plan)).unwrap(), "fix");
}

#[test]
fn every_schema_says_which_version_it_is_of() {
    assert!(view::SCHEMAS.is_sorted_by_key(|(name, _)| *name));
    for (name, make) in view::SCHEMAS {
        let schema = make();
        assert!(schema["properties"]["schema_version"].is_object(), "{name}");
        assert!(schema["description"].is_string(), "{name}");
    }
    assert_eq!(serde_json::to_value(report_of(&Summary::default())).unwrap()["schema_version"], 1);
}
