//! Applies plans: creates, updates and deletes.
//!
//! A creation cannot replace an existing resource: it carries its own uid, which the server ignores if the name is
//! free, and rejects otherwise. An update succeeds only for the generation that was planned with, if the state has one.
//! The state of a written resource is always returned, even if a later step fails.

use std::time::Duration;

use mortise_resource::{
    backoff::{Backoff, Waits},
    meta, pb,
};
use tokio::time::{Instant, sleep};
use tonic::Code;

use super::{
    diagnostic::{error, error_at},
    pending::take_over,
    plan::{Plan, first_changed_path, plan},
    session::{Server, Session},
    validate::wait_timeout,
};
use crate::{
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    state::{Private, known_id, metadata, state},
    value::{PathText, Step, Value},
};

/// Most attempts of an update while changes of status come in between.
const UPDATE_ATTEMPTS: usize = 5;
/// Default wait for conditions, and for finalizers to go.
const DEFAULT_WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// First and longest wait between two reads of a resource.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Result of an apply. After a fault the state is the one that exists then.
#[derive(Default)]
pub(crate) struct ApplyResult {
    pub(crate) state: Option<Value>,
    pub(crate) private: Vec<u8>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl ApplyResult {
    /// The result if nothing was changed: core keeps its state.
    fn refused(diagnostics: Vec<Diagnostic>) -> Self {
        Self { diagnostics, ..Self::default() }
    }
}

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
    let plan = match plan(schema, server, prior, config, pending.is_some()).await {
        Ok(plan) => plan,
        Err(diagnostics) => return ApplyResult::refused(diagnostics),
    };
    if let Some(path) = first_changed_path(planned, &plan.state) {
        let summary = "the server's rules changed since this was planned; plan again";
        let detail = format!("{} would get another value than planned. Nothing was written.", PathText(&path));
        return ApplyResult::refused(vec![Diagnostic { detail, ..error_at(&path, summary) }]);
    }
    let Plan { divergences, request, writes, diagnostics, .. } = plan;
    let Some(mut request) = request else {
        return ApplyResult::refused(vec![error("core applies a plan that still has unknown values", "")]);
    };
    let mut applied =
        ApplyResult { private: Private::write(&divergences, None), diagnostics, ..ApplyResult::default() };
    let written = match (prior.is_null(), &pending, writes) {
        (true, ..) => {
            request.id.get_or_insert_default().uid = ulid::Ulid::generate().to_string();
            create(server, request).await
        }
        (false, Some(pending), _) => {
            match take_over(pending, schema, server, prior, false, &mut applied.diagnostics).await {
                Ok(Some(taken)) => update_taken_over(server, taken, request, &mut applied.diagnostics).await,
                Ok(None) => Err(vec![error("the resource or object to take over no longer exists", "Plan again.")]),
                Err(faults) => Err(faults),
            }
        }
        (false, None, true) => update(server, &KnownResource::of(prior), request).await,
        (false, None, false) => current(server, &KnownResource::of(prior), &request).await,
    };
    let resource = match written {
        Ok(resource) => resource,
        Err(faults) => return ApplyResult::refused(faults),
    };
    let resource = match wait(session, server, planned, resource.clone()).await {
        Ok(resource) => resource,
        Err(fault) => {
            applied.diagnostics.push(fault);
            resource
        }
    };
    match state(schema, &resource, planned, &divergences) {
        Ok(state) => applied.state = Some(state),
        Err(fault) => applied.diagnostics.push(error(fault.to_string(), "The resource was written.")),
    }
    applied
}

async fn create(server: &Server, request: pb::Resource) -> Result<pb::Resource, Vec<Diagnostic>> {
    match server.client.write(request).await {
        Ok(resource) => Ok(resource),
        Err(status) if status.code() == Code::FailedPrecondition => {
            let name = [Step::Attribute("name".to_owned())];
            let detail = "`terraform import` takes it over; the last part of its command is the id.";
            let summary = "a resource of this name already exists";
            Err(vec![match status.message().contains("uid") {
                true => Diagnostic { detail: detail.to_owned(), ..error_at(&name, summary) },
                false => error_at(&name, status.message()),
            }])
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
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<pb::Resource, Vec<Diagnostic>> {
    let value = |resource: &pb::Resource| resource.data.as_ref().map(|data| data.value.clone());
    if value(&taken) == value(&request) && metadata(&taken) == metadata(&request) {
        return Ok(taken);
    }
    // Its controllers may write it at any time, so its generation is not checked.
    let id = taken.id.clone().unwrap_or_default();
    match update(server, &KnownResource { uid: &id.uid, generation: None }, request).await {
        Ok(resource) => Ok(resource),
        Err(faults) => {
            diagnostics.extend(faults);
            Ok(taken)
        }
    }
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
) -> Result<pb::Resource, Vec<Diagnostic>> {
    for _ in 0..UPDATE_ATTEMPTS {
        let stored = current(server, known, &request).await?;
        let mut request = request.clone();
        request.id = stored.id;
        request.version = stored.version;
        // A write with a version removes metadata that it leaves out.
        for key in [meta::FINALIZERS, meta::DELETION_TIMESTAMP] {
            if let Some(value) = stored.metadata.get(key) {
                request.metadata.insert(key.to_owned(), value.clone());
            }
        }
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

/// Waits between reads, longer each time, until a deadline.
struct PollDelays {
    until: Instant,
    waits: Waits,
}

impl PollDelays {
    fn for_at_most(timeout: Duration) -> Self {
        Self { until: Instant::now() + timeout, waits: Waits::new(Backoff::new(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)) }
    }

    /// Waits until the next read; false once the deadline or the end of the run is near.
    async fn next(&mut self, session: &Session) -> bool {
        let wait = self.waits.next_wait();
        if session.is_stopped() || Instant::now() + wait > self.until {
            return false;
        }
        sleep(wait).await;
        true
    }
}

fn timeout(value: &Value) -> Duration {
    value.get("wait").get("timeout").as_str().and_then(|text| wait_timeout(text).ok()).unwrap_or(DEFAULT_WAIT_TIMEOUT)
}

/// Waits for the conditions that a configuration names.
async fn wait(
    session: &Session,
    server: &Server,
    planned: &Value,
    resource: pb::Resource,
) -> Result<pb::Resource, Diagnostic> {
    let Value::List(wanted) = planned.get("wait").get("conditions") else { return Ok(resource) };
    let wanted: Vec<_> = wanted.iter().filter_map(Value::as_str).collect();
    let generation = resource.generation.clone();
    let mut found = resource;
    let mut delays = PollDelays::for_at_most(timeout(planned));
    loop {
        let missing: Vec<_> =
            wanted.iter().filter(|condition| !condition_holds(&found, condition, &generation)).collect();
        if missing.is_empty() {
            return Ok(found);
        }
        let path = ["wait", "conditions"].map(|name| Step::Attribute(name.to_owned()));
        if !delays.next(session).await {
            let missing = missing.iter().map(|name| (**name).to_owned()).collect::<Vec<_>>().join(", ");
            let why = if session.is_stopped() { "the run was stopped" } else { "the timeout passed" };
            let summary = format!("the resource was written, but {why} before these conditions were true: {missing}");
            return Err(Diagnostic { detail: conditions_text(&found), ..error_at(&path, summary) });
        }
        match server.client.read(found.id.clone().unwrap_or_default()).await {
            Ok(Some(now)) => found = now,
            Ok(None) => {
                return Err(error_at(&path, "the resource was written, but another client deleted it during the wait"));
            }
            Err(status) => {
                let summary = format!("the resource was written, but cannot be read: {}", status.message());
                return Err(error_at(&path, summary));
            }
        }
    }
}

/// Whether a controller reports a condition as true for this generation.
fn condition_holds(resource: &pb::Resource, condition: &str, generation: &str) -> bool {
    let current = resource.status.values().filter(|status| status.observed_generation == generation);
    let mut conditions = current.flat_map(|status| &status.conditions);
    conditions.any(|found| found.r#type == condition && found.state() == pb::condition::State::True)
}

/// The controllers' conditions, for people.
fn conditions_text(resource: &pb::Resource) -> String {
    let lines = resource.status.iter().flat_map(|(name, status)| {
        let line = move |condition: &pb::Condition| {
            format!(
                "{name}: {} {} {} {}\n",
                condition.r#type,
                condition.state().as_str_name(),
                condition.reason,
                condition.message
            )
        };
        status.conditions.iter().map(line)
    });
    let lines: String = lines.collect();
    if lines.is_empty() { "No controller has reported a status.".to_owned() } else { lines }
}

async fn delete(schema: &ResourceSchema, session: &Session, server: &Server, prior: &Value) -> ApplyResult {
    let id = known_id(schema, prior);
    if let Err(status) = server.client.delete(id.clone()).await {
        return ApplyResult::refused(server.faults("deleting", &status));
    }
    let mut delays = PollDelays::for_at_most(timeout(prior));
    loop {
        let found = match server.client.read(id.clone()).await {
            Ok(None) => return ApplyResult { state: Some(Value::Null), ..ApplyResult::default() },
            Ok(Some(found)) => found,
            Err(status) => return ApplyResult::refused(server.faults("deleting", &status)),
        };
        if !delays.next(session).await {
            let finalizers = meta::finalizers(&found.metadata).into_iter().collect::<Vec<_>>().join(", ");
            let detail = format!(
                "It is marked for deletion, and goes when controllers have removed these finalizers: {finalizers}. A longer \
                 `wait.timeout` gives them more time."
            );
            return ApplyResult::refused(vec![error("the resource is not deleted yet", detail)]);
        }
    }
}
