//! The page of a prediction: words and tables that need no script, and the object that the script draws from.

use super::bundle;
use super::document::{Document, document};
use super::escape::prose;
use super::tables;
use crate::text::stopless;
use crate::view::PredictionPage;
use maud::{Markup, html};
use std::collections::BTreeSet;

/// The permissions that the page gives the browser.
const POLICY: &str = include_str!("../../web/dist/prediction.policy.txt");

/// The page; `whole` is the object of `--json`, which a reader can save from it.
///
/// # Errors
/// A number that JSON cannot hold.
pub fn prediction(page: &PredictionPage, whole: &impl serde::Serialize) -> Result<String, serde_json::Error> {
    let body = html! {
        (head(page))
        div #charts {}
        (tables::points(page))
        (tables::what_ifs(page))
        (tables::advice(page))
        (tables::inputs(page))
    };
    Ok(document(&Document {
        title: &format!("{}: {}", page.subject, page.title),
        description: &page.title,
        body,
        first: "prediction",
        missing: "The chart needs JavaScript, which this browser does not run; its numbers are in the tables.",
        foot: "Predicted, not measured: a range, from the figures at the end of this page.",
        data: &[("report", serde_json::to_string(whole)?), ("page", serde_json::to_string(page)?)],
        script: &bundle::prediction_script(),
        policy: POLICY,
    }))
}

fn head(page: &PredictionPage) -> Markup {
    let is_saturated = |point: &crate::view::CurvePoint| point.saturated;
    let saturated = page.curves.iter().filter(|curve| curve.points.iter().any(is_saturated));
    let names: BTreeSet<&str> = saturated.map(|curve| curve.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    html! {
        @if !names.is_empty() {
            section.doubts role="note" aria-label="Read with care" {
                h2 { "Read with care" }
                ul {
                    li {
                        "More is asked of " (names.join(", "))
                        " than the servers can do: expect failures beside long times."
                    }
                }
            }
        }
        section #prediction aria-labelledby="prediction-title" {
            p.ran { code { (page.subject) } }
            h1 #prediction-title { (page.title) "." }
            ul.notes { @for note in &page.notes { li { (prose(&stopless(note))) "." } } }
        }
    }
}
