//! Placeholders of unknown values, for the dry runs of `partial`.

use crate::{
    mapping::{Attribute, Leaf, Presence, Shape, are_equal},
    schema::ResourceSchema,
    state::metadata_shape,
    value::Value,
};

/// A placeholder of an unknown value, from the shape and the prior value of its place.
pub(super) type Placeholder = fn(&Shape, &Value) -> Value;

/// The prior value; null if core does not keep it.
pub(super) fn prior_value(_: &Shape, prior: &Value) -> Value {
    if prior.is_wholly_known() { prior.clone() } else { Value::Null }
}

/// Returns null in place of a prior value, and a made-up value where there was none.
pub(super) fn other_value(shape: &Shape, prior: &Value) -> Value {
    // A message may not tell a zero from an absent value.
    let is_none = !prior.is_wholly_known() || are_equal(shape, Presence::Implicit, prior, &Value::Null);
    if is_none { made_up_value(shape, prior) } else { Value::Null }
}

/// A made-up value that differs from the prior one; the same one if the shape has a single value.
pub(super) fn made_up_value(shape: &Shape, prior: &Value) -> Value {
    let mut candidates = (0..MAX_VARIANTS).filter_map(|variant| made_up(shape, variant));
    let differs = |value: &Value| !are_equal(shape, Presence::Implicit, prior, value);
    candidates.find(differs).or_else(|| made_up(shape, 0)).unwrap_or(Value::Null)
}

/// Most made-up values of a shape.
const MAX_VARIANTS: usize = 3;

/// A made-up value of a shape; other variants are other values. The numbers are rarely defaults of a plugin.
fn made_up(shape: &Shape, variant: usize) -> Option<Value> {
    let text = |texts: &[&str]| texts.get(variant).map(|text| Value::String((*text).to_owned()));
    match shape {
        Shape::Leaf(Leaf::String) => text(&["unknown", "unknown-2"]),
        Shape::Leaf(Leaf::Bytes) => text(&["AQ==", "Ag=="]),
        Shape::Leaf(Leaf::Timestamp) => text(&["2000-01-01T00:00:00Z", "2001-01-01T00:00:00Z"]),
        Shape::Leaf(Leaf::Duration) => text(&["13s", "17s"]),
        Shape::Leaf(Leaf::Json) => text(&["{}", r#"{"unknown":13}"#]),
        Shape::Leaf(Leaf::Integer | Leaf::Float | Leaf::Double) => {
            [13_i64, 17].get(variant).map(|number| Value::Number((*number).into()))
        }
        Shape::Leaf(Leaf::Bool) => [true, false].get(variant).copied().map(Value::Bool),
        // The zero comes last, since it may be the same as none.
        Shape::Leaf(Leaf::Enum(enumeration)) => {
            let values = enumeration.values().filter(|value| value.number() != 0).take(2);
            let value = values.chain(enumeration.get_value(0)).nth(variant)?;
            Some(Value::String(value.name().to_owned()))
        }
        Shape::Paths => {
            ["unknown", "other"].get(variant).map(|path| Value::List(vec![Value::String((*path).to_owned())]))
        }
        Shape::List(element) | Shape::Set(element) => match variant {
            0 => Some(Value::List(vec![made_up(element, 0)?])),
            1 => Some(Value::List(vec![made_up(element, 0)?, made_up(element, 1)?])),
            _ => Some(Value::List(Vec::new())),
        },
        Shape::Map(element) => Some(Value::object([(*["unknown", "other"].get(variant)?, made_up(element, 0)?)])),
        Shape::Object(object) => {
            let optional = object.attributes.iter().find(|attribute| attribute.flags.optional && variant == 1);
            let is_set = |attribute: &Attribute| {
                attribute.flags.required || optional.is_some_and(|first| first.name == attribute.name)
            };
            let part = |attribute: &Attribute| {
                let value = is_set(attribute).then(|| made_up(&attribute.shape, 0)).flatten();
                (attribute.name.clone(), value.unwrap_or(Value::Null))
            };
            (variant < 2).then(|| Value::Map(object.attributes.iter().map(part).collect()))
        }
    }
}

/// A configuration with placeholders in data and metadata, and with prior values in the id and the owner.
pub(super) fn with_placeholders(
    schema: &ResourceSchema,
    config: &Value,
    prior: &Value,
    placeholder: Placeholder,
) -> Value {
    let Value::Map(parts) = config else { return config.clone() };
    let part = |(name, part): (&String, &Value)| {
        let before = prior.get(name);
        let filled = match name.as_str() {
            "data" => filled(&schema.shape(), part, before, placeholder),
            "metadata" => filled(&metadata_shape(), part, before, placeholder),
            "owner" => match (part, before) {
                (Value::Map(owner), _) => {
                    let known = |(name, part): (&String, &Value)| {
                        let part = if matches!(part, Value::Unknown(_)) { before.get(name) } else { part };
                        (name.clone(), part.clone())
                    };
                    Value::Map(owner.iter().map(known).collect())
                }
                (Value::Unknown(_), before) => before.clone(),
                _ => part.clone(),
            },
            _ if matches!(part, Value::Unknown(_)) => before.clone(),
            _ => part.clone(),
        };
        (name.clone(), filled)
    };
    Value::Map(parts.iter().map(part).collect())
}

fn filled(shape: &Shape, config: &Value, prior: &Value, placeholder: Placeholder) -> Value {
    match (shape, config) {
        (_, Value::Unknown(_)) => placeholder(shape, prior),
        (Shape::Object(object), Value::Map(parts)) => {
            let part = |attribute: &Attribute| {
                let (name, null) = (&attribute.name, Value::Null);
                let part = filled(&attribute.shape, parts.get(name).unwrap_or(&null), prior.get(name), placeholder);
                (name.clone(), part)
            };
            Value::Map(object.attributes.iter().map(part).collect())
        }
        (Shape::Map(element), Value::Map(entries)) => {
            let entries = entries.iter().map(|(key, entry)| {
                (key.clone(), entry.is_null(), filled(element, entry, prior.get(key), placeholder))
            });
            // A map has no null elements.
            let entries = entries.filter(|(_, was_null, entry)| *was_null || !entry.is_null());
            Value::Map(entries.map(|(key, _, entry)| (key, entry)).collect())
        }
        (Shape::List(element) | Shape::Set(element), Value::List(items)) => {
            let before: &[Value] = if let Value::List(before) = prior { before } else { &[] };
            let item = |(index, item)| filled(element, item, before.get(index).unwrap_or(&Value::Null), placeholder);
            let filled: Vec<_> = items.iter().enumerate().map(item).collect();
            // Without an element the positions of the others mean nothing.
            if filled.iter().any(Value::is_null) { placeholder(shape, prior) } else { Value::List(filled) }
        }
        (_, config) => config.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::mapping::shape_of;

    fn text(text: &str) -> Value {
        Value::String(text.into())
    }

    #[test]
    fn placeholders_show_what_depends_on_an_unknown_value() {
        let object = shape_of(
            "message In { string name = 1; int32 weight = 2; }
             message M { string text = 1; string slug = 2; map<string, string> labels = 3; repeated In ins = 4; bool on = 5; }",
        );
        let shape = Shape::Object(Arc::new(object));
        let of = |parts: &[(&str, Value)]| {
            let all = ["text", "slug", "labels", "ins", "on"];
            let part =
                |name| parts.iter().find(|(known, _)| *known == name).map_or(Value::Null, |(_, value)| value.clone());
            Value::object(all.map(|name| (name, part(name))))
        };
        let unknown = Value::unknown;
        let inner = |name: Value| Value::object([("name", name), ("weight", Value::Null)]);
        let config = of(&[
            ("text", unknown()),
            ("labels", Value::object([("a", unknown()), ("b", text("b"))])),
            ("ins", Value::List(vec![inner(unknown())])),
            ("on", unknown()),
        ]);
        let prior = of(&[("labels", Value::object([("a", text("was"))]))]);
        let first = filled(&shape, &config, &prior, prior_value);
        let labels = |entries: &[(&str, Value)]| Value::object(entries.iter().cloned());
        assert_eq!(first.get("labels"), &labels(&[("a", text("was")), ("b", text("b"))]));
        assert_eq!((first.get("text"), first.get("ins")), (&Value::Null, &Value::List(vec![inner(Value::Null)])));
        let second = filled(&shape, &config, &prior, other_value);
        assert_eq!(second.get("labels"), &labels(&[("b", text("b"))]));
        assert_eq!((second.get("text"), second.get("on")), (&text("unknown"), &Value::Bool(true)));
        assert_eq!(second.get("ins"), &Value::List(vec![inner(text("unknown"))]));
    }

    #[test]
    fn a_placeholder_differs_from_the_prior_value_to_the_server() {
        let object = shape_of(
            "enum E { ZERO = 0; ONE = 1; TWO = 2; }
             message In { string name = 1; }
             message M {
               string text = 1; optional string maybe = 2; bytes raw = 3; E e = 4; bool on = 5; int32 n = 6; double d = 7;
               google.protobuf.Timestamp at = 8; google.protobuf.Duration took = 9; google.protobuf.Struct any = 10;
               repeated string tags = 11; repeated In ins = 12; map<string, In> by = 13; In in = 14;
               google.protobuf.FieldMask mask = 15; repeated E es = 16; map<string, bool> flags = 17;
             }",
        );
        for attribute in &object.attributes {
            let (shape, mut prior) = (&attribute.shape, vec![Value::Null]);
            prior.extend((0..MAX_VARIANTS).filter_map(|variant| made_up(shape, variant)));
            prior.extend([
                text(""),
                Value::Bool(false),
                Value::Number(0_i64.into()),
                text("ZERO"),
                Value::List(Vec::new()),
            ]);
            for prior in prior {
                for placeholder in [other_value, made_up_value] {
                    let other = placeholder(shape, &prior);
                    let equal = are_equal(shape, attribute.presence, &prior, &other);
                    assert!(!equal, "{}: {other:?} in place of {prior:?}", attribute.name);
                }
                assert!(!made_up_value(shape, &prior).is_null(), "{}", attribute.name);
            }
        }
    }
}
