//! A value, without its type: what is encoded says it only together with one.

use std::{collections::BTreeMap, fmt};

use super::{Number, Refinements, Type};

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// There is none.
    Null,
    /// It is not known yet.
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
    /// A value with a type of its own, where any may be.
    Dynamic(Type, Box<Value>),
}

/// A step on the way to a part of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Into an attribute.
    Attribute(String),
    /// Into an element of a map.
    Key(String),
    /// Into an element of a list.
    Index(usize),
}

/// What is encoded is no value of its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError {
    /// Where, from the outside in.
    pub path: Vec<Step>,
    /// What is wrong.
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

/// A path as people read it: `data.targets[0].host`.
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
    /// Not known, and nothing known of it.
    #[must_use]
    pub fn unknown() -> Self {
        Self::Unknown(Refinements::default())
    }

    /// An object's attributes.
    pub fn object<'a>(attributes: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        Self::Map(attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// An attribute or an entry; null where there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> &Self {
        match self {
            Self::Map(entries) => entries.get(name).unwrap_or(&Self::Null),
            _ => &Self::Null,
        }
    }

    /// Its text, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Text, or null for none.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() { Self::Null } else { Self::String(text) }
    }

    /// Whether it is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether nothing in it is unknown.
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
