//! The man page of the settings file: the keys and their meaning from the flag definitions, the rest written here.

use clap::Command;
use quell_cli::settings::keys::{self, SettingForm, SettingKey};
use std::fmt::Write as _;

/// quell.toml(5).
pub(crate) fn page(definitions: &Command) -> String {
    let mut page = HEAD.replace("VERSION", env!("CARGO_PKG_VERSION"));
    let keys = keys::keys(definitions);
    let settable: Vec<&SettingKey<'_>> = keys.iter().filter(|key| keys::barred(key.flag).is_none()).collect();
    section(
        &mut page,
        "Before the first table: settings of every command",
        settable.iter().filter(|key| key.command.is_none()),
    );
    for command in definitions.get_subcommands() {
        let own = settable.iter().filter(|key| key.command == Some(command.get_name()));
        section(&mut page, &format!("[{}]", command.get_name()), own);
    }
    page.push_str(TAIL);
    page
}

fn section<'a>(page: &mut String, title: &str, keys: impl Iterator<Item = &'a &'a SettingKey<'a>>) {
    let mut keys = keys.peekable();
    if keys.peek().is_none() {
        return;
    }
    // Writing to a string cannot fail.
    _ = writeln!(page, ".SS \"{title}\"");
    for key in keys {
        let help = key.flag.get_help().map(ToString::to_string).unwrap_or_default();
        let values = values(key);
        _ = writeln!(page, ".TP\n\\fB{}\\fR = {values}\n{}.", escaped(key.name()), escaped(&help));
    }
}

/// The values that may stand behind the equals sign.
fn values(key: &SettingKey<'_>) -> String {
    let possible: Vec<String> =
        key.flag.get_possible_values().iter().map(|value| format!("\"{}\"", value.get_name())).collect();
    match keys::shape(key.flag) {
        SettingForm::Switch => "true | false".to_owned(),
        _ if !possible.is_empty() => escaped(&possible.join(" | ")),
        SettingForm::Single => "\\fIvalue\\fR".to_owned(),
        SettingForm::List => "[\\fIvalue\\fR, ...]".to_owned(),
    }
}

/// Text as roff takes it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

const HEAD: &str = r#".TH quell.toml 5 "" "quell VERSION" "File formats"
.SH NAME
quell.toml \- settings of quell for a user or a site
.SH SYNOPSIS
.nf
.I $XDG_CONFIG_HOME/quell.toml\fR, else \fI~/.config/quell.toml
.I /etc/quell.toml
.fi
.SH DESCRIPTION
A settings file gives flags of
.BR quell (1)
other defaults.
A flag on the command line takes precedence over its QUELL_* variable, if it has one; then come the file of
.BR \-\-config ,
or else the user's, the site's file, and the built-in value.
.B quell config
shows every setting, its value and its source.
.PP
The file is TOML. A key is the long name of a flag.
Before the first table it holds for every command that has the flag; in the table of a command it holds for that command, and goes before the former.
.PP
.RS
.nf
quiet = true
.sp
[run]
check = "none"
.sp
[record]
ranks = [0, 17]
.fi
.RE
.PP
A switch that a file sets is unset by its variable, such as
.BR QUELL_QUIET=0 ;
a switch without a variable by
.BR "\-\-config /dev/null" ,
which reads no file of the user.
.PP
Flags that name a file of one run, \fB\-\-force\fR and \fB\-\-config\fR cannot be set in a file.
.B \-\-config \fIFILE\fR
and
.B QUELL_CONFIG
name another file to read in place of the user's.
.SH WHICH FILES COUNT
The user's file counts when the user or root owns it, the site's when root owns it; neither when every user can write it.
A file that is named counts, whichever user owns it.
.PP
Ranks that a launcher started, more than one, do not look into the home directory: on a shared file system each of them would add to the storm.
The first rank warns where the user's file would have changed something.
Set variables in the job script, or QUELL_CONFIG, which every rank reads.
.SH MISTAKES
.BR "quell record" " and " "quell run"
never end their command for a mistake in a settings file: the first rank warns, once, and what is right counts.
For other commands a mistake in the user's file or a named one is an error, status 2, and one in the site's file a warning.
A file that is not TOML sets nothing.
.B quell config
names every mistake in every file and ends with status 2.
.SH SETTINGS
"#;

const TAIL: &str = r#".SH SEE ALSO
.BR quell (1),
.BR quell\-config (1)
"#;
