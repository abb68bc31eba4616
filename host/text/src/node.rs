//! The tree that all formats are read into before types are known; each node has its place.

use crate::location::Span;

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

/// A value of the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// A number's literal, so that none of its digits is lost before the field's type is known.
    Number(String),
    /// A string in quotes, or one that the format marks as a string in another way.
    Text(String),
    /// An unquoted YAML scalar; its meaning depends on its field.
    Plain(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// A value with a fault that has been reported.
    Wrong,
    /// HCL's blocks of one name: one message, or the elements of a repeated one.
    Blocks(Vec<Node>),
}

/// An entry of a map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) value: Node,
}

impl Node {
    pub(crate) fn new(span: Span, value: Value) -> Self {
        Self { span, value }
    }

    /// Whether the node is null.
    pub(crate) fn is_null(&self) -> bool {
        match &self.value {
            Value::Null => true,
            Value::Plain(text) => plain_null(text),
            _ => false,
        }
    }

    /// The entries, if the node is a map or a single block.
    pub(crate) fn entries(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            Value::Blocks(blocks) => match blocks.as_slice() {
                [block] => block.entries(),
                _ => None,
            },
            _ => None,
        }
    }

    /// The value under a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Kind of the value for a sentence: `a list`.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null | Value::Wrong => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::Plain(text) => match resolve(text) {
                Resolved::Null => "null",
                Resolved::Bool(_) => "a boolean",
                Resolved::Number => "a number",
                Resolved::Text => "a string",
            },
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Blocks(_) => "a block",
        }
    }
}

/// Type of an unquoted YAML scalar where no field decides: YAML 1.2's core schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolved {
    Null,
    Bool(bool),
    Number,
    Text,
}

/// YAML 1.2's null.
pub(crate) fn plain_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// YAML 1.2's booleans; `yes`, `no`, `on` and `off` are strings.
pub(crate) fn plain_bool(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// Resolves an unquoted scalar by YAML 1.2's core schema.
pub(crate) fn resolve(text: &str) -> Resolved {
    if plain_null(text) {
        return Resolved::Null;
    }
    if let Some(value) = plain_bool(text) {
        return Resolved::Bool(value);
    }
    if plain_number(text) { Resolved::Number } else { Resolved::Text }
}

fn plain_number(text: &str) -> bool {
    if let Some(digits) = text.strip_prefix("0x") {
        return !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return !digits.is_empty() && digits.bytes().all(|b| matches!(b, b'0'..=b'7'));
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_ok = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let exponent_ok = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    mantissa_ok && exponent_ok
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquoted_scalars_are_what_yaml_1_2_says() {
        for text in ["", "~", "null", "NULL"] {
            assert_eq!(resolve(text), Resolved::Null, "{text}");
        }
        assert_eq!(resolve("True"), Resolved::Bool(true));
        for text in ["0", "-1", "+12", "1.", ".5", "1e3", "-1.5E-7", "0x1F", "0o17", ".inf", "-.Inf", ".nan", "007"] {
            assert_eq!(resolve(text), Resolved::Number, "{text}");
        }
        for text in [
            "no",
            "yes",
            "on",
            "tRue",
            "nULL",
            "1_000",
            "0b1",
            "1:30",
            "e3",
            ".",
            "-",
            "1e",
            "0x",
            "2024-01-01",
            "-.nan",
        ] {
            assert_eq!(resolve(text), Resolved::Text, "{text}");
        }
    }
}
