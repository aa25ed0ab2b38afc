//! A whole page around its content: policy, style sheet, the objects that its script reads, the script.

use super::escape::data;

/// The parts of a page. Text is escaped already, but for the objects.
pub(super) struct Document<'a> {
    /// Of the window.
    pub(super) title: &'a str,
    /// For who meets the page in a list.
    pub(super) description: &'a str,
    /// What is read without a script, and where the script adds to it.
    pub(super) body: &'a str,
    /// The section that the mark leads to.
    pub(super) first: &'a str,
    /// What is missing without a script.
    pub(super) missing: &'a str,
    /// The last words.
    pub(super) foot: &'a str,
    /// Identifiers and JSON, in one line each.
    pub(super) data: &'a [(&'a str, String)],
    /// The script.
    pub(super) script: &'a str,
    /// What the browser allows: this script and the style sheet by their digests, and no request.
    pub(super) policy: &'a str,
}

const STYLE: &str = include_str!("../../web/dist/page.css");

/// The page.
pub(super) fn document(parts: &Document<'_>) -> String {
    let object = |(id, json): &(&str, String)| {
        format!("<script type=\"application/json\" id=\"{id}\">{}</script>\n", data(json))
    };
    let Document { title, description, body, first, missing, foot, script, policy, .. } = parts;
    format!(
        "<!doctype html>\n\
         <html lang=\"en-GB\">\n\
         <head>\n\
         <meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"generator\" content=\"quell {version}\">\n\
         <meta name=\"description\" content=\"{description}\">\n\
         <title>{title}</title>\n\
         <style>{STYLE}</style>\n\
         </head>\n\
         <body>\n\
         <header class=\"top\"><a class=\"mark\" href=\"#{first}\">quell</a><nav aria-label=\"Sections\"></nav></header>\n\
         <main>\n{body}\
         <noscript><p class=\"note\">{missing}</p></noscript>\n\
         </main>\n\
         <footer class=\"foot\"><p>Written by quell {version}. {foot}</p></footer>\n\
         {objects}\
         <script>{script}</script>\n\
         </body>\n\
         </html>\n",
        policy = policy.trim_end(),
        version = env!("CARGO_PKG_VERSION"),
        objects = parts.data.iter().map(object).collect::<String>(),
    )
}
