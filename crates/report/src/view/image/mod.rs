//! Objects of the commands of `quell image`.

mod check;
mod info;
mod ls;

pub use check::ImageCheckView;
pub use info::{ImageDirectories, ImageFiles, ImageInfoView, ImagePlace};
pub use ls::{ImageEntry, ImageListView};
