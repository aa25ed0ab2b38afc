//! Rewordings, the one harmless kind of difference: a request was refused after a look at the file, and is refused now
//! because the name is not found.

use super::Difference;

/// The message of Environment Modules for a name that it does not find.
const NOT_THERE: &str = "ERROR: Unable to locate a modulefile for '";

/// Its messages for a file that exists and cannot be used.
const NOT_USABLE: [&str; 4] = [
    "ERROR: Permission denied on '",
    "ERROR: Magic cookie '#%Module' missing",
    "ERROR: Modulefile requires at least Modules version ",
    "ERROR: No such file or directory on '",
];

/// The beginning of its own messages.
const ITS_WORDS: [&str; 2] = ["ERROR: ", "WARNING: "];

/// Lines around such a message: the file, and the contact.
const AROUND: [&str; 2] = ["In '", "Please contact "];

impl Difference {
    /// Tells whether a request for one name was refused before and is refused now, with only the reason changed.
    ///
    /// A difference holds the lines of each answer that the other lacks. Exit status and environment are lines as well, so
    /// they are equal here. An rc file that is only read now may add errors of its own.
    pub fn is_rewording(&self) -> bool {
        let asks_for_one = ["load ", "path "].iter().any(|command| self.question.starts_with(command));
        let begins = |line: &str, any: &[&str]| {
            let line = line.trim_start();
            let line = line.strip_prefix("Module ").unwrap_or(line);
            any.iter().any(|begin| line.starts_with(begin))
        };
        let refuses = |line: &str| begins(line, &NOT_USABLE);
        asks_for_one
            && self.new.lines().any(|line| begins(line, &[NOT_THERE]))
            && self.new.lines().all(|line| begins(line, &ITS_WORDS) || begins(line, &AROUND))
            && self.old.lines().any(refuses)
            && self.old.lines().all(|line| refuses(line) || begins(line, &AROUND))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_reason_of_a_refusal_may_have_other_words() {
        let is = |question: &str, old: &str, new: &str| {
            let (tool, user) = ("Modules 5.2.0".into(), "others".into());
            Difference { tool, user, question: question.into(), old: old.into(), new: new.into() }
                .is_rewording()
        };
        let denied = "ERROR: Permission denied on '<modulepath 1>/appg/1.0'\n";
        let gone = "ERROR: Unable to locate a modulefile for 'appg/1.0'\n";
        assert!(is("load appg/1.0", denied, gone) && is("path appg/1.0", denied, gone));
        let cookie = "Module ERROR: Magic cookie '#%Module' missing\n  In '<modulepath 1>/appg/README'\n  Please contact <root@localhost>\n";
        assert!(is("load appg/1.0", cookie, gone));
        assert!(is("load appg/1.0", cookie, &format!("ERROR: Invalid modulename './2.0' found\n{gone}")));
        for (question, old, new) in [
            ("load appg/1.0", denied, "ERROR: Invalid modulename './2.0' found\n"),
            ("load appg/1.0", denied, &format!("A=1;\n{gone}")),
            ("avail", denied, gone),
            ("load appg/1.0", gone, denied),
            ("load appg/1.0", denied, ""),
            ("load appg/1.0", "", gone),
            ("load appg/1.0", "setenv A 1\n", gone),
            ("load appg/1.0", &format!("A=1;\n{denied}"), gone),
            ("load appg/1.0", &format!("status 0\n{denied}"), &format!("status 1\n{gone}")),
            ("load appg/1.0", "Please contact root\n", gone),
        ] {
            assert!(!is(question, old, new), "{question}: {old} {new}");
        }
    }
}
