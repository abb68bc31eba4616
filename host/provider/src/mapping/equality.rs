//! Equality of two values of one shape to a server, in any spelling.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState},
};

use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};

use super::shape::{Attribute, Leaf, Object, Presence, Shape};
use crate::value::{Number, Value};

/// Whether two values are equal to the server. An unknown value equals no other value, not even itself.
#[must_use]
pub fn are_equal(shape: &Shape, presence: Presence, a: &Value, b: &Value) -> bool {
    if matches!(a, Value::Unknown(_)) || matches!(b, Value::Unknown(_)) {
        return false;
    }
    match (shape, a, b) {
        (_, Value::Null, Value::Null) => true,
        (_, Value::Null, other) | (_, other, Value::Null) => presence == Presence::Implicit && is_zero(shape, other),
        (Shape::Leaf(leaf), a, b) => are_equal_leaves(leaf, a, b),
        (Shape::List(element), Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_equal(element, Presence::Explicit, a, b))
        }
        (Shape::Set(element), Value::List(a), Value::List(b)) => are_equal_sets(element, a, b),
        (Shape::Paths, a, b) => a == b,
        (Shape::Map(element), Value::Map(a), Value::Map(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| are_equal(element, Presence::Explicit, a, b)))
        }
        (Shape::Object(object), Value::Map(_), Value::Map(_)) => are_equal_objects(object, a, b),
        _ => false,
    }
}

/// Whether two objects are equal to the server.
#[must_use]
pub(super) fn are_equal_objects(object: &Object, a: &Value, b: &Value) -> bool {
    let (Value::Map(a), Value::Map(b)) = (a, b) else { return a == b };
    object.attributes.iter().all(|attribute| {
        let part = |values: &std::collections::BTreeMap<String, Value>| {
            values.get(&attribute.name).cloned().unwrap_or(Value::Null)
        };
        are_equal(&attribute.shape, attribute.presence, &part(a), &part(b))
    })
}

/// Whether a message cannot tell a value from an absent one.
fn is_zero(shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (_, Value::Null) => true,
        (Shape::List(_) | Shape::Set(_), Value::List(items)) => items.is_empty(),
        (Shape::Map(_), Value::Map(entries)) => entries.is_empty(),
        (Shape::Leaf(leaf @ (Leaf::Enum(_) | Leaf::Float | Leaf::Double)), value) => {
            matches!(meaning(leaf, value), Some(Meaning::Enum(0) | Meaning::Float(0) | Meaning::Double(0)))
                || matches!(value, Value::Number(number) if *number == Number::from(0_i64))
        }
        (Shape::Leaf(Leaf::String | Leaf::Bytes), Value::String(text)) => text.is_empty(),
        (Shape::Leaf(_), Value::Bool(value)) => !value,
        (Shape::Leaf(_), Value::Number(number)) => *number == Number::from(0_i64),
        _ => false,
    }
}

fn are_equal_leaves(leaf: &Leaf, a: &Value, b: &Value) -> bool {
    if a == b {
        return true;
    }
    match (meaning(leaf, a), meaning(leaf, b)) {
        (Some(Meaning::Json(a)), Some(Meaning::Json(b))) => are_equal_json(&a, &b),
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// The meaning of a leaf with several spellings.
#[derive(Debug, PartialEq)]
enum Meaning {
    Bytes(Vec<u8>),
    Timestamp(Timestamp),
    Duration(SignedDuration),
    Enum(i32),
    Float(u32),
    Double(u64),
    Json(serde_json::Value),
}

/// Returns the meaning of a leaf; `None` if its spelling is the only one, or does not fit the leaf.
fn meaning(leaf: &Leaf, value: &Value) -> Option<Meaning> {
    match (leaf, value) {
        (Leaf::Bytes, Value::String(text)) => {
            base64::engine::general_purpose::STANDARD.decode(text).ok().map(Meaning::Bytes)
        }
        (Leaf::Timestamp, Value::String(text)) => text.parse().ok().map(Meaning::Timestamp),
        (Leaf::Duration, Value::String(text)) => text.parse().ok().map(Meaning::Duration),
        (Leaf::Enum(enumeration), Value::String(text)) => enumeration
            .get_value_by_name(text)
            .map(|value| value.number())
            .or_else(|| text.parse().ok())
            .map(Meaning::Enum),
        (Leaf::Json, Value::String(text)) => serde_json::from_str(text).ok().map(Meaning::Json),
        #[allow(clippy::cast_possible_truncation, reason = "a field of 32 bits keeps no more")]
        (Leaf::Float, Value::Number(number)) => Some(Meaning::Float((number.nearest_f64() as f32).to_bits())),
        (Leaf::Double, Value::Number(number)) => Some(Meaning::Double(number.nearest_f64().to_bits())),
        _ => None,
    }
}

/// JSON by value: objects without order, numbers as decimals.
fn are_equal_json(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value as Json;
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => {
            match (a.to_string().parse::<Number>(), b.to_string().parse::<Number>()) {
                (Ok(a), Ok(b)) => a == b,
                _ => a == b,
            }
        }
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_equal_json(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| are_equal_json(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Sets by value: each element of one pairs with a different element of the other. Elements are found by their hashes,
/// so the time is linear in the number of different elements.
fn are_equal_sets(shape: &Shape, a: &[Value], b: &[Value]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let keys = RandomState::new();
    let mut left: HashMap<u64, Vec<&Value>> = HashMap::new();
    for b in b {
        left.entry(hash(&keys, shape, b)).or_default().push(b);
    }
    a.iter().all(|a| {
        let Some(alike) = left.get_mut(&hash(&keys, shape, a)) else { return false };
        let found = alike.iter().position(|b| are_equal(shape, Presence::Explicit, a, b));
        found.map(|found| alike.swap_remove(found)).is_some()
    })
}

/// Returns the hash of a value. Equal values have the same hash, in any presence.
fn hash(keys: &RandomState, shape: &Shape, value: &Value) -> u64 {
    let mut state = keys.build_hasher();
    // In a field without presence zero equals an absent value.
    if matches!(value, Value::Null) || is_zero(shape, value) {
        return state.finish();
    }
    match (shape, value) {
        (Shape::Leaf(leaf), value) => match meaning(leaf, value) {
            Some(Meaning::Bytes(bytes)) => bytes.hash(&mut state),
            Some(Meaning::Timestamp(instant)) => instant.hash(&mut state),
            Some(Meaning::Duration(length)) => length.hash(&mut state),
            Some(Meaning::Enum(number)) => number.hash(&mut state),
            Some(Meaning::Float(bits)) => bits.hash(&mut state),
            Some(Meaning::Double(bits)) => bits.hash(&mut state),
            Some(Meaning::Json(json)) => hash_json(keys, &json).hash(&mut state),
            None => hash_exact(keys, value).hash(&mut state),
        },
        (Shape::List(element), Value::List(items)) => {
            items.iter().for_each(|item| hash(keys, element, item).hash(&mut state));
        }
        (Shape::Set(element), Value::List(items)) => {
            items.iter().fold(0_u64, |sum, item| sum.wrapping_add(hash(keys, element, item))).hash(&mut state);
        }
        (Shape::Map(element), Value::Map(entries)) => {
            entries.iter().for_each(|(key, entry)| (key, hash(keys, element, entry)).hash(&mut state));
        }
        (Shape::Object(object), Value::Map(values)) => {
            for Attribute { name, shape, .. } in &object.attributes {
                hash(keys, shape, values.get(name).unwrap_or(&Value::Null)).hash(&mut state);
            }
        }
        (_, value) => hash_exact(keys, value).hash(&mut state),
    }
    state.finish()
}

/// Returns the hash of a value without a shape.
fn hash_exact(keys: &RandomState, value: &Value) -> u64 {
    match value {
        Value::Null | Value::Unknown(_) | Value::Dynamic(..) => 0,
        Value::Bool(value) => keys.hash_one(value),
        Value::Number(number) => keys.hash_one(number),
        Value::String(text) => keys.hash_one(text),
        Value::List(items) => keys.hash_one(items.iter().map(|item| hash_exact(keys, item)).collect::<Vec<_>>()),
        Value::Map(entries) => {
            keys.hash_one(entries.iter().map(|(key, entry)| (key, hash_exact(keys, entry))).collect::<Vec<_>>())
        }
    }
}

/// Returns the hash of JSON by value, as [`are_equal_json`] compares it.
fn hash_json(keys: &RandomState, json: &serde_json::Value) -> u64 {
    use serde_json::Value as Json;
    match json {
        Json::Null => 0,
        Json::Bool(value) => keys.hash_one(value),
        Json::Number(number) => number.to_string().parse::<Number>().map_or(0, |number| keys.hash_one(number)),
        Json::String(text) => keys.hash_one(text),
        Json::Array(items) => keys.hash_one(items.iter().map(|item| hash_json(keys, item)).collect::<Vec<_>>()),
        Json::Object(entries) => {
            let entries = entries.iter().map(|(key, entry)| keys.hash_one((key, hash_json(keys, entry))));
            keys.hash_one(entries.fold(0_u64, u64::wrapping_add))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::shape::tests::object;

    fn text(text: &str) -> Value {
        Value::String(text.into())
    }

    fn number(text: &str) -> Value {
        Value::Number(text.parse().unwrap())
    }

    #[test]
    fn values_are_the_same_by_what_they_mean() {
        let object = object(
            "enum E { ZERO = 0; ONE = 1; }
             message M {
               string text = 1; optional string maybe = 2; bytes b = 3; E e = 4; repeated string l = 5;
               google.protobuf.Timestamp at = 6; google.protobuf.Duration took = 7; google.protobuf.Struct any = 8;
               float f = 9; double d = 10; int64 n = 11; map<string, string> m = 12; bool yes = 13;
             }",
        );
        let list = |items: &[&str]| Value::List(items.iter().map(|item| text(item)).collect());
        let find = |name: &str| object.attributes.iter().find(|find| find.name == name).unwrap();
        for (name, a, b, are) in [
            ("text", text(""), Value::Null, true),
            ("text", text("a"), text("A"), false),
            ("maybe", text(""), Value::Null, false),
            ("yes", Value::Bool(false), Value::Null, true),
            ("n", number("0"), Value::Null, true),
            ("n", number("3.0"), number("3"), true),
            ("b", text("aGk="), text("aGk="), true),
            ("b", text("aGk="), text("aGg="), false),
            ("e", text("ZERO"), Value::Null, true),
            ("e", text("ONE"), text("1"), true),
            ("e", text("ONE"), text("ZERO"), false),
            ("l", list(&[]), Value::Null, true),
            ("l", list(&["a", "b"]), list(&["b", "a"]), false),
            ("m", Value::Map(Default::default()), Value::Null, true),
            ("at", text("2026-01-02T03:04:05Z"), text("2026-01-02T04:04:05+01:00"), true),
            ("at", text("2026-01-02T03:04:05Z"), text("2026-01-02T03:04:06Z"), false),
            ("took", text("90s"), text("1m30s"), true),
            ("took", text("90s"), text("91s"), false),
            ("any", text(r#"{"a": 1, "b": [1.0]}"#), text(r#"{"b":[1],"a":1}"#), true),
            ("any", text(r#"{"a": 1}"#), text(r#"{"a": 2}"#), false),
            ("f", number("0.1"), number("0.10000000149011612"), true),
            ("f", number("0.1"), number("0.2"), false),
            ("d", number("0.1"), number("0.10000000149011612"), false),
            ("text", Value::unknown(), Value::unknown(), false),
            ("text", text("1"), number("1"), false),
        ] {
            let attribute = find(name);
            assert_eq!(are_equal(&attribute.shape, attribute.presence, &a, &b), are, "{name}: {a:?} and {b:?}");
            assert_eq!(are_equal(&attribute.shape, attribute.presence, &b, &a), are, "{name}: {b:?} and {a:?}");
        }
        let set = Shape::Set(Box::new(Shape::Leaf(Leaf::String)));
        assert!(are_equal(&set, Presence::Implicit, &list(&["a", "b", "a"]), &list(&["a", "a", "b"])));
        assert!(!are_equal(&set, Presence::Implicit, &list(&["a", "b", "a"]), &list(&["a", "b", "b"])));
    }

    #[test]
    fn sets_are_equal_in_any_order_and_spelling() {
        let object = object(
            "enum E { ZERO = 0; ONE = 1; }
             message N {
               string text = 1; optional string maybe = 2; bytes b = 3; E e = 4; repeated string l = 5;
               google.protobuf.Timestamp at = 6; google.protobuf.Duration took = 7; google.protobuf.Struct any = 8;
               float f = 9; double d = 10; int64 n = 11; map<string, string> m = 12; bool yes = 13;
             }
             message M { N n = 1; }",
        );
        let Shape::Object(element) = &object.attributes[0].shape else { panic!("{:?}", object.attributes[0].shape) };
        let set = Shape::Set(Box::new(Shape::Object(element.clone())));
        let spellings = [
            ("text", text(""), Value::Null),
            ("e", text("ZERO"), text("00")),
            ("e", text("ONE"), text("1")),
            ("n", number("3.0"), number("3")),
            ("n", number("0"), Value::Null),
            ("b", text("aGk="), text("aGk=")),
            ("l", Value::List(Vec::new()), Value::Null),
            ("m", Value::Map(Default::default()), Value::Null),
            ("at", text("2026-01-02T03:04:05Z"), text("2026-01-02T04:04:05+01:00")),
            ("took", text("90s"), text("1m30s")),
            ("any", text(r#"{"a": 1, "b": [1.0]}"#), text(r#"{"b":[1],"a":1}"#)),
            ("f", number("0.1"), number("0.10000000149011612")),
            ("f", number("0"), number("1e-60")),
        ];
        let only = |name: &str, value: &Value| Value::object([(name, value.clone())]);
        let a: Vec<Value> = spellings.iter().map(|(name, a, _)| only(name, a)).collect();
        let b: Vec<Value> = spellings.iter().rev().map(|(name, _, b)| only(name, b)).collect();
        for (name, a, b) in &spellings {
            let (a, b) = (Value::List(vec![only(name, a)]), Value::List(vec![only(name, b)]));
            assert!(are_equal(&set, Presence::Explicit, &a, &b), "{a:?} and {b:?}");
        }
        let other = Value::List([vec![only("n", &number("4"))], b[1..].to_vec()].concat());
        assert!(are_equal(&set, Presence::Explicit, &Value::List(a.clone()), &Value::List(b)));
        assert!(!are_equal(&set, Presence::Explicit, &Value::List(a), &other));
    }

    /// Comparing each with each would take 45 billion steps here, and hours.
    #[test]
    fn large_sets_are_compared_in_time_by_their_number_of_elements() {
        let set = Shape::Set(Box::new(Shape::Leaf(Leaf::String)));
        let items: Vec<Value> = (0..300_000).map(|n| text(&n.to_string())).collect();
        let turned: Vec<Value> = items.iter().rev().cloned().collect();
        assert!(are_equal(&set, Presence::Explicit, &Value::List(items), &Value::List(turned)));
    }
}
