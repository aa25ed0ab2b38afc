//! Little-endian fields out of and into byte slices. Reading is bounds-checked and never panics.

/// Reads `N` bytes at `at`, or `None` beyond the end.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Reads a `u16` at `at`.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

/// Reads a `u32` at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

/// Reads a `u64` at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// Reads an `i64` at `at`.
pub(crate) fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    array(bytes, at).map(i64::from_le_bytes)
}

/// The `len` bytes at `at`, both as stored in a file, or `None` beyond the end.
pub(crate) fn span(bytes: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(at).ok()?;
    let end = usize::try_from(at.checked_add(len)?).ok()?;
    bytes.get(start..end)
}

/// Overwrites `into` at `at` with `field`, which must lie within a buffer of fixed size.
pub(crate) fn put(into: &mut [u8], at: usize, field: &[u8]) {
    into[at..at + field.len()].copy_from_slice(field);
}
