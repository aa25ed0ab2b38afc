//! The page for a browser, as far as it is read without one: its words, its numbers, and that no text becomes markup.
#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use quell_analyse::findings::{Cost, Finding, Remedy, RemedyPlan, Threshold};
use quell_analyse::{Diagnosis, Summary, Tally};
use quell_report::html;
use quell_report::view::{self, ReportView, Rows};
use quell_trace::*;

const HOSTILE: &str = "</script><script>alert(1)</script>\u{2028}\u{202e}<!--";

fn header() -> Header {
    let mut header = Header {
        working_directory: "/work".into(),
        began: 1.5e9,
        host: "node".into(),
        user: 1000,
        ..Header::begun("ptrace", "0", vec!["./app".into(), HOSTILE.into()])
    };
    header.recorder.lost = 2;
    header.recorder.notes = vec![format!("a note with `{HOSTILE}`")];
    header
}

/// A run that stats these paths, all absent, and one that is there, twice.
fn run(absent: &[&str]) -> Summary {
    let mut paths = PathTable::default();
    let mut events = Vec::new();
    let mut call = |path: &str, outcome| {
        let start = Nanos(1_000_000 * events.len() as u64);
        let target = Some(paths.intern(path.as_bytes()));
        events.push(Event { target, start, outcome, duration: Nanos(9_000), ..Event::new(Call::Newfstatat) });
    };
    for path in absent {
        call(path, Outcome::Failure(Errno::ENOENT));
    }
    if !absent.is_empty() {
        call("/there", Outcome::Success(0));
        call("/there", Outcome::Success(0));
    }
    let context = Context { processes: vec![Process::first(Pid(1))], ..Context::default() };
    let mut tally = Tally::new("app.qtrace", &header(), &paths, &context);
    events.iter().for_each(|event| tally.add(event));
    let mut summary = Summary::default();
    summary.merge(tally.finish());
    summary
}

fn finding(cost: Cost, after: u64, evidence: usize) -> Finding {
    Finding {
        code: "search-path-misses",
        title: format!("`{HOSTILE}` is looked for in vain"),
        evidence: (0..evidence).map(|index| format!("entry {index} of {HOSTILE}")).collect(),
        threshold: Threshold { name: "search-misses", value: 0.1, unit: "share" },
        measured: 0.75,
        operations: 3,
        counted: quell_analyse::findings::Counted::MetadataOperations,
        remedy: Remedy {
            text: "leave it out".into(),
            command: format!("export PATH='{HOSTILE}'"),
            cost,
            metadata_operations_after: after,
            operations_after: after.min(1),
        },
    }
}

fn view_of(summary: &Summary, findings: &[Finding]) -> ReportView {
    let plan = RemedyPlan {
        metadata_operations: summary.totals().metadata_operations,
        steps: Vec::new(),
        in_one_line: None,
    };
    view::report(summary, &Diagnosis { findings: findings.to_vec(), plan }, Rows::Top)
}

fn page(summary: &Summary, findings: &[Finding]) -> String {
    html::report(&view_of(summary, findings)).unwrap()
}

/// The part between two marks, the first included.
fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let begin = page.find(from).unwrap_or_else(|| panic!("no `{from}`"));
    let end = page[begin..].find(to).unwrap_or_else(|| panic!("no `{to}`"));
    &page[begin..begin + end]
}

/// The same as it reads, a line for each block: spaces inside numbers are spaces.
fn words(page: &str, from: &str, to: &str) -> String {
    const BLOCKS: [&str; 9] = ["<ul", "<li", "<p ", "<h1", "<h3", "<table", "<tr>", "<div", "<pre"];
    let text = between(page, from, to).replace('\u{202f}', " ");
    BLOCKS.iter().fold(text, |text, block| text.replace(block, &format!("\n{block}")))
}

/// The object inside a page.
fn numbers(page: &str) -> serde_json::Value {
    let open = "<script type=\"application/json\" id=\"report\">";
    serde_json::from_str(&between(page, open, "</script>")[open.len()..]).unwrap()
}

#[test]
fn the_numbers_inside_are_those_of_json() {
    for summary in [run(&[]), run(&["/a", HOSTILE, "/lib/\u{e9}"])] {
        let report = view_of(&summary, &[finding(Cost::Nothing, 2, 1)]);
        assert_eq!(numbers(&html::report(&report).unwrap()), serde_json::to_value(&report).unwrap());
    }
}

#[test]
fn hostile_text_never_becomes_markup() {
    let page = page(&run(&[HOSTILE, "/b"]), &[finding(Cost::Setup, 2, 5)]);
    assert_eq!(page.matches("<script").count(), 2, "the numbers and our script");
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<!--") && !page.contains(['\u{2028}', '\u{202e}']));
}

#[test]
fn the_page_allows_its_own_script_and_nothing_else() {
    let page = page(&run(&["/a"]), &[]);
    let policy = between(&page, "http-equiv=\"Content-Security-Policy\" content=\"", "\">");
    assert!(policy.contains("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http:"), "{policy}");
    for fetched in [" src=", "<link", "@import", "url("] {
        assert!(!page.contains(fetched), "{fetched}");
    }
}

#[test]
fn what_everybody_reads_needs_no_script() {
    let page = page(&run(&["/a", "/b", "/c"]), &[]);
    insta::assert_snapshot!(words(&page, "<section class=\"doubts\"", "<div id=\"charts\""), @r#"
    <section class="doubts" role="note" aria-label="Read with care"><h2>Read with care</h2>
    <ul>
    <li data-code="partial">A recording is partial: its last events may be missing. <span>Record again and let the command end; the counted operations did happen.</span></li>
    <li data-code="lost-events">2 events were lost. <span>Read the counts as lower bounds, or record again.</span></li>
    <li data-code="unknown-file-system">5 of 5 metadata operations are on no known file system. <span>Look for chroot, containers or descriptors passed over sockets.</span></li>
    <li data-code="note">A note with <code>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;\u{2028}\u{202e}&lt;!--</code>.</li></ul></section><section id="storm" aria-labelledby="storm-title">
    <p class="ran"><code>./app $'&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;\xe2\x80\xa8\xe2\x80\xae&lt;\x21--'</code><span>the recording ended first, 2017-07-14 02:40 UTC</span></p>
    <h1 id="storm-title"><span>5 metadata operations within 4.01 ms</span>; <span class="missed">60 % missed</span>; <span>on 1 000 nodes 5 000 if they share the files</span>.</h1><svg class="split" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true"><rect class="part-missed" x="0.00" width="600.00" height="10"></rect><rect class="part-repeated" x="600.00" width="200.00" height="10"></rect><rect class="part-needed" x="800.00" width="200.00" height="10"></rect></svg>
    <table class="parts"><caption class="unseen">The outcome of the metadata operations</caption><thead class="unseen">
    <tr><th scope="col">part</th><th scope="col">operations</th><th scope="col">share</th><th scope="col">what it is</th></tr></thead><tbody>
    <tr><th scope="row"><i class="part-missed"></i>missed</th><td>3</td><td>60 %</td><td>the name is absent</td></tr>
    <tr><th scope="row"><i class="part-repeated"></i>repeated</th><td>1</td><td>20 %</td><td>had succeeded before</td></tr>
    <tr><th scope="row"><i class="part-needed"></i>needed</th><td>1</td><td>20 %</td><td>first success for an operation and path</td></tr></tbody></table><dl class="figures">
    <div data-figure="rate"><dd>1 250</dd><dt>metadata operations a second</dt></div>
    <div data-figure="network"><dd>0</dd><dt>on the network, 0 %</dt></div>
    <div data-figure="local"><dd>0</dd><dt>on the node itself, 0 %</dt></div>
    <div data-figure="unknown"><dd>5</dd><dt>on no known file system, 100 %</dt></div>
    <div data-figure="paths"><dd>4</dd><dt>different paths</dt></div>
    <div data-figure="calls"><dd>5</dd><dt>calls, 3 failed</dt></div>
    <div data-figure="read"><dd>0 B</dd><dt>read, 0 B written</dt></div></dl>
    <div class="next" id="next"><h2>Next</h2>
    <pre class="command"><code>quell pack app.qtrace --root DIR -o app.qimg</code></pre></div></section>
    "#);
}

#[test]
fn a_finding_is_a_card_with_its_remedy() {
    let page = page(&run(&["/a", "/b"]), &[finding(Cost::Nothing, 1, 4)]);
    insta::assert_snapshot!(words(&page, "<section id=\"findings\"", "<div id=\"charts\""), @r#"
    <section id="findings" aria-labelledby="findings-title"><h2 id="findings-title">Findings</h2>
    <div class="cards"><article class="card" id="finding-0" data-code="search-path-misses" data-cost="nothing">
    <p class="tags"><code>search-path-misses</code><span class="cost">costs nothing</span></p>
    <h3><code>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;\u{2028}\u{202e}&lt;!--</code> is looked for in vain.</h3>
    <ul class="evidence">
    <li>entry 0 of &lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;\u{2028}\u{202e}&lt;!--</li>
    <li>entry 1 of &lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;\u{2028}\u{202e}&lt;!--</li>
    <li>entry 2 of &lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;\u{2028}\u{202e}&lt;!--</li></ul><details><summary>1 more</summary>
    <ul class="evidence">
    <li>entry 3 of &lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;\u{2028}\u{202e}&lt;!--</li></ul></details>
    <p class="remedy">Leave it out.</p>
    <pre class="command"><code>export PATH='&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;\u{2028}\u{202e}&lt;!--'</code></pre>
    <table class="bars"><caption>Metadata operations of the run: 75 % fewer</caption><tbody>
    <tr><th scope="row">now</th><td><svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true"><rect class="now" width="1000.00" height="10"></rect></svg></td><td>4</td></tr>
    <tr><th scope="row">with it</th><td><svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true"><rect class="then" width="250.00" height="10"></rect></svg></td><td>1</td></tr></tbody></table>
    <p class="limit"><code>search-misses</code>: limit 10 %, measured 75 %</p></article></div></section>
    "#);
}

#[test]
fn a_remedy_of_requests_shows_those_and_one_that_leaves_all_shows_none() {
    let mut finding = finding(Cost::Program, 4, 0);
    finding.counted = quell_analyse::findings::Counted::Requests;
    let with = page(&run(&["/a", "/b"]), std::slice::from_ref(&finding));
    assert!(with.contains("changes the program") && with.contains("Requests of this finding: 67"));
    finding.remedy.operations_after = finding.operations;
    assert!(!page(&run(&["/a", "/b"]), &[finding]).contains("class=\"bars\""));
}

#[test]
fn nothing_is_said_about_what_is_not_there() {
    let page = page(&run(&[]), &[]);
    assert!(page.contains("<span>Nothing was asked of any file system</span>."));
    for absent in ["id=\"findings\"", "class=\"split\"", "class=\"figures\""] {
        assert!(!page.contains(absent), "{absent}");
    }
}

#[test]
fn a_command_stands_on_the_page_once() {
    let two = [finding(Cost::Nothing, 1, 4), finding(Cost::Nothing, 1, 4)];
    let page = page(&run(&["/a", "/b"]), &two);
    assert_eq!(page.matches("<pre class=\"command\"><code>export PATH").count(), 1);
    assert!(page.contains("<a href=\"#finding-0\">The command is that of search-path-misses, above.</a>"));
}
