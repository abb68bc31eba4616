//! Answers to questions: read, printed, and with an index.
//!
//! # Cost and limits
//! [`super::text`] bounds the bytes of an answer. [`WHOLE`] questions about a whole namespace and [`OF_ONE_SERVICE`] about
//! one service are answered at once; others wait, [`MAX_TURN_WAIT`] at most. An answer with more than [`SMALL`] instances is printed on a thread of its own, so
//! that it delays no others.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use axum::body::Bytes;
use mortise_resource::{Code, Error};
use mortise_service::{Caller, ResourceService};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use super::{
    agent::Facts,
    blocked::Blocked,
    filter::{Filter, FilterError},
    index::Indexes,
    instance::{Instance, Status},
    places::Places,
    print::{Place, by_name},
    question::{Question, State, Subject},
    reads::{Found, Reads},
    text::Text,
};
use crate::endpoints::require_catalog;

/// Questions about a whole namespace that are answered at once.
const WHOLE: usize = 2;

/// Questions about one service that are answered at once. Each may need some 270 MB, if its instances are as large as they
/// may be.
const OF_ONE_SERVICE: usize = 8;

/// Longest wait of a question for its turn.
const MAX_TURN_WAIT: Duration = Duration::from_secs(10);

/// Most instances of an answer that is printed at once.
const SMALL: usize = 256;

/// Answers questions of Consul's clients.
pub(in super::super) struct Consul {
    pub(super) service: ResourceService,
    pub(super) facts: Facts,
    pub(super) blocked: Arc<Blocked>,
    indexes: Indexes,
    whole: Semaphore,
    of_one_service: Semaphore,
}

/// An answer. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) text: Bytes,
    pub(super) index: u64,
}

/// An answer, and its origin.
pub(super) struct Computed {
    pub(super) answer: Answer,
    /// Slots of the resources that were read.
    pub(super) slots: Vec<u32>,
    /// Version of the store before the reads.
    pub(super) read_at: u64,
}

impl Consul {
    /// Makes the answers of a server. Waiting questions take their places from `watches`, of which there are `limit`.
    pub(in super::super) fn new(
        service: ResourceService,
        facts: Facts,
        (watches, limit): (Arc<Semaphore>, usize),
    ) -> Arc<Self> {
        let (blocked, indexes) = (Blocked::new(&service, Places::new(watches, limit)), Indexes::default());
        Arc::new(Self {
            service,
            facts,
            blocked,
            indexes,
            whole: Semaphore::new(WHOLE),
            of_one_service: Semaphore::new(OF_ONE_SERVICE),
        })
    }

    /// Answers a question of a caller.
    ///
    /// # Errors
    /// `Unavailable`: no plugin serves the catalog. `ResourceExhausted`: the answer is too large. Those of the reads.
    pub(super) async fn compute(&self, caller: &Caller, question: &Question) -> Result<Computed, Error> {
        // Without the plugin the stored health is that of some earlier time.
        require_catalog(&self.service)?;
        let read_at = self.service.backend().newest_version();
        let reads = Reads { service: &self.service, caller, tenancy: question.tenancy(), found: Found::default() };
        let service = question.subject.service();
        let (turns, others) = match service {
            Some(_) => (&self.of_one_service, "other questions about services have all turns; try again later"),
            None => (
                &self.whole,
                "other questions about whole namespaces have all turns; ask for a service by its name, or try again later",
            ),
        };
        let Ok(Ok(_turn)) = timeout(MAX_TURN_WAIT, turns.acquire()).await else {
            return Err(Error::new(Code::ResourceExhausted, others));
        };
        let mut found = match service {
            Some(name) => reads.service(name).await?,
            None => reads.all().await?,
        };
        let slots = std::mem::take(&mut found.slots);
        let (place, asked) = (self.place(question), question.clone());
        let printed = match found.instances.len() <= SMALL {
            true => print(&place, &asked, &found),
            false => {
                let printing = spawn_blocking(move || print(&place, &asked, &found));
                printing.await.map_err(|fault| Error::internal(format!("printing an answer: {fault}")))?
            }
        };
        let text: Bytes = printed?.into();
        let index = self.indexes.index(question, caller.authorizer.fingerprint(), &text, read_at);
        Ok(Computed { answer: Answer { text, index }, slots, read_at })
    }

    fn place(&self, question: &Question) -> Place {
        Place {
            datacenter: self.facts.datacenter.clone(),
            partition: question.partition.clone(),
            namespace: question.namespace.clone(),
        }
    }

    /// Checks the fields of a question's filter.
    ///
    /// # Errors
    /// The entries of the path do not have them.
    pub(super) fn check_filter(&self, question: &Question) -> Result<(), FilterError> {
        let Some(filter) = &question.filter else { return Ok(()) };
        let (place, sample) = (self.place(question), Instance::sample());
        filter.check(&match question.subject {
            Subject::Services | Subject::Service(_) => place.catalog_service(&sample),
            Subject::Nodes => place.node(""),
            Subject::Node(_) | Subject::NodeServices(_) => place.agent_service(&sample),
            Subject::HealthOfService(_) => place.health_service(&sample),
            Subject::ChecksOfService(_) | Subject::ChecksIn(_) | Subject::ChecksOfNode(_) => {
                place.checks(&sample).pop().unwrap_or_default()
            }
        })
    }
}

/// Prints the answer to a question, entry by entry.
///
/// # Errors
/// `ResourceExhausted`: the answer is too large.
fn print(place: &Place, question: &Question, found: &Found) -> Result<Vec<u8>, Error> {
    let passes = |entry: &Value| question.filter.as_ref().is_none_or(|filter| filter.passes(entry));
    let is_meant = |instance: &&Instance| {
        !question.needs_node_meta
            && question.tags.iter().all(|tag| instance.has_tag(tag))
            && (!question.passing || instance.passes())
    };
    let instances = || found.instances.iter().filter(is_meant);
    let at = |node: &str| instances().filter(move |instance| instance.address == node).collect::<Vec<_>>();
    let mut text = Text::default();
    match &question.subject {
        Subject::Services => text.whole(&services(place, question, found))?,
        Subject::Service(_) => {
            let entries = instances().map(|instance| (instance.bytes(), move || place.catalog_service(instance)));
            text.list(entries, passes)?;
        }
        Subject::Nodes => {
            let addresses: BTreeSet<_> = instances().map(|instance| instance.address.as_str()).collect();
            let entries = addresses.into_iter().map(|address| (address.len(), move || place.node(address)));
            text.list(entries, passes)?;
        }
        Subject::Node(node) | Subject::NodeServices(node) => match at(node).as_slice() {
            [] => text.whole(&Value::Null)?,
            on_node => {
                text.raw("{\"Node\":")?;
                text.whole(&place.node(node))?;
                text.raw(",\"Services\":")?;
                match &question.subject {
                    Subject::Node(_) => text.map(services_by_id(place, on_node), passes)?,
                    _ => {
                        let entries = on_node.iter().map(|found| (found.bytes(), move || place.agent_service(found)));
                        text.list(entries, passes)?;
                    }
                }
                text.raw("}")?;
            }
        },
        Subject::HealthOfService(_) => {
            let entries = instances().map(|instance| {
                let checks: usize = instance.checks.iter().map(|check| instance.bytes_of_check(check)).sum();
                (instance.bytes() + checks, move || place.health_service(instance))
            });
            text.list(entries, passes)?;
        }
        Subject::ChecksOfService(_) => text.list(checks(place, instances(), State::Any), passes)?,
        Subject::ChecksIn(state) => text.list(checks(place, instances(), *state), passes)?,
        Subject::ChecksOfNode(node) => text.list(checks(place, at(node).into_iter(), State::Any), passes)?,
    }
    Ok(text.into_bytes())
}

/// The checks of instances in a state, each with its bytes.
fn checks<'a>(
    place: &'a Place,
    instances: impl Iterator<Item = &'a Instance>,
    state: State,
) -> impl Iterator<Item = (usize, impl FnOnce() -> Value)> {
    let all = instances.flat_map(|instance| instance.checks.iter().map(move |check| (instance, check)));
    let in_state = all.filter(move |(_, check)| is_in(state, check.status));
    in_state.map(move |(instance, check)| (instance.bytes_of_check(check), move || place.check(instance, check)))
}

/// The tags of all instances of each service. Services without instances have none, and are left out if entries are
/// chosen.
fn services(place: &Place, question: &Question, found: &Found) -> Value {
    let mut tags: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    if question.filter.is_none() && !question.needs_node_meta {
        tags.extend(found.services.iter().map(|name| (name.as_str(), BTreeSet::new())));
    }
    for instance in found.instances.iter().filter(|_| !question.needs_node_meta) {
        let is_chosen = |filter: &Filter| filter.passes(&place.catalog_service(instance));
        if question.filter.as_ref().is_none_or(is_chosen) {
            tags.entry(&instance.service).or_default().extend(instance.tags.iter().map(String::as_str));
        }
    }
    by_name(tags.into_iter().map(|(name, tags)| (name.to_owned(), json!(tags))))
}

/// The instances of a node by their ids. A workload of several services has the service's name in all but the first.
fn services_by_id<'a>(
    place: &'a Place,
    instances: &[&'a Instance],
) -> BTreeMap<String, (usize, impl FnOnce() -> Value)> {
    let mut seen = BTreeSet::new();
    let by_id = instances.iter().copied().map(|instance| {
        let id = match seen.insert(&instance.id) {
            true => instance.id.clone(),
            false => format!("{}:{}", instance.service, instance.id),
        };
        (id, (instance.bytes(), move || place.agent_service(instance)))
    });
    by_id.collect()
}

fn is_in(state: State, status: Status) -> bool {
    match state {
        State::Any => true,
        State::Passing => status == Status::Passing,
        State::Warning => status == Status::Warning,
        State::Critical => status == Status::Critical,
    }
}
