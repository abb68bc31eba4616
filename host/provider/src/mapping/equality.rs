//! Equality of two values of one shape to a server, in any spelling.

use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};

use super::shape::{Leaf, Object, Presence, Shape};
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
        (Shape::Leaf(Leaf::Enum(enumeration)), Value::String(name)) => {
            enumeration.get_value(0).is_some_and(|zero| zero.name() == name) || name == "0"
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
    match (leaf, a, b) {
        (Leaf::Bytes, Value::String(a), Value::String(b)) => {
            let bytes = |text: &str| base64::engine::general_purpose::STANDARD.decode(text).ok();
            bytes(a).is_some_and(|a| Some(a) == bytes(b))
        }
        (Leaf::Timestamp, Value::String(a), Value::String(b)) => {
            let instant = |text: &str| text.parse::<Timestamp>().ok();
            instant(a).is_some_and(|a| Some(a) == instant(b))
        }
        (Leaf::Duration, Value::String(a), Value::String(b)) => {
            let length = |text: &str| text.parse::<SignedDuration>().ok();
            length(a).is_some_and(|a| Some(a) == length(b))
        }
        (Leaf::Enum(enumeration), Value::String(a), Value::String(b)) => {
            let number = |text: &str| {
                enumeration.get_value_by_name(text).map(|value| value.number()).or_else(|| text.parse::<i32>().ok())
            };
            number(a).is_some_and(|a| Some(a) == number(b))
        }
        (Leaf::Json, Value::String(a), Value::String(b)) => {
            let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
            json(a).zip(json(b)).is_some_and(|(a, b)| are_equal_json(&a, &b))
        }
        (Leaf::Float, Value::Number(a), Value::Number(b)) => {
            #[allow(clippy::cast_possible_truncation, reason = "a field of 32 bits keeps no more")]
            let kept = |number: &Number| number.nearest_f64() as f32;
            kept(a).to_bits() == kept(b).to_bits()
        }
        (Leaf::Double, Value::Number(a), Value::Number(b)) => a.nearest_f64().to_bits() == b.nearest_f64().to_bits(),
        _ => false,
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

/// Sets by value: each element of one pairs with a different element of the other.
fn are_equal_sets(shape: &Shape, a: &[Value], b: &[Value]) -> bool {
    let mut left: Vec<&Value> = b.iter().collect();
    a.len() == b.len()
        && a.iter().all(|a| {
            let found = left.iter().position(|b| are_equal(shape, Presence::Explicit, a, b));
            found.map(|found| left.swap_remove(found)).is_some()
        })
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
}
