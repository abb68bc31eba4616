//! Plans: the resource that the server would make of a configuration, in the user's spelling.
//!
//! A plan depends on the prior state, the configuration and the rules of the server alone: applying makes it again, and
//! it has to be the same then.

use mortise_resource::{data::PlanResponse, meta, pb};
use tonic::{Code, Status};

use super::{
    deletion::being_deleted,
    diagnostic::{attribute_of, server_diagnostic, value_error, warning},
    fill::{fill_computed, fill_owner, fill_tenancy},
    meta_change::meta_to_send,
    partial::partial_view,
    recent_plans::{Origin, RecentPlan},
    session::Server,
};
use crate::{
    mapping::{Divergences, Presence, are_equal, conform, from_data},
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    state::{Private, all_labels, known_id, metadata, metadata_shape, request},
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

/// Attributes whose values are compared as they are.
const COMPARED_AS_THEY_ARE: [&str; 7] =
    ["name", "partition", "namespace", "owner", "all_labels", "annotations", "tags"];

/// A resource as core knows it before a change.
#[derive(Clone, Copy)]
pub(crate) struct Before<'a> {
    /// Its state; null for a creation.
    pub(crate) state: &'a Value,
    /// The private bytes of the state.
    pub(crate) private: &'a [u8],
    /// Whether the server does not have the resource yet, although core has a state.
    pub(crate) pending: bool,
}

impl Plan {
    /// The plan for the apply of the same change; `None` while a part of the request is not known.
    pub(super) fn recent(&self) -> Option<RecentPlan> {
        Some(RecentPlan {
            state: self.state.clone(),
            divergences: self.divergences.clone(),
            diagnostics: self.diagnostics.clone(),
            request: self.request.clone()?,
            writes: self.writes,
        })
    }
}

impl From<RecentPlan> for Plan {
    fn from(plan: RecentPlan) -> Self {
        let RecentPlan { state, divergences, diagnostics, request, writes } = plan;
        // Core has replaced the resource before it applies.
        Self { state, replace: Vec::new(), divergences, diagnostics, request: Some(request), writes }
    }
}

impl Before<'_> {
    /// The origin of a plan.
    pub(super) fn origin(&self, schema: &ResourceSchema, config: &Value) -> Origin {
        let (prior, pending) = (self.state.clone(), self.pending);
        Origin { name: schema.name.clone(), prior, pending, config: config.clone() }
    }

    /// Whether the server gets a new resource, even if core calls it an update.
    fn is_creation(&self) -> bool {
        self.state.is_null() || self.pending
    }
}

/// The server's view of a configuration. An absent or unknown part is one that the server was not asked about.
#[derive(Default)]
pub(super) struct View {
    /// The data in the end: the plugin's controllers decide it.
    pub(super) data: Option<Value>,
    pub(super) metadata: Option<Value>,
    /// The data of the write itself, if controllers change it afterwards.
    pub(super) written: Option<Value>,
    /// The resource of the write.
    pub(super) resource: Option<pb::Resource>,
    /// Paths that the stored resource cannot take.
    pub(super) replace: Vec<String>,
    /// The values where the state has the user's spelling, if the server was not asked.
    pub(super) known: Option<Divergences>,
}

impl View {
    pub(super) fn of_answer(schema: &ResourceSchema, answer: PlanResponse) -> Self {
        let read = |resource: &pb::Resource| from_data(&schema.data, resource.data.as_ref()).0;
        let (mutated, predicted) = (answer.resource, answer.predicted);
        let expected = predicted.as_ref().or(mutated.as_ref());
        Self {
            data: expected.map(read),
            metadata: expected.map(metadata),
            written: predicted.as_ref().and(mutated.as_ref()).map(read),
            resource: mutated,
            replace: answer.replace,
            known: None,
        }
    }

    /// The view where the server is not asked: the resource stays as it is.
    fn of_state(schema: &ResourceSchema, before: Before<'_>) -> Self {
        Self {
            data: Some(before.state.get("data").clone()),
            metadata: Some(before.state.get("metadata").clone()),
            known: Some(Private::read(before.private, schema)),
            ..Self::default()
        }
    }
}

/// Plans a creation or an update.
pub(crate) async fn plan(
    schema: &ResourceSchema,
    server: &Server,
    before: Before<'_>,
    config: &Value,
) -> Result<Plan, Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    let creates = before.is_creation();
    let known = REQUEST_ATTRIBUTES.iter().all(|name| config.get(name).is_wholly_known());
    if !known {
        let view = match creates {
            true => View::default(),
            false => partial_view(schema, server, before.state, config).await?,
        };
        return Ok(planned(schema, server, before, config, view, diagnostics));
    }
    let faults = |faults: Vec<_>| faults.iter().map(value_error).collect::<Vec<_>>();
    let defaults = server.defaults_for(schema, config).await?;
    let mut sent = request(schema, config, &defaults).map_err(faults)?;
    sent.meta = meta_to_send(schema, server, before.state, creates, config).await?;
    let plan = match dry_run(server, &sent, creates, &mut diagnostics).await {
        Ok(answer) => {
            let view = answer.map(|answer| View::of_answer(schema, answer)).unwrap_or_default();
            planned(schema, server, before, config, view, diagnostics)
        }
        Err(status) if creates => return Err(server.faults("planning", &status)),
        Err(status) => {
            let unasked = planned(schema, server, before, config, View::of_state(schema, before), Vec::new());
            without_answer(schema, server, before, unasked, &status).await?
        }
    };
    Ok(Plan { request: Some(sent), ..plan })
}

/// The plan where the server refuses the dry run of an update: of a resource that is being deleted, or for a token that
/// may only read, if nothing changes.
async fn without_answer(
    schema: &ResourceSchema,
    server: &Server,
    before: Before<'_>,
    unasked: Plan,
    status: &Status,
) -> Result<Plan, Vec<Diagnostic>> {
    let faults = || server.faults("planning", status);
    match status.code() {
        Code::PermissionDenied if !unasked.writes => Ok(unasked),
        Code::InvalidArgument | Code::FailedPrecondition => {
            let stored = server.read(known_id(schema, before.state)).await?;
            let marked = stored.filter(|stored| meta::is_marked(&stored.metadata)).ok_or_else(faults)?;
            Ok(Plan { diagnostics: vec![being_deleted(&marked)], ..unasked })
        }
        _ => Err(faults()),
    }
}

/// Combines a configuration with the server's view of it.
fn planned(
    schema: &ResourceSchema,
    server: &Server,
    before: Before<'_>,
    config: &Value,
    view: View,
    diagnostics: Vec<Diagnostic>,
) -> Plan {
    let (prior, creates) = (before.state, before.is_creation());
    let mut divergences = Divergences::default();
    let mut planned = config.clone();
    let Value::Map(parts) = &mut planned else { return unchanged(planned) };
    let conformed = conform(&schema.shape(), false, "data", config.get("data"), view.data.as_ref(), &mut divergences);
    parts.insert("data".to_owned(), conformed);
    let known = [config, prior].map(|value| value.get("metadata")).into_iter().find(|known| !known.is_null());
    let settled = |found: Value| server.defaults.controller_keys.settled(known.unwrap_or(&Value::Null), found);
    let (shape, from_server) = (metadata_shape(), view.metadata.clone().map(settled));
    let conformed = conform(&shape, true, "metadata", config.get("metadata"), from_server.as_ref(), &mut divergences);
    parts.insert("metadata".to_owned(), conformed);
    fill_tenancy(schema, server, prior, config, view.resource.as_ref(), parts);
    fill_owner(schema, prior, config, parts);
    parts.insert("all_labels".to_owned(), all_labels(config, &server.defaults.labels));

    // Values from the plugin's controllers appear some time after the write, or are there already.
    let awaited = view.written.as_ref().zip(view.data.as_ref());
    let each = |planned: &mut Value, found: fn(&Value, &Value, &Value) -> Option<Value>| {
        if let (Some((written, expected)), Value::Map(parts)) = (awaited, planned)
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
        fill_computed(schema, prior, view.resource.as_ref(), writes, parts);
    }
    let replace = match creates {
        true => Vec::new(),
        false => replaced_paths(schema, prior, config, &planned, &view.replace),
    };
    let divergences = view.known.unwrap_or(divergences);
    Plan { state: planned, replace, divergences, diagnostics, request: None, writes }
}

/// The paths of changes that replace the resource: changes of the configuration, or of known values by the server. A
/// value that the server has yet to fill in does not count as changed.
fn replaced_paths(
    schema: &ResourceSchema,
    prior: &Value,
    config: &Value,
    planned: &Value,
    refused: &[String],
) -> Vec<Vec<Step>> {
    let settled = with_prior(planned, config, prior);
    let own = schema.replacing_paths().into_iter().filter(|path| is_changed(schema, prior, &settled, path));
    let own = own.flat_map(|path| changed_parts(prior, &settled, path));
    let mut paths: Vec<_> = own.chain(refused.iter().filter_map(|path| replaced_attribute(schema, path))).collect();
    paths.sort();
    paths.dedup();
    // The whole is among its parts.
    let all = paths.clone();
    paths.retain(|path| !all.iter().any(|other| other.len() > path.len() && other.starts_with(path)));
    paths
}

/// A planned value with prior values in place of unknown ones that the configuration leaves out.
fn with_prior(planned: &Value, config: &Value, prior: &Value) -> Value {
    match (planned, config) {
        (Value::Unknown(_), Value::Null) => prior.clone(),
        (Value::Map(parts), _) => {
            let part =
                |(name, part): (&String, &Value)| (name.clone(), with_prior(part, config.get(name), prior.get(name)));
            Value::Map(parts.iter().map(part).collect())
        }
        (Value::List(items), Value::List(configured)) if items.len() == configured.len() => {
            let null = Value::Null;
            let before = |index| if let Value::List(prior) = prior { prior.get(index).unwrap_or(&null) } else { &null };
            let items = items.iter().zip(configured).enumerate();
            Value::List(items.map(|(index, (item, config))| with_prior(item, config, before(index))).collect())
        }
        _ => planned.clone(),
    }
}

/// The changed parts of the owner; other paths as they are.
fn changed_parts(prior: &Value, planned: &Value, path: Vec<Step>) -> Vec<Vec<Step>> {
    let [Step::Attribute(owner)] = path.as_slice() else { return vec![path] };
    match (owner == "owner", prior.get(owner), planned.get(owner)) {
        (true, Value::Map(before), Value::Map(after)) => {
            let changed = after.iter().filter(|(name, after)| before.get(*name) != Some(*after));
            changed.map(|(name, _)| vec![Step::Attribute(owner.clone()), Step::Attribute(name.clone())]).collect()
        }
        _ => vec![path],
    }
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
) -> Result<Option<PlanResponse>, Status> {
    match server.client.plan(sent.clone(), creates).await {
        Ok(answer) => {
            diagnostics.extend(answer.warnings.iter().map(server_diagnostic));
            Ok(Some(answer))
        }
        Err(status) if creates && is_missing_place(sent, &status) => {
            diagnostics.push(warning(format!("{}; it must exist when this is applied", status.message())));
            Ok(None)
        }
        Err(status) => Err(status),
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

/// Whether the server would have nothing to write. An unknown value counts as a change.
fn is_same(schema: &ResourceSchema, prior: &Value, planned: &Value) -> bool {
    are_equal(&schema.shape(), Presence::Explicit, prior.get("data"), planned.get("data"))
        && are_equal(&metadata_shape(), Presence::Implicit, prior.get("metadata"), planned.get("metadata"))
        && COMPARED_AS_THEY_ARE.iter().all(|name| prior.get(name) == planned.get(name))
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
