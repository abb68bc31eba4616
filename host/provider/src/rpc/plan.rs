//! Plans: the resource that the server would make of a configuration, in the user's spelling.
//!
//! A plan depends on the prior state, the configuration and the rules of the server alone: applying makes it again, and
//! it has to be the same then.

use mortise_resource::{data::PlanResponse, pb};
use tonic::{Code, Status};

use super::{
    diagnostic::{attribute_of, server_diagnostic, value_error, warning},
    session::Server,
};
use crate::{
    mapping::{Divergences, Presence, are_equal, conform, from_data},
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    state::{id_text, metadata, metadata_shape, request, tenancy_of},
    value::{Step, Value},
};

/// A plan.
pub(crate) struct Plan {
    pub(crate) state: Value,
    /// Paths of changes that replace the resource.
    pub(crate) replace: Vec<Vec<Step>>,
    /// The server's values where the state has the user's spelling.
    pub(crate) divergences: Divergences,
    /// Warnings.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The request to send; `None` while a part of it is not known.
    pub(crate) request: Option<pb::Resource>,
    /// Whether the server would write a change.
    pub(crate) writes: bool,
}

/// Attributes that must be wholly known before the server can plan.
const REQUEST_ATTRIBUTES: [&str; 6] = ["name", "partition", "namespace", "metadata", "owner", "data"];

/// Attributes that every write changes; the server sets them.
const CHANGED_BY_EVERY_WRITE: [&str; 3] = ["generation", "version", "status"];

/// Plans a creation (`prior` is null) or an update. `pending` says that the server does not have the resource yet.
pub(crate) async fn plan(
    schema: &ResourceSchema,
    server: &Server,
    prior: &Value,
    config: &Value,
    pending: bool,
) -> Result<Plan, Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    // A resource that the server does not have yet is created there, even if core calls it an update.
    let creates = prior.is_null() || pending;
    let known = REQUEST_ATTRIBUTES.iter().all(|name| config.get(name).is_wholly_known());
    let sent = match known {
        true => {
            let faults = |faults: Vec<_>| faults.iter().map(value_error).collect::<Vec<_>>();
            Some(request(schema, config, &server.defaults).map_err(faults)?)
        }
        false => None,
    };
    let answer = match &sent {
        Some(sent) => dry_run(server, sent, creates, &mut diagnostics).await?,
        None => None,
    }
    .unwrap_or_default();
    let (mutated, predicted) = (answer.resource, answer.predicted);
    // In the end the plugin's controllers decide the data.
    let expected = predicted.as_ref().or(mutated.as_ref());
    let mut divergences = Divergences::default();
    let read = |resource: &pb::Resource| {
        from_data(&schema.data, resource.data.as_ref()).map_err(|fault| vec![value_error(&fault)])
    };
    let data = expected.map(read).transpose()?;
    let from_server = expected.map(metadata);
    let mut planned = config.clone();
    let Value::Map(parts) = &mut planned else { return Ok(unchanged(planned)) };
    let conformed = conform(&schema.shape(), false, "data", config.get("data"), data.as_ref(), &mut divergences);
    parts.insert("data".to_owned(), conformed);
    let shape = metadata_shape();
    let conformed = conform(&shape, true, "metadata", config.get("metadata"), from_server.as_ref(), &mut divergences);
    parts.insert("metadata".to_owned(), conformed);
    fill_tenancy(schema, server, prior, config, mutated.as_ref(), parts);
    fill_owner(prior, parts);

    // Values from the plugin's controllers appear some time after the write, or are there already.
    let awaited = match (&predicted, &mutated, data) {
        (Some(_), Some(mutated), Some(expected)) => Some((read(mutated)?, expected)),
        _ => None,
    };
    let each = |planned: &mut Value, found: fn(&Value, &Value, &Value) -> Option<Value>| {
        if let (Some((written, expected)), Value::Map(parts)) = (&awaited, planned)
            && let Some(planned) = parts.get_mut("data")
        {
            replace_awaited((planned, config.get("data"), prior.get("data")), (written, expected), found);
        }
    };
    each(&mut planned, |prior, written, expected| (prior == written || prior == expected).then(|| prior.clone()));
    let writes = creates || !is_same(schema, prior, &planned);
    if writes {
        each(&mut planned, |_, _, _| Some(Value::unknown()));
    }
    if let Value::Map(parts) = &mut planned {
        fill_computed(schema, prior, mutated.as_ref(), writes, parts);
    }
    let replace = match creates {
        true => Vec::new(),
        false => {
            let own = schema.replacing_paths().into_iter().filter(|path| is_changed(schema, prior, &planned, path));
            let mut paths: Vec<_> =
                own.chain(answer.replace.iter().filter_map(|path| replaced_attribute(schema, path))).collect();
            paths.sort();
            paths.dedup();
            paths
        }
    };
    Ok(Plan { state: planned, replace, divergences, diagnostics, request: sent, writes })
}

fn unchanged(state: Value) -> Plan {
    let (replace, diagnostics) = (Vec::new(), Vec::new());
    Plan { state, replace, divergences: Divergences::default(), diagnostics, request: None, writes: false }
}

/// Replaces planned attributes that are not configured and that controllers will change after the write: `found` makes
/// the new value of the prior, the written and the expected one.
fn replace_awaited(
    (planned, config, prior): (&mut Value, &Value, &Value),
    (written, expected): (&Value, &Value),
    found: fn(&Value, &Value, &Value) -> Option<Value>,
) {
    let Value::Map(planned) = planned else { return };
    for (name, value) in planned {
        let (prior, written, expected) = (prior.get(name), written.get(name), expected.get(name));
        match config.get(name) {
            Value::Null if written != expected => {
                if let Some(found) = found(prior, written, expected) {
                    *value = found;
                }
            }
            configured @ Value::Map(_) => replace_awaited((value, configured, prior), (written, expected), found),
            _ => {}
        }
    }
}

/// The attribute for a path of the server, as far as core can address it; `None` if the path has no attribute.
fn replaced_attribute(schema: &ResourceSchema, path: &str) -> Option<Vec<Step>> {
    let path = attribute_of(path);
    let [root @ Step::Attribute(name), rest @ ..] = path.as_slice() else { return None };
    if name != "data" {
        return Some(vec![root.clone()]);
    }
    let known =
        (1..=rest.len()).rev().find(|len| rest.get(..*len).is_some_and(|r| schema.data.attribute_at(r).is_some()));
    known.map(|len| path.iter().take(len + 1).cloned().collect())
}

/// Asks the server for a dry run of a write. If the tenancy unit does not exist, this is only a warning: the same run
/// may create it.
async fn dry_run(
    server: &Server,
    sent: &pb::Resource,
    creates: bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Option<PlanResponse>, Vec<Diagnostic>> {
    match server.client.plan(sent.clone(), creates).await {
        Ok(answer) => {
            diagnostics.extend(answer.warnings.iter().map(server_diagnostic));
            Ok(Some(answer))
        }
        Err(status) if creates && is_missing_place(sent, &status) => {
            diagnostics.push(warning(format!("{}; it must exist when this is applied", status.message())));
            Ok(None)
        }
        Err(status) => Err(server.faults("planning", &status)),
    }
}

/// Whether an error means that the partition or the namespace does not exist. It compares the server's words, since the
/// server has no code for this.
fn is_missing_place(sent: &pb::Resource, status: &Status) -> bool {
    let tenancy = sent.id.as_ref().and_then(|id| id.tenancy.clone()).unwrap_or_default();
    let units = [("partition", tenancy.partition), ("namespace", tenancy.namespace)];
    status.code() == Code::InvalidArgument
        && units.iter().any(|(unit, name)| status.message() == format!("{unit} not found: {name}"))
}

type Parts = std::collections::BTreeMap<String, Value>;

/// Fills in partition and namespace: as configured, else by the provider's or the server's defaults; unknown until the
/// server has answered.
fn fill_tenancy(
    schema: &ResourceSchema,
    server: &Server,
    prior: &Value,
    config: &Value,
    mutated: Option<&pb::Resource>,
    parts: &mut Parts,
) {
    let wanted = tenancy_of(schema.scope, config, &server.defaults);
    let filled = mutated.and_then(|found| found.id.as_ref()?.tenancy.clone());
    let unit = |name: &str, part: fn(&pb::Tenancy) -> &String| match (config.get(name), part(&wanted)) {
        (Value::Null, wanted) if !wanted.is_empty() => Value::String(wanted.clone()),
        (Value::Null, _) => match (&filled, prior.get(name)) {
            (Some(filled), _) => Value::text(part(filled).as_str()),
            (None, prior) if !prior.is_null() => prior.clone(),
            (None, _) => Value::unknown(),
        },
        (configured, _) => configured.clone(),
    };
    for (name, part) in [
        ("partition", (|tenancy| &tenancy.partition) as fn(&pb::Tenancy) -> &String),
        ("namespace", |tenancy: &pb::Tenancy| &tenancy.namespace),
    ] {
        if parts.contains_key(name) {
            parts.insert(name.to_owned(), unit(name, part));
        }
    }
}

/// Fills in parts of the owner that the configuration leaves out: from the prior state, or unknown until the server
/// sets them.
fn fill_owner(prior: &Value, parts: &mut Parts) {
    let before = prior.get("owner").clone();
    if let Some(Value::Map(owner)) = parts.get_mut("owner") {
        for name in ["partition", "namespace", "uid"] {
            if owner.get(name).is_none_or(Value::is_null) {
                let known = if before.is_null() { Value::unknown() } else { before.get(name).clone() };
                owner.insert(name.to_owned(), known);
            }
        }
    }
}

/// Sets the attributes that the server sets; those that it would change are unknown.
fn fill_computed(
    schema: &ResourceSchema,
    prior: &Value,
    mutated: Option<&pb::Resource>,
    writes: bool,
    parts: &mut Parts,
) {
    let text = |name: &str| parts.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    let unit = |name: &str| match parts.get(name) {
        None => Some(String::new()),
        Some(Value::Null) => mutated.map(|_| String::new()),
        Some(_) => text(name),
    };
    let id = match (text("name"), unit("partition"), unit("namespace")) {
        (Some(name), Some(partition), Some(namespace)) => {
            let tenancy = Some(pb::Tenancy { partition, namespace });
            Value::String(id_text(schema.scope, &pb::Id { name, tenancy, ..pb::Id::default() }))
        }
        _ => Value::unknown(),
    };
    parts.insert("id".to_owned(), id);
    let uid = prior.get("uid");
    parts.insert("uid".to_owned(), if uid.is_null() { Value::unknown() } else { uid.clone() });
    parts.insert("group_version".to_owned(), Value::String(schema.kind.group_version.clone()));
    for name in CHANGED_BY_EVERY_WRITE {
        parts.insert(name.to_owned(), if writes { Value::unknown() } else { prior.get(name).clone() });
    }
}

/// Whether the server would have nothing to write. An unknown value counts as a change.
fn is_same(schema: &ResourceSchema, prior: &Value, planned: &Value) -> bool {
    are_equal(&schema.shape(), Presence::Explicit, prior.get("data"), planned.get("data"))
        && are_equal(&metadata_shape(), Presence::Implicit, prior.get("metadata"), planned.get("metadata"))
        && ["name", "partition", "namespace", "owner"].iter().all(|name| prior.get(name) == planned.get(name))
}

/// Whether the value at a path changes.
fn is_changed(schema: &ResourceSchema, prior: &Value, planned: &Value, path: &[Step]) -> bool {
    let value_at = |value: &Value| {
        path.iter().fold(value.clone(), |value, step| match step {
            Step::Attribute(name) => value.get(name).clone(),
            Step::Key(_) | Step::Index(_) => Value::Null,
        })
    };
    let (before, after) = (value_at(prior), value_at(planned));
    match path {
        [Step::Attribute(data), rest @ ..] if data == "data" => {
            let attribute = schema.data.attribute_at(rest);
            attribute.is_some_and(|attribute| !are_equal(&attribute.shape, attribute.presence, &before, &after))
        }
        _ => before != after,
    }
}

/// The path of the first known value that the new plan changes; `None` if the plans agree.
pub(crate) fn first_changed_path(before: &Value, now: &Value) -> Option<Vec<Step>> {
    match (before, now) {
        (Value::Unknown(_), _) => None,
        (Value::Map(before), Value::Map(now)) if before.len() == now.len() => {
            before.iter().find_map(|(name, before)| {
                let step = Step::Attribute(name.clone());
                match now.get(name) {
                    Some(now) => first_changed_path(before, now).map(|path| [vec![step], path].concat()),
                    None => Some(vec![step]),
                }
            })
        }
        (Value::List(before), Value::List(now)) if before.len() == now.len() => {
            before.iter().zip(now).enumerate().find_map(|(index, (before, now))| {
                first_changed_path(before, now).map(|path| [vec![Step::Index(index)], path].concat())
            })
        }
        (before, now) if before == now => None,
        _ => Some(Vec::new()),
    }
}
