//! Names of attributes.

/// Converts a field's name to one of the protocol: lower-case letters, digits and `_`, and no digit first.
pub(crate) fn attribute_name(field: &str) -> String {
    let mut name = String::with_capacity(field.len() + 4);
    let mut before = '_';
    for letter in field.chars() {
        if letter.is_ascii_uppercase() && before != '_' && !before.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' });
        before = letter;
    }
    if name.starts_with(|first: char| first.is_ascii_digit()) { format!("_{name}") } else { name }
}
