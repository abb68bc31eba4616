//! The shape of ULIDs, which uids and generations have. The service makes them.
//!
//! Checked by hand: the crate `ulid` accepts 26 digits of more than 128 bits, which Consul refuses, and without its
//! random source it still brings `web-time` and JavaScript bindings into plugins, for which this crate is compiled too.

/// Whether `text` is a ULID in the strict sense: 26 characters of Crockford's base 32, upper or lower case, of at most
/// 128 bits.
#[must_use]
pub fn is_valid(text: &str) -> bool {
    let digit = |b: &u8| matches!(b.to_ascii_uppercase(), b'0'..=b'9' | b'A'..=b'H' | b'J' | b'K' | b'M' | b'N' | b'P'..=b'T' | b'V'..=b'Z');
    let bytes = text.as_bytes();
    bytes.len() == 26 && bytes.first().is_some_and(|b| (b'0'..=b'7').contains(b)) && bytes.iter().all(digit)
}

#[cfg(test)]
mod tests {
    use super::is_valid;

    #[test]
    fn strict() {
        assert!(is_valid("01ARZ3NDEKTSV4RRFFQ69G5FAV"));
        assert!(is_valid("01arz3ndektsv4rrffq69g5fav"));
        assert!(!is_valid("81ARZ3NDEKTSV4RRFFQ69G5FAV"), "more than 128 bits");
        assert!(!is_valid("01ARZ3NDEKTSV4RRFFQ69G5FA"), "too short");
        assert!(!is_valid("01ARZ3NDEKTSV4RRFFQ69G5FAU"), "U is no digit");
        assert!(!is_valid(""));
    }
}
