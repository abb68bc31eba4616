//! Filters of entries, in Consul's language: `==`, `!=`, `in`, `contains`, `is empty`, `and`, `or`, `not`.
//!
//! # Contract
//! A filter is applied to the entries as they are printed. A field that the entries of the path do not have is an
//! error, and so is an operator that does not fit the field. A key that a map does not have is equal to nothing.
//! `matches`, `any` and `all` are not supported: the error names what is.

use serde_json::Value;

pub(super) use super::filter_text::FilterError;
use super::filter_text::parse;

/// A filter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Filter(Node);

/// A part of a filter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Node {
    Any(Vec<Node>),
    All(Vec<Node>),
    Not(Box<Node>),
    Is(Condition),
}

/// A condition for a field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Condition {
    pub(super) path: Vec<String>,
    pub(super) operator: Operator,
}

/// The operator of a condition, with its value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Operator {
    Equals(String),
    /// A list has the value, a map has the key, or a text has the part.
    Contains(String),
    IsEmpty,
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    /// The text is malformed, or uses a part of the language that is not supported.
    pub(super) fn parse(text: &str) -> Result<Self, FilterError> {
        parse(text).map(Self)
    }

    /// Checks the fields against an entry that has all fields, with empty maps.
    ///
    /// # Errors
    /// A field is unknown, or an operator does not fit it.
    pub(super) fn check(&self, sample: &Value) -> Result<(), FilterError> {
        self.0.check(sample)
    }

    /// Tells whether an entry passes.
    pub(super) fn passes(&self, entry: &Value) -> bool {
        self.0.passes(entry)
    }
}

impl Node {
    fn check(&self, sample: &Value) -> Result<(), FilterError> {
        match self {
            Self::Any(nodes) | Self::All(nodes) => nodes.iter().try_for_each(|node| node.check(sample)),
            Self::Not(node) => node.check(sample),
            Self::Is(condition) => condition.check(sample),
        }
    }

    fn passes(&self, entry: &Value) -> bool {
        match self {
            Self::Any(nodes) => nodes.iter().any(|node| node.passes(entry)),
            Self::All(nodes) => nodes.iter().all(|node| node.passes(entry)),
            Self::Not(node) => !node.passes(entry),
            Self::Is(condition) => condition.passes(entry),
        }
    }
}

impl Condition {
    fn check(&self, sample: &Value) -> Result<(), FilterError> {
        let field = || self.path.join(".");
        let mut value = sample;
        let mut names = self.path.iter();
        while let Some(name) = names.next() {
            match value {
                // A map of texts.
                Value::Object(fields) if fields.is_empty() => {
                    return match (names.next(), &self.operator) {
                        (None, _) => Ok(()),
                        (Some(_), _) => Err(FilterError::UnknownField(field())),
                    };
                }
                Value::Object(fields) => {
                    value = fields.get(name).ok_or_else(|| FilterError::UnknownField(field()))?;
                }
                _ => return Err(FilterError::UnknownField(field())),
            }
        }
        let fits = match (&self.operator, value) {
            (Operator::Equals(_), Value::Array(_) | Value::Object(_)) => Err("=="),
            (Operator::Contains(_), Value::Number(_) | Value::Bool(_) | Value::Null) => Err("contains"),
            (Operator::Contains(_), Value::Object(fields)) if !fields.is_empty() => Err("contains"),
            // The entries of a list of objects have no single value.
            (Operator::Contains(_), Value::Array(items)) if items.iter().any(Value::is_object) => Err("contains"),
            (Operator::IsEmpty, Value::Number(_) | Value::Bool(_)) => Err("is empty"),
            _ => Ok(()),
        };
        fits.map_err(|operator| FilterError::Mismatch { field: field(), operator })
    }

    fn passes(&self, entry: &Value) -> bool {
        let found = self.path.iter().try_fold(entry, |value, name| value.get(name));
        match (&self.operator, found) {
            (Operator::IsEmpty, None) => true,
            (Operator::IsEmpty, Some(value)) => match value {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::Object(fields) => fields.is_empty(),
                Value::Bool(_) | Value::Number(_) => false,
            },
            (_, None) => false,
            (Operator::Equals(wanted), Some(value)) => match value {
                Value::String(text) => text == wanted,
                Value::Number(number) => number.to_string() == *wanted,
                Value::Bool(flag) => flag.to_string() == *wanted,
                _ => false,
            },
            (Operator::Contains(wanted), Some(value)) => match value {
                Value::String(text) => text.contains(wanted.as_str()),
                Value::Array(items) => items.iter().any(|item| item.as_str() == Some(wanted)),
                Value::Object(fields) => fields.contains_key(wanted),
                _ => false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample() -> Value {
        json!({ "Node": { "Node": "", "Meta": {} }, "Checks": [{ "Status": "" }],
            "Service": { "Service": "", "Port": 0, "Tags": [], "Meta": {}, "Weights": { "Passing": 1 } } })
    }

    #[test]
    fn entries_are_chosen() {
        let entry = json!({ "Node": { "Node": "10.0.0.1", "Meta": {} }, "Checks": [],
            "Service": { "Service": "web", "Port": 80, "Tags": ["v1", "eu"], "Meta": { "a.b": "x", "tier": "front" },
                "Weights": { "Passing": 1 } } });
        for (text, passes) in [
            ("Service.Service == web", true),
            ("Service.Service == \"web\"", true),
            ("Service.Service != web", false),
            ("Service.Port == 80 and Node.Node == `10.0.0.1`", true),
            ("Service.Port == 81 or \"v1\" in Service.Tags", true),
            ("v2 not in Service.Tags", true),
            ("Service.Tags contains eu", true),
            ("Service.Tags not contains eu", false),
            ("Service.Meta.tier == front", true),
            ("Service.Meta[\"a.b\"] == x", true),
            ("Service.Meta contains tier and tier in Service.Meta", true),
            ("Service.Meta.none == x", false),
            ("Service.Meta.none != x", true),
            ("Service.Meta.none is empty", true),
            ("Service.Tags is not empty and Node.Meta is empty", true),
            ("not (Service.Port == 80 or Service.Port == 81)", false),
            ("Service.Service contains we", true),
            ("Service.Service == w or Service.Service == x and Service.Port == 80", false),
            ("Service.Service == \"a \\\" b\"", false),
            ("Checks is empty", true),
        ] {
            let filter = Filter::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            filter.check(&sample()).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            assert_eq!(filter.passes(&entry), passes, "{text}");
        }
    }

    #[test]
    fn faults_are_named() {
        for (text, part) in [
            ("", "the end"),
            ("Service.Port", "an operator"),
            ("Service.Port ==", "a value"),
            ("Service.Port == 80 and", "a field or a value"),
            ("Service.Port == 80 80", "the end"),
            ("(Service.Port == 80", "\")\""),
            ("Service.Port = 80", "'='"),
            ("Service.Name == \"x", "close it"),
            ("Service.Service matches \"w.*\"", "\"matches\" is not supported"),
            ("any Checks as c { c.Status == passing }", "\"any\" is not supported"),
            ("Service.Service is full", "empty"),
            ("(".repeat(40).as_str(), "levels"),
            (format!("{}a == b", "not ".repeat(4_000)).as_str(), "levels"),
        ] {
            let fault = Filter::parse(text).map(|_| ()).unwrap_err().to_string();
            assert!(fault.starts_with("filter: ") && fault.contains(part), "{text}: {fault}");
        }
        for (text, part) in [
            ("Service.Nam == x", "Service.Nam"),
            ("Nothing == x", "Nothing"),
            ("Service.Meta.a.b == x", "Service.Meta.a.b"),
            ("Service.Tags == x", "contains or in"),
            ("Service.Port contains x", "does not fit"),
            ("Service contains x", "does not fit"),
            ("Service.Port is empty", "does not fit"),
            ("Checks.Status == passing", "Checks.Status"),
            ("passing in Checks", "does not fit"),
        ] {
            let fault = Filter::parse(text).unwrap().check(&sample()).unwrap_err().to_string();
            assert!(fault.contains(part), "{text}: {fault}");
        }
    }
}
