//! The style sheet and the scripts of the pages, as `web/dist` has them. The build script compressed them.

macro_rules! bundled {
    ($name:literal) => {
        inflated(include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".zst")))
    };
}

pub(super) fn style() -> String {
    bundled!("page.css")
}

pub(super) fn report_script() -> String {
    bundled!("page.js")
}

pub(super) fn prediction_script() -> String {
    bundled!("prediction.js")
}

fn inflated(packed: &[u8]) -> String {
    let bytes = zstd::decode_all(packed).expect("the build script compressed it");
    String::from_utf8(bytes).expect("the bundle is text")
}
