//! Users by name, from `id` and `getent`: the binary is static and asks no directory service, such as LDAP, itself.

use crate::failure::Failure;
use quell_base::escape;
use std::process::Command;

/// The number of a user, given by name or number.
pub(crate) fn number(user: &str) -> Result<u32, Failure> {
    match user.parse() {
        Ok(number) => Ok(number),
        Err(_) => Ok(id("-u", user)?[0]),
    }
}

/// The numbers that `id` prints for a user.
///
/// Shape: at least one.
///
/// **Errors** where no directory knows the user.
pub(crate) fn id(option: &str, user: &str) -> Result<Vec<u32>, Failure> {
    let output = Command::new("id").args([option, "--", user]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Result<Vec<u32>, _> = text.split_whitespace().map(str::parse).collect();
    match numbers {
        Ok(numbers) if output.status.success() && !numbers.is_empty() => Ok(numbers),
        _ => Err(Failure::message(format!("there is no user `{}` here", escape(user.as_bytes())))
            .hint("`getent passwd` lists users; numbers are accepted too")),
    }
}

/// The name of a user, if a directory knows it.
pub(crate) fn name(number: u32) -> Option<String> {
    let output = Command::new("getent").args(["passwd", &number.to_string()]).output().ok()?;
    let line = String::from_utf8_lossy(&output.stdout);
    line.split(':').next().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned)
}
