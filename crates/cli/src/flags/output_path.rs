//! The path of an output that cannot be a stream.

use clap::builder::{PathBufValueParser, TypedValueParser};
use std::path::PathBuf;

/// Parser of such a path. It refuses `-`, which other commands take for standard output.
pub(super) fn no_stream() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.as_os_str() == "-" {
        true => Err("it cannot be written to standard output; `./-` is a file of that name"),
        false => Ok(path),
    })
}
