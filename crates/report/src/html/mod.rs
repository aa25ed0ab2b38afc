//! Pages for a browser, `quell report --html` and `quell predict --html`: everything in them and nothing fetched.
//!
//! ```text
//! head     a policy that forbids the network; the style sheet
//! body     what is read without a script: doubts, the storm, what became of it, findings
//!          empty <div id="charts">, which the script fills: time, map, phases, searches, tables
//!          <script type="application/json" id="report">: the object of --json, whole
//!          the script
//! ```
//!
//! Style, script and policy are built from `web/` into `web/dist/` by `npm run build` and committed, so that building
//! quell needs no npm. All text of a trace is hostile: `maud` escapes markup, and `escape` hidden characters.
//! Nothing is computed here: a page is a form of what `--json` prints.

mod bundle;
mod counters;
mod document;
mod escape;
mod findings;
mod fleet;
mod imports;
mod prediction;
mod storm;
mod tables;

pub use fleet::fleet;
pub use prediction::prediction;

use crate::view::ReportView;
use document::{Document, document};
use maud::html;

/// The permissions that the page of a report gives the browser.
const POLICY: &str = include_str!("../../web/dist/policy.txt");

/// The page of a report.
///
/// # Errors
/// A number that JSON cannot hold.
pub fn report(report: &ReportView) -> Result<String, serde_json::Error> {
    let title = report.headline.clauses.join("; ");
    let body = html! {
        (storm::doubts(report))
        (storm::storm(report))
        (findings::findings(report))
        (counters::counters(report))
        (imports::imports(report))
        div #charts {}
    };
    Ok(document(&Document {
        title: &format!("{}: {title}", crate::text::command(&report.command)),
        description: &title,
        body,
        first: "storm",
        missing: "Charts and tables need JavaScript, which this browser does not run.",
        foot: "Times have the recorder's own work in them.",
        data: &[("report", serde_json::to_string(report)?)],
        script: &bundle::report_script(),
        policy: POLICY,
    }))
}
