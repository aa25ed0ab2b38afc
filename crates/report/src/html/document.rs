//! A whole page around its content: policy, style sheet, the objects that its script reads, the script.

use super::bundle;
use super::escape::{data, shown};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The parts of a page.
pub(super) struct Document<'a> {
    /// Of the window.
    pub(super) title: &'a str,
    /// For readers who meet the page in a list.
    pub(super) description: &'a str,
    /// The part that needs no script, with the places that the script fills.
    pub(super) body: Markup,
    /// The section that the mark leads to.
    pub(super) first: &'a str,
    /// The loss without a script; empty for a page that has none.
    pub(super) missing: &'a str,
    /// The last words.
    pub(super) foot: &'a str,
    /// Identifiers and JSON, in one line each.
    pub(super) data: &'a [(&'a str, String)],
    /// The script.
    pub(super) script: &'a str,
    /// The permissions: this script and the style sheet by their digests, and no request.
    pub(super) policy: &'a str,
}

/// The page.
pub(super) fn document(parts: &Document<'_>) -> String {
    let Document { title, description, body, first, missing, foot, script, policy, .. } = parts;
    let version = env!("CARGO_PKG_VERSION");
    let top = html! {
        header.top {
            a.mark href=(format_args!("#{first}")) { "quell" }
            nav aria-label="Sections" {}
        }
        main {
            (body)
            @if !missing.is_empty() { noscript { p.note { (missing) } } }
        }
        footer.foot { p { "Written by quell " (version) ". " (foot) } }
    };
    let page = html! {
        (DOCTYPE)
        html lang="en-GB" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(PreEscaped(policy.trim_end()));
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                meta name="generator" content=(format_args!("quell {version}"));
                meta name="description" content=(shown(description));
                title { (shown(title)) }
                style { (PreEscaped(bundle::style())) }
            }
            body {
                (PreEscaped(shown(&top.0)))
                @for (id, json) in parts.data {
                    script type="application/json" id=(id) { (PreEscaped(data(json))) }
                }
                @if !script.is_empty() { script { (PreEscaped(script)) } }
            }
        }
    };
    page.into_string()
}
