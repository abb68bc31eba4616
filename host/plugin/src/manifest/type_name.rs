//! Patterns of the names of types.

use mortise_resource::types::Gvk;

use crate::manifest::error::ManifestError;

/// Checks the three names of a type against their patterns.
pub(crate) fn type_name(gvk: &Gvk) -> Result<(), ManifestError> {
    let (part, pattern, got) = if !is_group(&gvk.group) {
        ("group", "^[a-z][a-z\\d_]+$", &gvk.group)
    } else if !is_group_version(&gvk.group_version) {
        ("group_version", "^v([a-z\\d]+)?\\d$", &gvk.group_version)
    } else if !is_kind(&gvk.kind) {
        ("kind", "^[A-Z][A-Za-z\\d]+$", &gvk.kind)
    } else {
        return Ok(());
    };
    Err(ManifestError::new(format!("{part} must match {pattern}, got: {got:?}")))
}

fn is_group(s: &str) -> bool {
    let tail = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    matches!(s.as_bytes(), [first, rest @ ..] if first.is_ascii_lowercase() && !rest.is_empty() && rest.iter().all(|b| tail(*b)))
}

fn is_group_version(s: &str) -> bool {
    let middle = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    matches!(s.as_bytes(), [b'v', rest @ .., last] if last.is_ascii_digit() && rest.iter().all(middle))
}

fn is_kind(s: &str) -> bool {
    matches!(s.as_bytes(), [first, rest @ ..] if first.is_ascii_uppercase() && !rest.is_empty() && rest.iter().all(u8::is_ascii_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_type_names() {
        assert!(is_group("demo") && is_group("a1") && is_group("a_b"));
        assert!(!is_group("a") && !is_group("1a") && !is_group("Demo") && !is_group("") && !is_group("a-b"));
        assert!(is_group_version("v1") && is_group_version("v2beta1") && is_group_version("v10"));
        assert!(
            !is_group_version("v") && !is_group_version("1") && !is_group_version("v1beta") && !is_group_version("V1")
        );
        assert!(is_kind("Artist") && is_kind("Ab") && is_kind("A1"));
        assert!(!is_kind("A") && !is_kind("artist") && !is_kind("A_b") && !is_kind(""));
    }
}
