//! Profiles that come with quell: priors, each with its spread and where its figures are from.

use super::Profile;
use std::sync::LazyLock;

/// The names that `--fs` takes, and the texts of their files. Shape: sorted by name.
pub const SHIPPED: &[(&str, &str)] = &[
    ("beegfs", include_str!("../../profiles/beegfs.toml")),
    ("cephfs", include_str!("../../profiles/cephfs.toml")),
    ("coral", include_str!("../../profiles/coral.toml")),
    ("daos", include_str!("../../profiles/daos.toml")),
    ("dvs", include_str!("../../profiles/dvs.toml")),
    ("gpfs", include_str!("../../profiles/gpfs.toml")),
    ("hopper-home", include_str!("../../profiles/hopper-home.toml")),
    ("hopper-scratch", include_str!("../../profiles/hopper-scratch.toml")),
    ("lustre", include_str!("../../profiles/lustre.toml")),
    ("nfs", include_str!("../../profiles/nfs.toml")),
    ("wide", include_str!("../../profiles/wide.toml")),
];

/// The shipped profile of this name.
pub fn shipped(name: &str) -> Option<Profile> {
    let (_, text) = SHIPPED.iter().find(|(known, _)| *known == name)?;
    Some(Profile::read(text.as_bytes()).expect("a test reads every shipped profile"))
}

/// The prior of a file system of which nothing is known.
pub fn wide() -> Profile {
    // Every run of the model asks for it.
    static WIDE: LazyLock<Profile> = LazyLock::new(|| shipped("wide").expect("it is in the table above"));
    WIDE.clone()
}
