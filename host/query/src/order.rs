//! Orders of resources: `data.year desc, meta.create_time`.
//!
//! # Contract
//! An order is total: `name` is its last key, in the direction of the key before it, unless the order names it. Values
//! that are absent come first, or last in descending order. Strings and bytes compare bytewise, enums by number; NaN
//! follows all numbers.
//!
//! # Cost
//! A position of a resource copies the values of its keys, and so does a token that holds it.

use std::cmp::Ordering;

use mortise_resource::split_paths;
use prost::Message as _;

use crate::{
    Candidate, Path, QueryError, Schema, Undecodable, error::shown, index_path::key, limits, path::Root,
    scalar::Scalar, walk::Slot,
};

/// The keys that resources are sorted by.
#[derive(Debug, Clone)]
pub struct OrderBy {
    keys: Vec<Key>,
}

#[derive(Debug, Clone)]
struct Key {
    path: Path,
    is_descending: bool,
}

/// The first key of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeadingKey {
    /// The path in snake_case.
    pub path: String,
    /// Whether large values come first.
    pub is_descending: bool,
    /// Whether only the name follows, in the same direction.
    pub is_alone: bool,
}

/// A resource's position in an order. Positions of one [`OrderBy`] are comparable.
#[derive(Debug, Clone)]
pub struct SortKey {
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
struct Part {
    value: Option<Scalar>,
    is_descending: bool,
}

impl OrderBy {
    /// Reads an order; an empty text stands for `name`.
    ///
    /// # Errors
    /// The text does not parse, names an unknown path or one without an order, or exceeds [`limits`].
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, QueryError> {
        if text.len() > limits::TEXT_BYTES {
            let fault = format!("it has {} bytes; at most {} are allowed", text.len(), limits::TEXT_BYTES);
            return Err(QueryError::Order(fault));
        }
        let mut keys = Vec::new();
        for item in split_paths(text).filter(|_| !text.trim().is_empty()) {
            if keys.len() == limits::ORDER_KEYS {
                return Err(QueryError::Order(format!("it has more than {} keys; name fewer", limits::ORDER_KEYS)));
            }
            let key = Key::parse(item, schema)?;
            // Each repeated key would copy the value once more, however large it is.
            if keys.iter().any(|other: &Key| other.path.to_string() == key.path.to_string()) {
                let fault = format!("{:?} is named twice; name each path once", shown(item.trim()));
                return Err(QueryError::Order(fault));
            }
            keys.push(key);
        }
        if !keys.iter().any(|key| key.path.root == Root::Name) {
            let is_descending = keys.last().is_some_and(|key| key.is_descending);
            keys.push(Key { path: Path::parse("name", schema)?, is_descending });
        }
        Ok(Self { keys })
    }

    /// Whether the order is by name only, ascending: by partition, namespace and name.
    #[must_use]
    pub fn is_by_name(&self) -> bool {
        matches!(self.keys.as_slice(), [key, ..] if key.path.root == Root::Name && !key.is_descending)
    }

    /// The path of the first key if it leads into `data`, whether it descends, and whether only the name in the same
    /// direction follows: an index of the path then has the order itself, as far as its keys are whole.
    #[must_use]
    pub fn leading(&self) -> Option<LeadingKey> {
        let [first, rest @ ..] = self.keys.as_slice() else { return None };
        let is_name = |key: &Key| key.path.root == Root::Name && key.is_descending == first.is_descending;
        let is_alone = matches!(rest, [only] if is_name(only));
        let path = (first.path.root == Root::Data).then(|| first.path.to_string())?;
        Some(LeadingKey { path, is_descending: first.is_descending, is_alone })
    }

    /// The position of a resource.
    ///
    /// # Errors
    /// A part of the resource that the order looks at does not decode.
    pub fn key(&self, candidate: &Candidate<'_>) -> Result<SortKey, Undecodable> {
        let mut parts = Vec::with_capacity(self.keys.len() + 2);
        for Key { path, is_descending } in &self.keys {
            let part = |value| Part { value, is_descending: *is_descending };
            if path.root == Root::Name {
                let id = candidate.id();
                let units = [id.partition, id.namespace, id.name];
                parts.extend(units.map(|text| part(Some(Scalar::Text(text.to_owned())))));
                continue;
            }
            let mut value = None;
            candidate.any(path, &mut |slot| {
                value = match slot {
                    Slot::Value(found) => Scalar::from_value(found),
                    Slot::Unset => path.zero.clone(),
                    Slot::Absent => None,
                };
                true
            })?;
            parts.push(part(value));
        }
        Ok(SortKey { parts })
    }

    /// Reads a key that [`SortKey::encode`] wrote for the same order.
    ///
    /// # Errors
    /// The bytes are not a key of this order.
    pub fn decode(&self, bytes: &[u8]) -> Result<SortKey, QueryError> {
        let wire = WireKey::decode(bytes).ok();
        let parts: Option<Vec<Part>> = wire.and_then(|wire| {
            // A name has three parts.
            let directions = self.keys.iter().flat_map(|key| {
                let parts = if key.path.root == Root::Name { 3 } else { 1 };
                std::iter::repeat_n((key.path.root == Root::Name, key.is_descending), parts)
            });
            let directions: Vec<(bool, bool)> = directions.collect();
            if directions.len() != wire.parts.len() {
                return None;
            }
            let parts = directions.into_iter().zip(wire.parts).map(|((is_name, is_descending), part)| {
                let value = part.value.map(Scalar::from);
                let fits = !is_name || matches!(value, Some(Scalar::Text(_)));
                fits.then_some(Part { value, is_descending })
            });
            parts.collect()
        });
        let parts = parts.ok_or_else(|| {
            QueryError::Token(
                "its value is not a position in this order; use a token from an answer to the same query, or none"
                    .to_owned(),
            )
        })?;
        Ok(SortKey { parts })
    }
}

impl Key {
    fn parse(item: &str, schema: &Schema) -> Result<Self, QueryError> {
        let fault = |fault: &str| QueryError::Order(format!("{:?} {fault}", shown(item.trim())));
        if item.trim().is_empty() {
            return Err(QueryError::Order("a key is empty; write keys such as path or path desc".to_owned()));
        }
        // A quoted key may hold blanks; behind its quote begin the words.
        let quoted = item.rfind(['"', ']']).map_or(0, |end| end + 1);
        let (head, tail) = item.split_at_checked(quoted).unwrap_or(("", item));
        let mut words = tail.split_whitespace();
        let rest =
            if tail.starts_with(char::is_whitespace) && quoted > 0 { "" } else { words.next().unwrap_or_default() };
        let path = format!("{}{rest}", head.trim_start());
        let (direction, None) = (words.next(), words.next()) else {
            return Err(fault("has more than two words; write a path, then asc or desc"));
        };
        let is_descending = match direction {
            None => false,
            Some(word) if word.eq_ignore_ascii_case("asc") => false,
            Some(word) if word.eq_ignore_ascii_case("desc") => true,
            Some(_) => return Err(fault("has an unknown direction; use asc or desc")),
        };
        let path = Path::parse(&path, schema)?;
        if path.is_through_list() || path.shape.scalar().is_none() {
            return Err(fault("is or lies in a list, a map or a message, which have no order; name a single value"));
        }
        Ok(Self { path, is_descending })
    }
}

impl SortKey {
    /// Partition, namespace and name of the resource if they follow the first value.
    #[must_use]
    pub fn place_behind(&self) -> Option<[&str; 3]> {
        let [_, partition, namespace, name, ..] = self.parts.as_slice() else { return None };
        Some([partition.text()?, namespace.text()?, name.text()?])
    }

    /// The first value as an index has it ([`IndexPath`](crate::IndexPath)); `None` for floats.
    #[must_use]
    pub fn index_key(&self) -> Option<String> {
        key(self.parts.first()?.value.as_ref())
    }

    /// Partition, namespace and name of the resource if the order [is by name](OrderBy::is_by_name); `None` if the key
    /// does not begin with three texts.
    #[must_use]
    pub fn place(&self) -> Option<[&str; 3]> {
        let [partition, namespace, name, ..] = self.parts.as_slice() else { return None };
        Some([partition.text()?, namespace.text()?, name.text()?])
    }

    /// The key as bytes, for [`OrderBy::decode`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let parts = self.parts.iter().map(|part| WirePart { value: part.value.clone().map(WireValue::from) });
        WireKey { parts: parts.collect() }.encode_to_vec()
    }
}

impl Part {
    fn text(&self) -> Option<&str> {
        match &self.value {
            Some(Scalar::Text(text)) => Some(text),
            _ => None,
        }
    }
}

impl Ord for SortKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let pairs = self.parts.iter().zip(&other.parts);
        let mut orders = pairs.map(|(a, b)| {
            let order = match (&a.value, &b.value) {
                (Some(a), Some(b)) => a.total_order(b),
                (a, b) => a.is_some().cmp(&b.is_some()),
            };
            if a.is_descending { order.reverse() } else { order }
        });
        orders.find(|order| order.is_ne()).unwrap_or_else(|| self.parts.len().cmp(&other.parts.len()))
    }
}

impl PartialOrd for SortKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SortKey {}

/// A key in a token. Only this file reads it.
#[derive(Clone, PartialEq, prost::Message)]
struct WireKey {
    #[prost(message, repeated, tag = "1")]
    parts: Vec<WirePart>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WirePart {
    #[prost(oneof = "WireValue", tags = "1, 2, 3, 4, 5, 6, 7")]
    value: Option<WireValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum WireValue {
    #[prost(bool, tag = "1")]
    Bool(bool),
    #[prost(sint64, tag = "2")]
    Signed(i64),
    #[prost(uint64, tag = "3")]
    Unsigned(u64),
    #[prost(double, tag = "4")]
    Float(f64),
    #[prost(string, tag = "5")]
    Text(String),
    #[prost(bytes, tag = "6")]
    Bytes(Vec<u8>),
    #[prost(message, tag = "7")]
    Time(prost_types::Timestamp),
}

impl From<Scalar> for WireValue {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Bool(value) => Self::Bool(value),
            // Every integer of protobuf fits one of the two.
            Scalar::Int(value) => match i64::try_from(value) {
                Ok(value) => Self::Signed(value),
                Err(_) => Self::Unsigned(u64::try_from(value).unwrap_or(u64::MAX)),
            },
            Scalar::Float(value) => Self::Float(value),
            Scalar::Text(value) => Self::Text(value),
            Scalar::Bytes(value) => Self::Bytes(value),
            Scalar::Time { seconds, nanos } => Self::Time(prost_types::Timestamp { seconds, nanos }),
        }
    }
}

impl From<WireValue> for Scalar {
    fn from(value: WireValue) -> Self {
        match value {
            WireValue::Bool(value) => Self::Bool(value),
            WireValue::Signed(value) => Self::Int(value.into()),
            WireValue::Unsigned(value) => Self::Int(value.into()),
            WireValue::Float(value) => Self::Float(value),
            WireValue::Text(value) => Self::Text(value),
            WireValue::Bytes(value) => Self::Bytes(value),
            WireValue::Time(prost_types::Timestamp { seconds, nanos }) => Self::Time { seconds, nanos },
        }
    }
}
