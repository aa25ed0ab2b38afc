//! `quell report --html`: one page for a browser, with everything in it and nothing fetched.
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
//! Nothing is computed here: it is a form of [`json::Report`].

mod escape;
mod findings;
mod storm;

use crate::json;
use escape::{data, text};

const SCRIPT: &str = include_str!("../../web/dist/page.js");
const STYLE: &str = include_str!("../../web/dist/page.css");
/// What the browser allows the page: its own script and style by their digests, and no request.
const POLICY: &str = include_str!("../../web/dist/policy.txt");

/// The page of a report.
///
/// # Errors
/// A number that JSON cannot hold.
pub fn report(report: &json::Report) -> Result<String, serde_json::Error> {
    let numbers = data(&serde_json::to_string(report)?);
    let title = text(&report.headline.clauses.join("; "));
    let command = text(&crate::text::command(&report.command));
    let body = [storm::doubts(report), storm::storm(report), findings::findings(report)].concat();
    Ok(format!(
        "<!doctype html>\n\
         <html lang=\"en-GB\">\n\
         <head>\n\
         <meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"generator\" content=\"quell {version}\">\n\
         <meta name=\"description\" content=\"{title}\">\n\
         <title>{command}: {title}</title>\n\
         <style>{STYLE}</style>\n\
         </head>\n\
         <body>\n\
         <header class=\"top\"><a class=\"mark\" href=\"#storm\">quell</a><nav aria-label=\"Sections\"></nav></header>\n\
         <main>\n{body}\
         <div id=\"charts\"></div>\n\
         <noscript><p class=\"note\">Charts and tables need JavaScript, which this browser does not run.</p></noscript>\n\
         </main>\n\
         <footer class=\"foot\"><p>Written by quell {version}. Times have the recorder's own work in them.</p></footer>\n\
         <script type=\"application/json\" id=\"report\">{numbers}</script>\n\
         <script>{SCRIPT}</script>\n\
         </body>\n\
         </html>\n",
        policy = POLICY.trim_end(),
        version = env!("CARGO_PKG_VERSION"),
    ))
}
