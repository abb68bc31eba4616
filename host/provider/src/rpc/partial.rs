//! The server's view of an update with unknown values.
//!
//! The server is asked twice: once with the values of the prior state in place of the unknown ones, and once with other
//! values. A part that is the same in both answers, now and after the work of controllers, does not depend on the
//! unknown values, and is known. If the server refuses the prior values, the prior state takes the place of its answer:
//! the fault may come from the placeholders, and a fault of the configuration itself shows in the plan with known
//! values. If it refuses all other values, the parts that the configuration leaves out are unknown, since no answer
//! shows which of them depend on the unknown values.

use mortise_resource::{data::PlanResponse, pb};
use tonic::{Code, Status};

use super::{
    placeholders::{made_up_value, other_value, prior_value, with_placeholders},
    plan::View,
    session::Server,
};
use crate::{
    mapping::from_data,
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    state::{metadata, request},
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
    let mut second = None;
    for placeholder in [other_value, made_up_value] {
        second = ask(schema, server, &with_placeholders(schema, config, prior, placeholder)).await?;
        if second.is_some() {
            break;
        }
    }
    let read = |resource: &pb::Resource| (from_data(&schema.data, resource.data.as_ref()).0, metadata(resource));
    let of_prior = || (prior.get("data").clone(), prior.get("metadata").clone());
    let mut views = Vec::new();
    for (answer, instead) in [(&first, of_prior()), (&second, (Value::unknown(), Value::unknown()))] {
        match answer {
            Some(answer) => views.extend([&answer.resource, &answer.predicted].into_iter().flatten().map(read)),
            None => views.push(instead),
        }
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
    let defaults = server.defaults_for(schema, config).await?;
    let Ok(sent) = request(schema, config, &defaults) else { return Ok(None) };
    judged(server.client.plan(sent, false).await).map_err(|status| server.faults("planning", &status))
}

/// The answer of a dry run; `None` if it was refused.
///
/// # Errors
/// A status that says nothing about the placeholders: a busy server did not make the dry run.
fn judged(answer: Result<PlanResponse, Status>) -> Result<Option<PlanResponse>, Status> {
    use Code::{Aborted, Cancelled, DeadlineExceeded, ResourceExhausted, Unauthenticated, Unavailable};
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(status) => match status.code() {
            Unavailable | DeadlineExceeded | Unauthenticated | ResourceExhausted | Aborted | Cancelled => Err(status),
            _ => Ok(None),
        },
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
    use super::*;

    fn text(text: &str) -> Value {
        Value::String(text.into())
    }

    /// Otherwise a busy moment would make parts unknown that a later plan knows.
    #[test]
    fn a_dry_run_that_was_not_made_is_no_refusal() {
        use Code::{Aborted, DeadlineExceeded, FailedPrecondition, InvalidArgument, ResourceExhausted, Unavailable};
        for code in [Unavailable, DeadlineExceeded, ResourceExhausted, Aborted] {
            let found = judged(Err(Status::new(code, "")));
            assert!(found.is_err_and(|status| status.code() == code), "{code}");
        }
        for code in [InvalidArgument, FailedPrecondition] {
            assert_eq!(judged(Err(Status::new(code, ""))).unwrap(), None, "{code}");
        }
        assert_eq!(judged(Ok(PlanResponse::default())).unwrap(), Some(PlanResponse::default()));
    }

    #[test]
    fn parts_on_which_the_answers_agree_are_known() {
        let inner = |name: Value| Value::object([("name", name), ("weight", Value::Null)]);
        let of = |text: Value, slug: Value, ins: Value| Value::object([("text", text), ("slug", slug), ("ins", ins)]);
        let ins = |name: Value| Value::List(vec![inner(name)]);
        let config = of(Value::unknown(), Value::Null, ins(Value::unknown()));
        // A hook that makes a slug of the text: it differs, and stays unknown. The other parts are known.
        let first = of(Value::Null, text(""), ins(Value::Null));
        let second = of(text("unknown"), text("unknown"), ins(text("unknown")));
        let found = settled(&config, &[&first, &second]);
        assert_eq!(found.get("slug"), &Value::unknown());
        assert_eq!(found.get("ins"), &Value::List(vec![inner(Value::unknown())]), "the weight is the same in both");
        let refused = settled(&config, &[&first, &Value::unknown()]);
        assert_eq!(refused, Value::unknown(), "without a second answer nothing is known to agree");
    }
}
