//! `packaging/quell.cdx.json`: the bill of materials of a release, in CycloneDX 1.5: every crate that is linked into the binary and
//! every JavaScript module in the pages that it writes. No time and no random number: the same lock files give the same bytes.

use crate::easyconfig;
use crate::notices;
use serde_json::{Value, json};
use std::path::Path;

/// The document.
pub(crate) fn sbom(root: &Path, lock: &str) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let crates = crates(root, lock);
    let modules = modules(root);
    let components: Vec<_> = crates.into_iter().chain(modules).collect();
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": format!("pkg:cargo/quell-cli@{version}"),
                "name": "quell",
                "version": version,
                "licenses": [{ "expression": env!("CARGO_PKG_LICENSE") }],
            },
        },
        "components": components,
    })
}

/// The crates of other authors, each with the checksum of its archive in the registry.
fn crates(root: &Path, lock: &str) -> Vec<Value> {
    let locked = easyconfig::locked(lock);
    let component = |bundled: notices::BundledCrate| {
        let (name, version) = (bundled.name, bundled.version);
        let registered = locked.iter().find(|one| (&one.name, &one.version) == (&name, &version));
        let hashes: Vec<_> =
            registered.iter().map(|one| json!({ "alg": "SHA-256", "content": one.checksum })).collect();
        let version_in_url = version.replace('+', "%2B");
        json!({
            "type": "library",
            "bom-ref": format!("pkg:cargo/{name}@{version_in_url}"),
            "name": name,
            "version": version,
            "hashes": hashes,
            // Older manifests write a slash for OR.
            "licenses": [{ "expression": bundled.licence.replace('/', " OR ") }],
            "purl": format!("pkg:cargo/{name}@{version_in_url}"),
        })
    };
    notices::bundled_crates(root).into_iter().map(component).collect()
}

/// The modules that the bundler took into the pages.
fn modules(root: &Path) -> Vec<Value> {
    let bundled = notices::bundled_modules(root);
    let lock = std::fs::read_to_string(root.join("crates/report/web/package-lock.json"));
    let lock: Value = serde_json::from_str(&lock.expect("the lock file is committed")).expect("it is JSON");
    let component = |name: &String| {
        let package = &lock["packages"][format!("node_modules/{name}")];
        let (version, licence) = (package["version"].as_str(), package["license"].as_str());
        let version = version.expect("a bundled module is locked");
        json!({
            "type": "library",
            "bom-ref": format!("pkg:npm/{name}@{version}"),
            "name": name,
            "version": version,
            "licenses": [{ "expression": licence.expect("a bundled module has a licence") }],
            "purl": format!("pkg:npm/{name}@{version}"),
        })
    };
    bundled.iter().map(component).collect()
}
