//! Applies plans: creates, updates and deletes.
//!
//! A creation cannot replace an existing resource: it carries its own uid, which the server ignores if the name is
//! free, and rejects otherwise. An update succeeds only for the generation that was planned with, if the state has one.
//! The state of a written resource is always returned, even if a later step fails.

use mortise_resource::{meta, pb};
use tonic::Code;

use super::{
    apply_result::ApplyResult,
    changed_path::first_changed_path,
    deletion::{being_deleted, delete},
    diagnostic::{error, error_at, stored_warning},
    ignored::{as_before, as_planned},
    pending::take_over,
    plan::{Before, Plan, plan},
    session::{Server, Session},
    taken::name_taken,
    wait::{Change, Wait},
};
use crate::{
    proto::tfplugin6::{Diagnostic, diagnostic::Severity},
    schema::ResourceSchema,
    state::{Notes, Private, metadata, state},
    value::{PathText, Value},
};

/// Most attempts of an update while changes of status come in between.
const UPDATE_ATTEMPTS: usize = 5;

/// Applies a plan.
pub(crate) async fn apply(
    schema: &ResourceSchema,
    session: &Session,
    server: &Server,
    prior: &Value,
    planned: &Value,
    config: &Value,
    private: &[u8],
) -> ApplyResult {
    if planned.is_null() {
        return delete(schema, session, server, prior).await;
    }
    // A resource that replaces another one has no prior state.
    let pending = Private::pending(private).filter(|_| !prior.is_null());
    let before = Before { state: prior, private, pending: pending.is_some() };
    let (plan, config) = match plan_again(schema, session, server, before, planned, config).await {
        Ok(plan) => plan,
        Err(diagnostics) => return ApplyResult::refused(diagnostics),
    };
    if let Some(path) = first_changed_path(planned, &plan.state) {
        let summary = "the server's rules changed since this was planned; plan again";
        let detail = format!("{} would get another value than planned. Nothing was written.", PathText(&path));
        return ApplyResult::refused(vec![Diagnostic { detail, ..error_at(&path, summary) }]);
    }
    let Plan { divergences, request, writes, diagnostics, .. } = plan;
    let notes = NoteChange::new(prior, &plan.state);
    let Some(mut request) = request else {
        return ApplyResult::refused(vec![error("core applies a plan that still has unknown values", "")]);
    };
    let mut applied = ApplyResult { diagnostics, ..ApplyResult::default() };
    let written = match (prior.is_null(), &pending, writes) {
        (true, ..) => {
            request.id.get_or_insert_default().uid = ulid::Ulid::generate().to_string();
            create(schema, server, request).await
        }
        (false, Some(pending), _) => {
            match take_over(pending, schema, server, prior, false, &mut applied.diagnostics).await {
                Ok(Some(taken)) => update_taken_over(server, taken, request, &notes, &mut applied.diagnostics).await,
                Ok(None) => Err(vec![error("the resource or object to take over no longer exists", "Plan again.")]),
                Err(faults) => Err(faults),
            }
        }
        (false, None, true) => update(server, &KnownResource::of(prior), request, &notes).await,
        (false, None, false) => current(server, &KnownResource::of(prior), &request).await,
    };
    let resource = match written {
        Ok(resource) => resource,
        Err(faults) => return ApplyResult::refused(faults),
    };
    let change = if prior.is_null() { Change::Create } else { Change::Update };
    let wait = Wait { schema, session, server, planned, config: &config, divergences: &divergences, change };
    // Of a resource that was taken over and not updated there is nothing to wait for.
    let is_update_done = !applied.diagnostics.iter().any(|one| one.severity() == Severity::Error);
    let (resource, fault) = if is_update_done { wait.for_resource(resource).await } else { (resource, None) };
    applied.diagnostics.extend(fault);
    let (state, faults) = state(schema, &resource, planned, &divergences, &server.defaults.controller_keys);
    applied.state = Some(if is_update_done { with_planned_notes(state, planned) } else { state });
    applied.diagnostics.extend(faults.iter().map(stored_warning));
    applied.divergences = divergences;
    applied
}

/// The plan that core made a moment ago; else plans as core did: with the configuration, or with prior values in the
/// places under `ignore_changes`.
async fn plan_again(
    schema: &ResourceSchema,
    session: &Session,
    server: &Server,
    before: Before<'_>,
    planned: &Value,
    config: &Value,
) -> Result<(Plan, Value), Vec<Diagnostic>> {
    let config = as_planned(planned, config);
    let first = match session.recent_plans.take(&before.origin(schema, &config)) {
        Some(recent) => Ok(Plan::from(recent)),
        None => plan(schema, server, before, &config).await,
    };
    if matches!(&first, Ok(plan) if first_changed_path(planned, &plan.state).is_none()) {
        return first.map(|plan| (plan, config));
    }
    let ignoring = as_before(planned, before.state, &config);
    if ignoring == config {
        return first.map(|plan| (plan, config));
    }
    plan(schema, server, before, &ignoring).await.map(|plan| (plan, ignoring))
}

async fn create(
    schema: &ResourceSchema,
    server: &Server,
    request: pb::Resource,
) -> Result<pb::Resource, Vec<Diagnostic>> {
    let id = request.id.clone().unwrap_or_default();
    match server.client.write(request).await {
        Ok(resource) => Ok(resource),
        Err(status) if status.code() == Code::FailedPrecondition && status.message().contains("uid") => {
            Err(vec![name_taken(schema, &pb::Resource { id: Some(id), ..pb::Resource::default() })])
        }
        Err(status) => Err(server.faults("creating", &status)),
    }
}

/// Brings a moved or imported resource to its configuration. A failure becomes a diagnostic beside the resource's
/// state.
async fn update_taken_over(
    server: &Server,
    taken: pb::Resource,
    request: pb::Resource,
    notes: &NoteChange,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<pb::Resource, Vec<Diagnostic>> {
    let keys = &server.defaults.controller_keys;
    let value = |resource: &pb::Resource| resource.data.as_ref().map(|data| data.value.clone());
    let wanted = metadata(&request);
    let has_metadata = keys.settled(&wanted, metadata(&taken)) == wanted;
    if value(&taken) == value(&request) && has_metadata && notes.after.are_on(&notes.before, &taken, keys) {
        return Ok(taken);
    }
    // Its controllers may write it at any time, so its generation is not checked.
    let id = taken.id.clone().unwrap_or_default();
    match update(server, &KnownResource { uid: &id.uid, generation: None }, request, notes).await {
        Ok(resource) => Ok(resource),
        Err(faults) => {
            diagnostics.extend(faults);
            Ok(taken)
        }
    }
}

/// The labels, annotations and tags of the prior state, and those of the plan.
struct NoteChange {
    before: Notes,
    after: Notes,
    /// The prior state's metadata.
    metadata: Value,
}

impl NoteChange {
    fn new(prior: &Value, planned: &Value) -> Self {
        Self { before: Notes::of(prior), after: Notes::of(planned), metadata: prior.get("metadata").clone() }
    }
}

/// A state after a write, with the planned labels, annotations and tags: the next read shows what a plugin made of
/// them.
fn with_planned_notes(state: Value, planned: &Value) -> Value {
    let Value::Map(mut parts) = state else { return state };
    for name in ["labels", "all_labels", "annotations", "tags"] {
        parts.insert(name.to_owned(), planned.get(name).clone());
    }
    Value::Map(parts)
}

/// The resource of a state, and its generation, if that has to match.
struct KnownResource<'s> {
    uid: &'s str,
    generation: Option<&'s str>,
}

impl<'s> KnownResource<'s> {
    /// The resource of a state.
    fn of(prior: &'s Value) -> Self {
        let text = |name| prior.get(name).as_str().unwrap_or_default();
        Self { uid: text("uid"), generation: Some(text("generation")) }
    }
}

/// Reads the resource, and checks that it is the known one.
async fn current(
    server: &Server,
    known: &KnownResource<'_>,
    request: &pb::Resource,
) -> Result<pb::Resource, Vec<Diagnostic>> {
    let id = pb::Id { uid: known.uid.to_owned(), ..request.id.clone().unwrap_or_default() };
    match server.read(id).await? {
        Some(found) if known.generation.is_none_or(|known| known == found.generation) => Ok(found),
        Some(_) => Err(vec![error(
            "the resource changed since this was planned",
            "Another client wrote it. Nothing was written; plan again.",
        )]),
        None => Err(vec![error(
            "the resource was deleted since this was planned",
            "Another client deleted it, or replaced it by another one of the same name. Plan again.",
        )]),
    }
}

async fn update(
    server: &Server,
    known: &KnownResource<'_>,
    request: pb::Resource,
    notes: &NoteChange,
) -> Result<pb::Resource, Vec<Diagnostic>> {
    for _ in 0..UPDATE_ATTEMPTS {
        let stored = current(server, known, &request).await?;
        if meta::is_marked(&stored.metadata) {
            return Err(vec![Diagnostic { severity: Severity::Error.into(), ..being_deleted(&stored) }]);
        }
        let mut request = request.clone();
        request.id = stored.id;
        request.version = stored.version;
        let keys = &server.defaults.controller_keys;
        request.meta = notes.after.replacing(&notes.before, stored.meta.as_deref(), keys);
        // A write with a version removes metadata that it leaves out.
        let is_theirs = |key: &str| key == meta::FINALIZERS || key == meta::DELETION_TIMESTAMP || keys.own(key);
        request.metadata.retain(|key, _| !keys.own(key) || notes.metadata.get(key).is_null());
        let theirs = stored.metadata.iter().filter(|(key, _)| is_theirs(key));
        request.metadata.extend(theirs.map(|(key, value)| (key.clone(), value.clone())));
        match server.client.write(request).await {
            Ok(resource) => return Ok(resource),
            Err(status) if status.code() == Code::Aborted => {}
            Err(status) => return Err(server.faults("updating", &status)),
        }
    }
    Err(vec![error(
        "the resource's statuses change too often",
        format!("The write was tried {UPDATE_ATTEMPTS} times. Apply again."),
    )])
}
