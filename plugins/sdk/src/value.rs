//! Arguments and results of functions, and their types.

use std::collections::BTreeMap;

use mortise_resource::manifest;

/// An argument or a result of a [`crate::Function`].
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// The absent value; fits any type.
    Null,
    /// True or false.
    Bool(bool),
    /// A number in decimal notation, such as `-1.5` or `3e100`: exact, of any size. See [`Self::as_i64`].
    Number(String),
    /// A string.
    Text(String),
    /// A list or a set.
    List(Vec<Value>),
    /// A map or an object.
    Map(BTreeMap<String, Value>),
}

/// Type of an argument or a result, at most 16 deep. All of it can be written in a `static`:
/// `ValueType::List(&ValueType::Number)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// [`Value::Bool`].
    Bool,
    /// [`Value::Number`].
    Number,
    /// [`Value::Text`].
    String,
    /// [`Value::List`], in order.
    List(&'static ValueType),
    /// [`Value::List`], each element once and in any order.
    Set(&'static ValueType),
    /// [`Value::Map`] of elements of one type.
    Map(&'static ValueType),
    /// [`Value::Map`] with just these keys, each with its type.
    Object(&'static [(&'static str, ValueType)]),
}

impl Value {
    /// Whether the value is [`Self::Null`].
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The boolean.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(it) = self { Some(*it) } else { None }
    }

    /// The string.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The number, if it is whole, in plain digits, and in the range of `i64`.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        if let Self::Number(digits) = self { digits.parse().ok() } else { None }
    }

    /// The nearest `f64` to the number.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        if let Self::Number(digits) = self { digits.parse().ok() } else { None }
    }

    /// The elements of a list or a set.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        if let Self::List(elements) = self { Some(elements) } else { None }
    }

    /// The entries of a map or an object.
    #[must_use]
    pub const fn as_map(&self) -> Option<&BTreeMap<String, Self>> {
        if let Self::Map(entries) = self { Some(entries) } else { None }
    }

    /// Reads the wire message.
    pub(crate) fn of_wire(wire: manifest::FunctionValue) -> Self {
        use manifest::function_value::Value as Wire;
        match wire.value {
            None => Self::Null,
            Some(Wire::Boolean(it)) => Self::Bool(it),
            Some(Wire::Number(digits)) => Self::Number(digits),
            Some(Wire::Text(text)) => Self::Text(text),
            Some(Wire::Elements(list)) => Self::List(list.values.into_iter().map(Self::of_wire).collect()),
            Some(Wire::Entries(map)) => {
                Self::Map(map.values.into_iter().map(|(key, value)| (key, Self::of_wire(value))).collect())
            }
        }
    }

    /// Makes the wire message.
    pub(crate) fn into_wire(self) -> manifest::FunctionValue {
        use manifest::function_value::Value as Wire;
        let value = match self {
            Self::Null => None,
            Self::Bool(it) => Some(Wire::Boolean(it)),
            Self::Number(digits) => Some(Wire::Number(digits)),
            Self::Text(text) => Some(Wire::Text(text)),
            Self::List(elements) => {
                let values = elements.into_iter().map(Self::into_wire).collect();
                Some(Wire::Elements(manifest::FunctionValues { values }))
            }
            Self::Map(entries) => {
                let values = entries.into_iter().map(|(key, value)| (key, value.into_wire())).collect();
                Some(Wire::Entries(manifest::FunctionEntries { values }))
            }
        };
        manifest::FunctionValue { value }
    }
}

impl From<bool> for Value {
    fn from(it: bool) -> Self {
        Self::Bool(it)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number.to_string())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<Self>> for Value {
    fn from(elements: Vec<Self>) -> Self {
        Self::List(elements)
    }
}

impl From<BTreeMap<String, Self>> for Value {
    fn from(entries: BTreeMap<String, Self>) -> Self {
        Self::Map(entries)
    }
}

impl ValueType {
    /// Whether a value is of this type, by the host's rule: null is allowed inside other values.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn fits(self, value: &Value) -> bool {
        let inside = |of: Self, value: &Value| value.is_null() || of.fits(value);
        match (self, value) {
            (Self::Bool, Value::Bool(_)) | (Self::Number, Value::Number(_)) | (Self::String, Value::Text(_)) => true,
            (Self::List(of) | Self::Set(of), Value::List(elements)) => elements.iter().all(|one| inside(*of, one)),
            (Self::Map(of), Value::Map(entries)) => entries.values().all(|one| inside(*of, one)),
            (Self::Object(attributes), Value::Map(entries)) => {
                let has = |(name, of): &(&str, Self)| entries.get(*name).is_some_and(|one| inside(*of, one));
                attributes.len() == entries.len() && attributes.iter().all(has)
            }
            _ => false,
        }
    }

    /// Makes the message of the manifest.
    pub(crate) fn to_wire(self) -> manifest::ValueType {
        use manifest::{Primitive, value_type::Type};
        let of = match self {
            Self::Bool => Type::Primitive(Primitive::Bool.into()),
            Self::Number => Type::Primitive(Primitive::Number.into()),
            Self::String => Type::Primitive(Primitive::String.into()),
            Self::List(of) => Type::List(Box::new(of.to_wire())),
            Self::Set(of) => Type::Set(Box::new(of.to_wire())),
            Self::Map(of) => Type::Map(Box::new(of.to_wire())),
            Self::Object(attributes) => {
                let attributes = attributes.iter().map(|&(name, of)| (name.to_owned(), of.to_wire())).collect();
                Type::Object(manifest::ObjectType { attributes })
            }
        };
        manifest::ValueType { r#type: Some(of) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_boundary() {
        let map = Value::Map(BTreeMap::from([("a".to_owned(), Value::Null), ("b".to_owned(), true.into())]));
        let all = Value::List(vec![map, (-7).into(), Value::Number("3e100".to_owned()), "text".into(), vec![].into()]);
        assert_eq!(Value::of_wire(all.clone().into_wire()), all);
    }

    #[test]
    fn numbers_are_read_as_far_as_they_fit() {
        assert_eq!(Value::from(i64::MIN).as_i64(), Some(i64::MIN));
        let huge = Value::Number("3e100".to_owned());
        assert_eq!((huge.as_i64(), huge.as_f64(), huge.as_text()), (None, Some(3e100), None));
    }

    #[test]
    fn an_object_has_its_attributes_and_no_others() {
        let object = ValueType::Object(&[("name", ValueType::String), ("tags", ValueType::Set(&ValueType::String))]);
        let with = |entries: &[(&str, Value)]| {
            let entries = entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
            object.fits(&Value::Map(entries.collect()))
        };
        let tags = Value::List(vec!["a".into()]);
        assert!(with(&[("name", "x".into()), ("tags", tags.clone())]));
        assert!(with(&[("name", Value::Null), ("tags", tags.clone())]));
        assert!(!with(&[("name", "x".into())]));
        assert!(!with(&[("name", "x".into()), ("tags", tags.clone()), ("more", Value::Null)]));
        assert!(!with(&[("name", 1.into()), ("tags", tags)]));
    }
}
