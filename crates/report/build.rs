//! Compresses the bundle of the pages for a browser, which would otherwise be 2 % of the binary.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let out = std::env::var_os("OUT_DIR").ok_or(std::io::ErrorKind::NotFound)?;
    for name in ["page.css", "page.js", "prediction.js"] {
        let source = Path::new("web/dist").join(name);
        println!("cargo::rerun-if-changed={}", source.display());
        let packed = zstd::encode_all(&*std::fs::read(&source)?, 19)?;
        std::fs::write(Path::new(&out).join(name).with_added_extension("zst"), packed)?;
    }
    Ok(())
}
