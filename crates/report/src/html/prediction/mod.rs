//! The page of a prediction: what is read without a script in words and tables, and the object that the script draws from.

mod model;
mod start;
mod tables;

pub use model::{
    Advice, Change, Curve, CurvePoint, Inputs, MeasuredPoint, Page, Swing, Tornado, WhatIfs, of_creates,
};

pub use start::of_start;

use super::document::{Document, document};
use super::escape::{prose, text};

const SCRIPT: &str = include_str!("../../../web/dist/prediction.js");
/// What the browser allows this page.
const POLICY: &str = include_str!("../../../web/dist/prediction.policy.txt");

/// The page; `whole` is the object of `--json`, which a reader can save from it.
///
/// # Errors
/// A number that JSON cannot hold.
pub fn prediction(page: &Page, whole: &impl serde::Serialize) -> Result<String, serde_json::Error> {
    let body = [
        head(page),
        "<div id=\"charts\"></div>\n".to_owned(),
        tables::points(page),
        tables::what_ifs(page),
        tables::advice(page),
        tables::inputs(page),
    ];
    let title = text(&page.title);
    Ok(document(&Document {
        title: &format!("{}: {title}", text(&page.subject)),
        description: &title,
        body: &body.concat(),
        first: "prediction",
        missing: "The chart needs JavaScript, which this browser does not run; its numbers are in the tables.",
        foot: "Predicted, not measured: a range, from the figures at the end of this page.",
        data: &[("report", serde_json::to_string(whole)?), ("page", serde_json::to_string(page)?)],
        script: SCRIPT,
        policy: POLICY,
    }))
}

fn head(page: &Page) -> String {
    let notes: String =
        page.notes.iter().map(|note| format!("<li>{}.</li>\n", prose(&super::sentence(note)))).collect();
    let saturated = page.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
    let worst: Vec<String> = saturated
        .filter(|(_, point)| point.saturated)
        .map(|(curve, _)| curve.name.clone())
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    let warning = match worst.as_slice() {
        [] => String::new(),
        names => format!(
            "<section class=\"doubts\" role=\"note\" aria-label=\"Read with care\"><h2>Read with care</h2>\n\
             <ul><li>More is asked of {} than its servers can do: expect failures beside long times.</li></ul></section>\n",
            text(&names.join(", "))
        ),
    };
    format!(
        "{warning}<section id=\"prediction\" aria-labelledby=\"prediction-title\">\n\
         <p class=\"ran\"><code>{}</code></p>\n\
         <h1 id=\"prediction-title\">{}.</h1>\n\
         <ul class=\"notes\">\n{notes}</ul>\n</section>\n",
        text(&page.subject),
        text(&page.title),
    )
}

/// The JSON schema of [`Page`], for the types of its script.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Page).to_value()
}
