//! Numbers as strace prints them.

/// A number in decimal, octal or hexadecimal, optionally followed by a comment.
pub(crate) fn number(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(without_comment(text)).ok()?;
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let magnitude = match (digits.strip_prefix("0x"), digits.strip_prefix('0')) {
        (Some(hexadecimal), _) => u64::from_str_radix(hexadecimal, 16),
        (None, Some(octal)) if !octal.is_empty() => u64::from_str_radix(octal, 8),
        _ => digits.parse(),
    };
    // `from_str_radix` would accept a second sign.
    let magnitude = magnitude.ok().filter(|_| digits.starts_with(|c: char| c.is_ascii_digit()))?;
    Some(if negative { (magnitude as i64).wrapping_neg() } else { magnitude as i64 })
}

/// Removes the comment at the end, which `-X verbose` writes behind every number.
pub(crate) fn without_comment(text: &[u8]) -> &[u8] {
    let begin = text.windows(2).position(|pair| pair == b"/*").unwrap_or(text.len());
    text[..begin].trim_ascii()
}
