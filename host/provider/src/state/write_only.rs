//! Values that are only written: the form of states and configurations for core, and the provider's own.
//!
//! Core gives the value of `secret_wo` with each configuration, and keeps it nowhere; `secret_wo_version` is in the
//! state. In the provider's own form neither exists: `secret` has the value, so that plans, requests and waits treat it
//! like any other. Where the version is set, core's form has no `secret`.

use std::collections::BTreeMap;

use crate::{
    mapping::{Attribute, Divergences, Object, Shape},
    schema::ResourceSchema,
    value::{Step, Value},
};

type Parts = BTreeMap<String, Value>;

/// A configuration in the provider's own form.
#[must_use]
pub fn revealed_config(schema: &ResourceSchema, config: &Value) -> Value {
    change(schema, config, config, reveal_given)
}

/// A planned state in the provider's own form: the configuration has the values again.
#[must_use]
pub fn revealed_plan(schema: &ResourceSchema, planned: &Value, config: &Value) -> Value {
    change(schema, planned, config, reveal_planned)
}

/// A prior state in the provider's own form. A value of the version of the configuration is the one that was written;
/// one of another version is not known.
#[must_use]
pub fn revealed_prior(schema: &ResourceSchema, prior: &Value, config: &Value) -> Value {
    change(schema, prior, config, reveal_written)
}

/// A state in core's form: without the values whose version `versions`, a state or a configuration, has.
#[must_use]
pub fn hidden(schema: &ResourceSchema, state: &Value, versions: &Value) -> Value {
    change(schema, state, versions, hide)
}

fn reveal_given(attribute: &Attribute, parts: &mut Parts, _: &Value) {
    parts.remove(&attribute.version_name());
    if let Some(given) = parts.remove(&attribute.write_only_name()).filter(|given| !given.is_null()) {
        parts.insert(attribute.name.clone(), given);
    }
}

fn reveal_planned(attribute: &Attribute, parts: &mut Parts, config: &Value) {
    parts.remove(&attribute.write_only_name());
    if parts.remove(&attribute.version_name()).is_some_and(|version| !version.is_null()) {
        parts.insert(attribute.name.clone(), config.get(&attribute.write_only_name()).clone());
    }
}

fn reveal_written(attribute: &Attribute, parts: &mut Parts, config: &Value) {
    parts.remove(&attribute.write_only_name());
    let version = parts.remove(&attribute.version_name()).unwrap_or(Value::Null);
    if !version.is_null() {
        let is_same = *config.get(&attribute.version_name()) == version;
        let written = if is_same { config.get(&attribute.write_only_name()).clone() } else { Value::unknown() };
        parts.insert(attribute.name.clone(), written);
    }
}

fn hide(attribute: &Attribute, parts: &mut Parts, versions: &Value) {
    let version = versions.get(&attribute.version_name()).clone();
    if !version.is_null() {
        parts.insert(attribute.name.clone(), Value::Null);
    }
    parts.insert(attribute.write_only_name(), Value::Null);
    parts.insert(attribute.version_name(), version);
}

/// The divergences without the hidden values, since core keeps them in a file.
#[must_use]
pub fn without_hidden(schema: &ResourceSchema, divergences: Divergences, versions: &Value) -> Divergences {
    let mut kept = Divergences::default();
    for (path, value) in divergences.iter() {
        let holds_hidden = match path {
            [Step::Attribute(data), rest @ ..] if data == "data" => {
                hides_at(&schema.shape(), versions.get("data"), rest)
            }
            _ => false,
        };
        if !holds_hidden {
            kept.record(path, value.clone());
        }
    }
    kept
}

/// The path in core's form: a hidden value changes with its version.
#[must_use]
pub fn shown_path(schema: &ResourceSchema, path: Vec<Step>, versions: &Value) -> Vec<Step> {
    let [Step::Attribute(data), rest @ ..] = path.as_slice() else { return path };
    let attribute = schema.data.attribute_at(rest).filter(|_| data == "data");
    match attribute {
        Some(attribute) if attribute.has_companion && hides_at(&schema.shape(), versions.get("data"), rest) => {
            let mut path = path.clone();
            path.pop();
            path.push(Step::Attribute(attribute.version_name()));
            path
        }
        _ => path,
    }
}

/// Whether a hidden value is at a path, or below it.
fn hides_at(shape: &Shape, versions: &Value, path: &[Step]) -> bool {
    match (shape, path) {
        (_, []) => hides_within(shape, versions),
        (Shape::Object(object), [Step::Attribute(name), rest @ ..]) => {
            let attribute = object.attributes.iter().find(|attribute| attribute.name == *name);
            attribute.is_some_and(|attribute| {
                is_hidden(attribute, versions) || hides_at(&attribute.shape, versions.get(name), rest)
            })
        }
        (Shape::List(element), [Step::Index(index), rest @ ..]) => match versions {
            Value::List(items) => items.get(*index).is_some_and(|item| hides_at(element, item, rest)),
            _ => false,
        },
        (Shape::Map(element), [Step::Key(key), rest @ ..]) => hides_at(element, versions.get(key), rest),
        _ => false,
    }
}

fn hides_within(shape: &Shape, versions: &Value) -> bool {
    match (shape, versions) {
        (Shape::Object(object), Value::Map(_)) => object.attributes.iter().any(|attribute| {
            is_hidden(attribute, versions) || hides_within(&attribute.shape, versions.get(&attribute.name))
        }),
        (Shape::List(element), Value::List(items)) => items.iter().any(|item| hides_within(element, item)),
        (Shape::Map(element), Value::Map(entries)) => entries.values().any(|entry| hides_within(element, entry)),
        _ => false,
    }
}

fn is_hidden(attribute: &Attribute, versions: &Value) -> bool {
    attribute.has_companion && !versions.get(&attribute.version_name()).is_null()
}

/// A change of an object at an attribute with a companion; the last argument is the object at the same place of the
/// other value.
type Change = fn(&Attribute, &mut Parts, &Value);

/// Changes the objects in the data of a value.
fn change(schema: &ResourceSchema, value: &Value, other: &Value, change: Change) -> Value {
    let Value::Map(parts) = value else { return value.clone() };
    let mut parts = parts.clone();
    if let (true, Some(data)) = (schema.has_companions, parts.get_mut("data")) {
        *data = within(&schema.shape(), data, other.get("data"), change);
    }
    Value::Map(parts)
}

fn within(shape: &Shape, value: &Value, other: &Value, change: Change) -> Value {
    match (shape, value) {
        (Shape::Object(object), Value::Map(parts)) => Value::Map(in_object(object, parts.clone(), other, change)),
        (Shape::List(element), Value::List(items)) => {
            let others: &[Value] = if let Value::List(others) = other { others } else { &[] };
            // What another client added is treated like its neighbour.
            let at = |index| others.get(index).or(others.last()).unwrap_or(&Value::Null);
            let item = |(index, item)| within(element, item, at(index), change);
            Value::List(items.iter().enumerate().map(item).collect())
        }
        (Shape::Map(element), Value::Map(entries)) => {
            let first = if let Value::Map(others) = other { others.values().next() } else { None };
            let entry = |(key, entry): (&String, &Value)| {
                let found = match (other, first) {
                    (Value::Map(others), Some(first)) => others.get(key).unwrap_or(first),
                    _ => &Value::Null,
                };
                (key.clone(), within(element, entry, found, change))
            };
            Value::Map(entries.iter().map(entry).collect())
        }
        _ => value.clone(),
    }
}

fn in_object(object: &Object, mut parts: Parts, other: &Value, change: Change) -> Parts {
    for attribute in &object.attributes {
        if let Some(part) = parts.get_mut(&attribute.name) {
            *part = within(&attribute.shape, part, other.get(&attribute.name), change);
        }
        if attribute.has_companion {
            change(attribute, &mut parts, other);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::mapping::shape_of;

    fn text(text: &str) -> Value {
        Value::String(text.into())
    }

    /// A message whose fields `secret` have companions, below a list, a map and a message.
    fn shape() -> Shape {
        fn mark(object: &mut Object) {
            for attribute in &mut object.attributes {
                attribute.has_companion = attribute.name == "secret";
                match &mut attribute.shape {
                    Shape::Object(inner) => mark(Arc::make_mut(inner)),
                    Shape::List(element) | Shape::Map(element) => {
                        if let Shape::Object(inner) = &mut **element {
                            mark(Arc::make_mut(inner));
                        }
                    }
                    _ => {}
                }
            }
        }
        let mut object = shape_of(
            "message In { string secret = 1; }
             message M { string secret = 1; In in = 2; repeated In list = 3; map<string, In> by = 4; }",
        );
        mark(&mut object);
        Shape::Object(Arc::new(object))
    }

    fn inner(secret: Value, write_only: Value, version: Value) -> Value {
        Value::object([("secret", secret), ("secret_wo", write_only), ("secret_wo_version", version)])
    }

    /// A value with `part` at each place.
    fn everywhere(part: &Value) -> Value {
        let Value::Map(mut parts) = part.clone() else { panic!("{part:?}") };
        parts.insert("in".into(), part.clone());
        parts.insert("list".into(), Value::List(vec![part.clone()]));
        parts.insert("by".into(), Value::object([("k", part.clone())]));
        Value::Map(parts)
    }

    #[test]
    fn values_are_hidden_and_revealed_at_each_place() {
        let shape = shape();
        let null = || Value::Null;
        let own = |secret: Value| everywhere(&Value::object([("secret", secret)]));
        let config = everywhere(&inner(null(), text("hunter2"), text("1")));
        let stored = everywhere(&inner(null(), null(), text("1")));
        assert_eq!(within(&shape, &config, &config, reveal_given), own(text("hunter2")));
        assert_eq!(within(&shape, &stored, &config, reveal_planned), own(text("hunter2")));
        assert_eq!(within(&shape, &stored, &config, reveal_written), own(text("hunter2")));
        assert_eq!(within(&shape, &own(text("hunter2")), &config, hide), stored);
        // Another version, and a value that was never hidden.
        let next = everywhere(&inner(null(), text("hunter3"), text("2")));
        assert_eq!(within(&shape, &stored, &next, reveal_written), own(Value::unknown()));
        let plain = everywhere(&inner(text("shown"), null(), null()));
        assert_eq!(within(&shape, &plain, &config, reveal_written), own(text("shown")));
        assert_eq!(within(&shape, &own(text("shown")), &plain, hide), plain);
    }

    #[test]
    fn what_another_client_adds_beside_a_hidden_value_is_hidden_too() {
        let shape = shape();
        let part = |secret: &str| Value::object([("secret", text(secret))]);
        let found = Value::object([
            ("secret", Value::Null),
            ("in", Value::Null),
            ("list", Value::List(vec![part("hunter2"), part("theirs")])),
            ("by", Value::object([("k", part("hunter2")), ("other", part("theirs"))])),
        ]);
        let stored = everywhere(&inner(Value::Null, Value::Null, text("1")));
        let shown = format!("{:?}", within(&shape, &found, &stored, hide));
        assert!(!shown.contains("hunter2") && !shown.contains("theirs"), "{shown}");
    }

    #[test]
    fn hidden_values_are_found_at_and_below_paths() {
        let shape = shape();
        let stored = everywhere(&inner(Value::Null, Value::Null, text("1")));
        let plain = everywhere(&inner(text("x"), Value::Null, Value::Null));
        let step = |name: &str| Step::Attribute(name.into());
        for path in [
            vec![step("secret")],
            vec![step("in"), step("secret")],
            vec![step("list")],
            vec![step("list"), Step::Index(0), step("secret")],
            vec![step("by"), Step::Key("k".into())],
        ] {
            assert!(hides_at(&shape, &stored, &path), "{path:?}");
            assert!(!hides_at(&shape, &plain, &path), "{path:?}");
        }
    }
}
