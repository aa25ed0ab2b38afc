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
//! quell needs no npm. All text of a trace is hostile: it passes through `escape` on its way into the page.
//! Nothing is computed here: a page is a form of what `--json` prints.

mod document;
mod escape;
mod findings;
pub mod prediction;
mod storm;

use crate::view;
use document::{Document, document};
use escape::text;
use storm::sentence;

const SCRIPT: &str = include_str!("../../web/dist/page.js");
/// What the browser allows the page of a report.
const POLICY: &str = include_str!("../../web/dist/policy.txt");

/// The page of a report.
///
/// # Errors
/// A number that JSON cannot hold.
pub fn report(report: &view::ReportView) -> Result<String, serde_json::Error> {
    let title = text(&report.headline.clauses.join("; "));
    let command = text(&crate::text::command(&report.command));
    let charts = "<div id=\"charts\"></div>\n".to_owned();
    let body = [storm::doubts(report), storm::storm(report), findings::findings(report), charts].concat();
    Ok(document(&Document {
        title: &format!("{command}: {title}"),
        description: &title,
        body: &body,
        first: "storm",
        missing: "Charts and tables need JavaScript, which this browser does not run.",
        foot: "Times have the recorder's own work in them.",
        data: &[("report", serde_json::to_string(report)?)],
        script: SCRIPT,
        policy: POLICY,
    }))
}
