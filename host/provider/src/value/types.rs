//! Types of values, and their form in schemas: compact JSON.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::MAX_DEPTH;

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Text.
    String,
    /// A decimal number of any size.
    Number,
    /// True or false.
    Bool,
    /// A value that carries its type.
    Dynamic,
    /// Elements of one type, in order.
    List(Box<Type>),
    /// Elements of one type, each once, in no order.
    Set(Box<Type>),
    /// Elements of one type, by name.
    Map(Box<Type>),
    /// Attributes, each of its type.
    Object(BTreeMap<String, Type>),
    /// Elements, each of its type.
    Tuple(Vec<Type>),
}

/// The bytes are not a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a type of a value")]
pub struct TypeError(String);

impl Type {
    /// A list of elements of a type.
    #[must_use]
    pub fn list(element: Self) -> Self {
        Self::List(Box::new(element))
    }

    /// A set of elements of a type.
    #[must_use]
    pub fn set(element: Self) -> Self {
        Self::Set(Box::new(element))
    }

    /// A map of elements of a type.
    #[must_use]
    pub fn map(element: Self) -> Self {
        Self::Map(Box::new(element))
    }

    /// An object with these attributes.
    pub fn object<'a>(attributes: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        Self::Object(attributes.into_iter().map(|(name, value_type)| (name.to_owned(), value_type)).collect())
    }

    /// The form in schemas.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_json().to_string().into_bytes()
    }

    fn to_json(&self) -> Json {
        match self {
            Self::String => json!("string"),
            Self::Number => json!("number"),
            Self::Bool => json!("bool"),
            Self::Dynamic => json!("dynamic"),
            Self::List(element) => json!(["list", element.to_json()]),
            Self::Set(element) => json!(["set", element.to_json()]),
            Self::Map(element) => json!(["map", element.to_json()]),
            Self::Object(attributes) => {
                json!([
                    "object",
                    attributes
                        .iter()
                        .map(|(name, attribute)| (name.clone(), attribute.to_json()))
                        .collect::<serde_json::Map<_, _>>()
                ])
            }
            Self::Tuple(elements) => json!(["tuple", elements.iter().map(Self::to_json).collect::<Vec<_>>()]),
        }
    }

    /// Reads the form in schemas. Optional attributes are read like others.
    ///
    /// # Errors
    /// The bytes are not a type, or the type is deeper than [`MAX_DEPTH`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TypeError> {
        let json = serde_json::from_slice(bytes).map_err(|_| TypeError(String::from_utf8_lossy(bytes).into_owned()))?;
        Self::from_json(&json, MAX_DEPTH)
    }

    pub(super) fn from_json(json: &Json, depth: usize) -> Result<Self, TypeError> {
        let wrong = || TypeError(json.to_string().chars().take(200).collect());
        let depth = depth.checked_sub(1).ok_or_else(wrong)?;
        let inner = |json| Self::from_json(json, depth);
        if let Json::String(name) = json {
            return match name.as_str() {
                "string" => Ok(Self::String),
                "number" => Ok(Self::Number),
                "bool" => Ok(Self::Bool),
                "dynamic" => Ok(Self::Dynamic),
                _ => Err(wrong()),
            };
        }
        match json.as_array().map(Vec::as_slice) {
            Some([Json::String(name), element]) if name == "list" => inner(element).map(Self::list),
            Some([Json::String(name), element]) if name == "set" => inner(element).map(Self::set),
            Some([Json::String(name), element]) if name == "map" => inner(element).map(Self::map),
            Some([Json::String(name), Json::Array(items)]) if name == "tuple" => {
                items.iter().map(inner).collect::<Result<_, _>>().map(Self::Tuple)
            }
            Some(
                [Json::String(name), Json::Object(attributes)]
                | [Json::String(name), Json::Object(attributes), Json::Array(_)],
            ) if name == "object" => {
                let attribute = |(name, value_type): (&String, _)| Ok((name.clone(), inner(value_type)?));
                attributes.iter().map(attribute).collect::<Result<_, _>>().map(Self::Object)
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_form_of_schemas() {
        for (value_type, text) in [
            (Type::String, r#""string""#),
            (Type::Number, r#""number""#),
            (Type::Bool, r#""bool""#),
            (Type::Dynamic, r#""dynamic""#),
            (Type::list(Type::String), r#"["list","string"]"#),
            (Type::set(Type::Number), r#"["set","number"]"#),
            (Type::map(Type::list(Type::Bool)), r#"["map",["list","bool"]]"#),
            (Type::object([("b", Type::Number), ("a", Type::String)]), r#"["object",{"a":"string","b":"number"}]"#),
            (Type::Tuple(vec![Type::Number, Type::String]), r#"["tuple",["number","string"]]"#),
        ] {
            assert_eq!(String::from_utf8(value_type.to_bytes()).unwrap(), text);
            assert_eq!(Type::from_bytes(text.as_bytes()), Ok(value_type));
        }
        let optional = br#"["object",{"a":"string"},["a"]]"#;
        assert_eq!(Type::from_bytes(optional), Ok(Type::object([("a", Type::String)])));
    }

    #[test]
    fn what_is_no_type_is_refused() {
        let deep = |levels: usize| format!("{}\"string\"{}", "[\"list\",".repeat(levels), "]".repeat(levels));
        for wrong in [
            "",
            "string",
            "null",
            "[]",
            r#""text""#,
            r#"["list"]"#,
            r#"["list","string",1]"#,
            r#"["object",[]]"#,
            "\"string\" x",
            &deep(MAX_DEPTH),
            &deep(10_000),
        ] {
            assert!(Type::from_bytes(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(Type::from_bytes(deep(MAX_DEPTH - 1).as_bytes()).is_ok());
    }
}
