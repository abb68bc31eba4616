//! Checks for ULIDs, the form of uids and generations. The service generates them.
//!
//! The crate `ulid` accepts more than Consul does: docs/decisions/0031-the-shape-of-ulids-is-checked-here.md.

/// Whether `text` is a strict ULID: 26 characters of Crockford's base 32, upper or lower case, at most 128 bits.
#[must_use]
pub fn is_valid(text: &str) -> bool {
    let digit = |b: &u8| matches!(b.to_ascii_uppercase(), b'0'..=b'9' | b'A'..=b'H' | b'J' | b'K' | b'M' | b'N' | b'P'..=b'T' | b'V'..=b'Z');
    let bytes = text.as_bytes();
    bytes.len() == 26 && bytes.first().is_some_and(|b| (b'0'..=b'7').contains(b)) && bytes.iter().all(digit)
}

/// Creation time of a ULID, milliseconds since 1970; `None` for other texts.
#[must_use]
pub fn created_millis(text: &str) -> Option<u64> {
    const DIGITS: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let time = text.get(..10).filter(|_| is_valid(text))?;
    time.chars().try_fold(0, |millis, digit| {
        let value = DIGITS.find(digit.to_ascii_uppercase())?;
        Some(millis * 32 + value as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::{created_millis, is_valid};

    #[test]
    fn the_first_ten_digits_are_the_time() {
        assert_eq!(created_millis("01ARZ3NDEKTSV4RRFFQ69G5FAV"), Some(1_469_922_850_259));
        assert_eq!(created_millis("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"), Some((1 << 48) - 1));
        assert_eq!(created_millis("01ARZ3NDEK"), None);
    }

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
