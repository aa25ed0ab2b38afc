//! Forms of data on standard output: JSON, and at most one form at a time.

use crate::failure::Failure;

/// Refuses what would mix two forms on standard output. Shape: each flag, and whether it was given.
pub(crate) fn only_one_on_stdout(flags: &[(&str, bool)]) -> Result<(), Failure> {
    let mut given = flags.iter().filter(|(_, given)| *given);
    match (given.next(), given.next()) {
        (Some((first, _)), Some((second, _))) => {
            let message = format!("`{first}` and `{second}` would both go to standard output");
            Err(Failure::message(message).hint("leave one out; a settings file may have set the other"))
        }
        _ => Ok(()),
    }
}

/// One object, indented, with a final newline. It is looked at on terminals too: characters that are not seen, or that
/// change how others are seen, are escaped. They stand in strings only, so the value is the same.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let pretty = serde_json::to_string_pretty(value)?;
    let mut text = String::with_capacity(pretty.len() + 1);
    for character in pretty.chars() {
        match character != '\n' && quell_base::is_hidden(character) {
            true => text += &format!("\\u{:04x}", u32::from(character)),
            false => text.push(character),
        }
    }
    text.push('\n');
    Ok(text)
}
