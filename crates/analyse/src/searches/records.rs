//! The facts and the book that the searches of every list share.

use super::book::SearchBook;
use super::images::Images;
use super::tree::PathNodes;

/// The facts of a recording that the searches of every list need, and the book in which they enter what they find.
#[derive(Debug)]
pub(super) struct Records<'t, 'a> {
    pub(super) images: &'t Images<'a>,
    pub(super) tree: &'t PathNodes<'a>,
    pub(super) book: &'t mut SearchBook<'a>,
}
