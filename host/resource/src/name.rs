//! The rules for names of resources, partitions, namespaces and references, and for DNS names.

/// Longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 63;

/// Whether `name` is 1 to 63 lower-case ASCII letters, digits and dashes, alphanumeric at both ends.
#[must_use]
pub fn is_valid(name: &str) -> bool {
    let bytes = name.as_bytes();
    let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    bytes.len() <= MAX_NAME_BYTES
        && bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
}

/// The fault of an invalid name, as text after the field's name; `None` when the name is valid.
#[must_use]
pub fn fault(name: &str) -> Option<String> {
    (!is_valid(name)).then(|| {
        format!(
            "a resource name must consist of lower case alphanumeric characters or '-', must start and end with an \
             alphanumeric character and be less than 64 characters, got: {name:?}"
        )
    })
}

/// Longest DNS name, and longest label of one, in bytes.
pub const MAX_DNS_NAME_BYTES: usize = 253;
const MAX_DNS_LABEL_BYTES: usize = 63;

/// Whether `text` is a DNS name of a host: lower case, no dot at the end.
#[must_use]
pub fn is_dns_name(text: &str) -> bool {
    let fits = |label: &str| {
        (1..=MAX_DNS_LABEL_BYTES).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    text.len() <= MAX_DNS_NAME_BYTES && text.split('.').all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule() {
        for good in ["a", "0", "a-b", "a--b", "0a", &"x".repeat(63)] {
            assert!(is_valid(good), "{good}");
        }
        for bad in ["", "-", "a-", "-a", "A", "a_b", "a.b", "a/b", "*", "é", " a", &"x".repeat(64)] {
            assert!(!is_valid(bad), "{bad}");
        }
    }

    #[test]
    fn the_text_quotes_the_value() {
        assert_eq!(
            fault("Ab").as_deref(),
            Some(
                "a resource name must consist of lower case alphanumeric characters or '-', must start and end with \
                 an alphanumeric character and be less than 64 characters, got: \"Ab\""
            )
        );
    }
}
