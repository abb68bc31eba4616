//! The server's view of an update with unknown values.
//!
//! The server is asked twice: once with the values of the prior state in place of the unknown ones, and once with other
//! values. A part that is the same in both answers, now and after the work of controllers, does not depend on the unknown
//! values, and is known. If the server refuses an answer, the prior state takes its place: a fault may come from the
//! placeholders, and the plan with known values shows one that does not.

use mortise_resource::{data::PlanResponse, pb};
use tonic::{Code, Status};

use super::{plan::View, session::Server};
use crate::{
    mapping::{Attribute, Leaf, Shape, from_data},
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    state::{metadata, metadata_shape, request},
    value::Value,
};

/// Asks for the view.
pub(super) async fn partial_view(
    schema: &ResourceSchema,
    server: &Server,
    prior: &Value,
    config: &Value,
) -> Result<View, Vec<Diagnostic>> {
    let first = ask(schema, server, &with_placeholders(schema, config, prior, prior_value)).await?;
    let second = ask(schema, server, &with_placeholders(schema, config, prior, other_value)).await?;
    let read = |resource: &pb::Resource| (from_data(&schema.data, resource.data.as_ref()).0, metadata(resource));
    let from_prior = (prior.get("data").clone(), prior.get("metadata").clone());
    let mut views = Vec::new();
    for answer in [&first, &second] {
        let Some(answer) = answer else {
            views.push(from_prior.clone());
            continue;
        };
        views.extend([&answer.resource, &answer.predicted].into_iter().flatten().map(read));
    }
    let agreed = |name: &str, part: fn(&(Value, Value)) -> &Value| {
        let parts: Vec<_> = views.iter().map(part).collect();
        settled(config.get(name), &parts)
    };
    Ok(View {
        data: Some(agreed("data", |view| &view.0)),
        metadata: Some(agreed("metadata", |view| &view.1)),
        // With prior values in place of the unknown ones every change is a known one.
        replace: first.as_ref().map(|answer| answer.replace.clone()).unwrap_or_default(),
        resource: first.and_then(|answer| answer.resource),
        ..View::default()
    })
}

/// A dry run of a configuration with placeholders; `None` if it is refused.
async fn ask(
    schema: &ResourceSchema,
    server: &Server,
    config: &Value,
) -> Result<Option<PlanResponse>, Vec<Diagnostic>> {
    let Ok(sent) = request(schema, config, &server.defaults) else { return Ok(None) };
    match server.client.plan(sent, false).await {
        Ok(answer) => Ok(Some(answer)),
        Err(status) if says_nothing(&status) => Err(server.faults("planning", &status)),
        Err(_) => Ok(None),
    }
}

/// Whether a status is no answer to the placeholders: a dry run that a busy server did not make.
fn says_nothing(status: &Status) -> bool {
    use Code::{Aborted, Cancelled, DeadlineExceeded, ResourceExhausted, Unauthenticated, Unavailable};
    matches!(status.code(), Unavailable | DeadlineExceeded | Unauthenticated | ResourceExhausted | Aborted | Cancelled)
}

/// A placeholder of an unknown value, from the shape and the prior value of its place.
type Placeholder = fn(&Shape, &Value) -> Value;

/// The prior value.
fn prior_value(_: &Shape, prior: &Value) -> Value {
    prior.clone()
}

/// Another value than the prior one: none, or one that is made up.
fn other_value(shape: &Shape, prior: &Value) -> Value {
    match (prior, shape) {
        (Value::Null, Shape::Leaf(Leaf::String)) => Value::String("unknown".to_owned()),
        (Value::Null, Shape::Leaf(Leaf::Integer | Leaf::Float | Leaf::Double)) => Value::Number(1_i64.into()),
        (Value::Null, Shape::Leaf(Leaf::Bool)) => Value::Bool(true),
        _ => Value::Null,
    }
}

/// A configuration with placeholders in data and metadata, and with prior values in the id and the owner.
fn with_placeholders(schema: &ResourceSchema, config: &Value, prior: &Value, placeholder: Placeholder) -> Value {
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

/// The parts on which views agree; the others are unknown. Parts of lists and maps count as far as the views have the
/// form of the configuration.
fn settled<'v>(config: &Value, views: &[&'v Value]) -> Value {
    let Some((first, rest)) = views.split_first() else { return Value::unknown() };
    let is_one = rest.iter().all(|view| view == first);
    match (config, first) {
        (Value::Map(_) | Value::Null, Value::Map(parts)) if !is_one || !config.is_null() => {
            let has_keys = |view: &Value| matches!(view, Value::Map(other) if other.keys().eq(parts.keys()));
            let fits = match config {
                Value::Map(config) => config.keys().eq(parts.keys()),
                _ => true,
            };
            if !fits || !rest.iter().all(|view| has_keys(view)) {
                return Value::unknown();
            }
            let part = |name: &String| {
                let views: Vec<_> = views.iter().map(|view| view.get(name)).collect();
                (name.clone(), settled(config.get(name), &views))
            };
            Value::Map(parts.keys().map(part).collect())
        }
        (Value::List(config), Value::List(items)) => {
            let has_len = |view: &Value| matches!(view, Value::List(other) if other.len() == items.len());
            if config.len() != items.len() || !rest.iter().all(|view| has_len(view)) {
                return Value::unknown();
            }
            let item = |(index, config): (usize, &Value)| {
                let item = |view: &&'v Value| if let Value::List(items) = view { items.get(index) } else { None };
                let items: Vec<_> = views.iter().filter_map(item).collect();
                settled(config, &items)
            };
            Value::List(config.iter().enumerate().map(item).collect())
        }
        // The form of a configured collection is its own.
        (Value::Map(_) | Value::List(_), _) => Value::unknown(),
        _ if is_one => (*first).clone(),
        _ => Value::unknown(),
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
        // A hook that makes a slug of the text: it differs, and stays unknown. The other parts are known.
        let answer = |of: &Value, slug: &str| {
            let Value::Map(mut parts) = of.clone() else { panic!("{of:?}") };
            parts.insert("slug".into(), text(slug));
            Value::Map(parts)
        };
        let (first, second) = (answer(&first, ""), answer(&second, "unknown"));
        let settled = settled(&config, &[&first, &second]);
        assert_eq!(settled.get("slug"), &unknown());
        let Value::List(ins) = settled.get("ins") else { panic!("{settled:?}") };
        assert_eq!(ins[0].get("weight"), &Value::Null, "the same in both");
    }
}
