//! Detects files that look like secrets. They are listed in an image, and their content is left out.
//!
//! A program's own modules are not meant: `token.py` and `credentials.py` are code.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use quell_image::original::OriginalDirectory;
use quell_image::path::{components, split};

/// The reason to leave the content of `path` out of an image, judged by its name; `head` reads the first bytes of
/// the file where the name alone does not tell.
pub(crate) fn suspicion(path: &[u8], head: impl FnOnce() -> Vec<u8>) -> Option<&'static str> {
    let (directory, name) = split(path);
    let name = name.to_ascii_lowercase();
    let way: Vec<_> = components(directory).collect();
    if DIRECTORIES.iter().any(|part| way.windows(part.len()).any(|window| window == *part)) {
        return Some(IN_DIRECTORY_OF_KEYS);
    }
    if NAMES.contains(&&name[..]) {
        return Some(NAMED_AS_CREDENTIALS);
    }
    let is_key = name.starts_with(b"id_") && !name.ends_with(b".pub") && !name.contains(&b'.');
    if is_key || name.starts_with(b"x509up_") {
        return Some(NAMED_AS_KEY);
    }
    if name.starts_with(b"krb5cc_") {
        return Some(NAMED_AS_TICKETS);
    }
    if ENDINGS.iter().any(|ending| name.ends_with(ending)) {
        return Some(NAMED_AS_STORE);
    }
    let may_hold_key = [&b".pem"[..], b".key"].iter().any(|ending| name.ends_with(ending));
    let holds_key = may_hold_key && head().windows(MARK.len()).any(|window| window == MARK);
    holds_key.then_some(HOLDS_KEY)
}

/// Tells whether a file was left out because of [`suspicion`], by the reason that was given.
pub(crate) fn is_suspicion(reason: &str) -> bool {
    [IN_DIRECTORY_OF_KEYS, NAMED_AS_CREDENTIALS, NAMED_AS_KEY, NAMED_AS_TICKETS, NAMED_AS_STORE, HOLDS_KEY]
        .contains(&reason)
}

/// Tells whether the file at `path` looks like a secret, which [`crate::pack`] leaves out of images.
pub fn looks_like_secret(path: &[u8]) -> bool {
    let (directory, name) = split(path);
    let head = || {
        let directory = OriginalDirectory::open(Path::new(OsStr::from_bytes(directory)));
        // A file that cannot be read is not exported either.
        directory.map(|directory| directory.head(name, HEAD)).unwrap_or_default()
    };
    suspicion(path, head).is_some()
}

const IN_DIRECTORY_OF_KEYS: &str = "it lies in a directory of keys or credentials";
const NAMED_AS_CREDENTIALS: &str = "its name is that of credentials";
const NAMED_AS_KEY: &str = "its name is that of a private key";
const NAMED_AS_TICKETS: &str = "its name is that of Kerberos tickets";
const NAMED_AS_STORE: &str = "its name is that of a token or key store";
const HOLDS_KEY: &str = "it holds a private key";

/// Bytes at the start of a file that are searched for a key. A certificate bundle is longer, but a key is not
/// hidden behind one.
pub(crate) const HEAD: usize = 65_536;

/// A part of the first line of every textual private key. Source: RFC 7468, section 10 and following.
const MARK: &[u8] = b"PRIVATE KEY-----";

/// Directories whose files are secrets, whatever their names. `gcloud` alone is also a Python package.
const DIRECTORIES: [&[&[u8]]; 12] = [
    &[b".ssh"],
    &[b".gnupg"],
    &[b".aws"],
    &[b".azure"],
    &[b".docker"],
    &[b".kube"],
    &[b".globus"],
    &[b".oci"],
    &[b".password-store"],
    &[b".condor", b"tokens.d"],
    &[b".config", b"gcloud"],
    &[b".config", b"gh"],
];

/// Names of files that hold passwords or tokens; lower case.
const NAMES: [&[u8]; 18] = [
    b".netrc",
    b"_netrc",
    b".pgpass",
    b".git-credentials",
    b".pypirc",
    b".npmrc",
    b".htpasswd",
    b"credentials",
    b"credentials.json",
    b"token",
    b"tokens",
    b".token",
    b"access_token",
    b".vault-token",
    b".my.cnf",
    b".s3cfg",
    b".passwd-s3fs",
    b"kaggle.json",
];

/// Endings of names of token files and binary key stores; lower case.
const ENDINGS: [&[u8]; 6] = [b".token", b".p12", b".pfx", b".jks", b".keytab", b".kdbx"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_told_from_code() {
        let plain = || b"nothing of note".to_vec();
        for path in [
            "/h/u/.ssh/config",
            "/h/u/id_ed25519",
            "/h/u/.netrc",
            "/h/u/.aws/config",
            "/h/u/Credentials.json",
            "/h/u/app/token",
            "/h/u/x.p12",
            "/tmp/x509up_u1000",
            "/tmp/krb5cc_1000",
            "/h/u/.vault-token",
            "/h/u/.config/gcloud/x",
            "/h/u/.condor/tokens.d/site",
        ] {
            let reason = suspicion(path.as_bytes(), plain);
            assert!(reason.is_some_and(is_suspicion), "{path}");
        }
        for path in [
            "/l/token.py",
            "/l/site-packages/gcloud/__init__.py",
            "/l/credentials.py",
            "/l/id_ed25519.pub",
            "/l/tokenize.py",
            "/l/id_map.json",
            "/l/certifi/cacert.pem",
            "/l/keys.txt",
        ] {
            assert_eq!(suspicion(path.as_bytes(), plain), None, "{path}");
        }
    }

    #[test]
    fn keys_are_found_by_content() {
        let key = || b"-----BEGIN RSA PRIVATE KEY-----\nMII".to_vec();
        assert!(suspicion(b"/l/server.pem", key).is_some_and(is_suspicion));
        assert!(suspicion(b"/l/server.key", key).is_some());
        assert_eq!(suspicion(b"/l/server.txt", key), None);
    }
}
