//! Values without their types: an encoded value can be read only together with its type.

use std::{collections::BTreeMap, fmt};

use super::{Number, Refinements, Type};

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// An absent value.
    Null,
    /// A value that is not known yet.
    Unknown(Refinements),
    /// True or false.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    String(String),
    /// Elements of a list, a set or a tuple.
    List(Vec<Value>),
    /// Elements of a map, or attributes of an object.
    Map(BTreeMap<String, Value>),
    /// A value with its type, for places that allow any type.
    Dynamic(Type, Box<Value>),
}

/// A step of a path into a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Into an attribute.
    Attribute(String),
    /// Into an element of a map.
    Key(String),
    /// Into an element of a list.
    Index(usize),
}

/// Encoded bytes that are not a value of their type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError {
    /// Path from the outside in.
    pub path: Vec<Step>,
    /// Fault of the value.
    pub what: String,
}

impl ValueError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { path: Vec::new(), what: what.into() }
    }

    pub(crate) fn within(mut self, step: Step) -> Self {
        self.path.insert(0, step);
        self
    }
}

impl std::error::Error for ValueError {}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = PathText(&self.path).to_string();
        write!(f, "{path}{}{}", if path.is_empty() { "" } else { ": " }, self.what)
    }
}

/// Prints a path for people: `data.targets[0].host`.
#[derive(Debug, Clone, Copy)]
pub struct PathText<'a>(pub &'a [Step]);

impl fmt::Display for PathText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Attribute(name) if position == 0 => f.write_str(name)?,
                Step::Attribute(name) => write!(f, ".{name}")?,
                Step::Key(key) => write!(f, "[{key:?}]")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

impl Value {
    /// An unknown value without refinements.
    #[must_use]
    pub fn unknown() -> Self {
        Self::Unknown(Refinements::default())
    }

    /// Makes an object of its attributes.
    pub fn object<'a>(attributes: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        Self::Map(attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// An attribute or an entry; null if the value has no such part.
    #[must_use]
    pub fn get(&self, name: &str) -> &Self {
        match self {
            Self::Map(entries) => entries.get(name).unwrap_or(&Self::Null),
            _ => &Self::Null,
        }
    }

    /// Its text, if it is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Makes a string, or null for an empty text.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() { Self::Null } else { Self::String(text) }
    }

    /// Estimate of its bytes in memory, without refinements and types.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let inner = match self {
            Self::Null | Self::Unknown(_) | Self::Bool(_) => 0,
            Self::Number(number) => number.digits(),
            Self::String(text) => text.len(),
            Self::List(items) => items.iter().map(Self::memory_bytes).sum(),
            Self::Map(entries) => {
                entries.iter().map(|(key, value)| size_of::<String>() + key.len() + value.memory_bytes()).sum()
            }
            Self::Dynamic(_, value) => value.memory_bytes(),
        };
        size_of::<Self>() + inner
    }

    /// Whether it is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether no part of it is unknown.
    #[must_use]
    pub fn is_wholly_known(&self) -> bool {
        match self {
            Self::Unknown(_) => false,
            Self::List(items) => items.iter().all(Self::is_wholly_known),
            Self::Map(entries) => entries.values().all(Self::is_wholly_known),
            Self::Dynamic(_, value) => value.is_wholly_known(),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) => true,
        }
    }
}
