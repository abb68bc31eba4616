//! Answers to questions: read, printed, and with an index.
//!
//! # Cost and limits
//! An answer has [`MAX_ANSWER_BYTES`] at most. [`WHOLE`] questions about a whole namespace are answered at once; others
//! wait, [`MAX_TURN_WAIT`] at most. An answer with more than [`SMALL`] instances is printed on a thread of its own, so
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
};
use crate::endpoints::require_catalog;

/// Largest answer, bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Questions about a whole namespace that are answered at once.
const WHOLE: usize = 2;

/// Longest wait of such a question for its turn.
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
        Arc::new(Self { service, facts, blocked, indexes, whole: Semaphore::new(WHOLE) })
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
        let mut found = match question.subject.service() {
            Some(name) => reads.service(name).await?,
            None => {
                let Ok(Ok(_place)) = timeout(MAX_TURN_WAIT, self.whole.acquire()).await else {
                    let what = "other questions about whole namespaces have all turns; ask for a service by its name, or \
                                try again later";
                    return Err(Error::new(Code::ResourceExhausted, what));
                };
                reads.all().await?
            }
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

/// Prints the answer to a question.
fn print(place: &Place, question: &Question, found: &Found) -> Result<Vec<u8>, Error> {
    let text = serde_json::to_vec(&answer(place, question, found))
        .map_err(|fault| Error::internal(format!("printing an answer: {fault}")))?;
    if text.len() > MAX_ANSWER_BYTES {
        let what = format!(
            "the answer has more than {MAX_ANSWER_BYTES} bytes (a fixed limit); choose instances by passing, tag or filter"
        );
        return Err(Error::new(Code::ResourceExhausted, what));
    }
    Ok(text)
}

fn answer(place: &Place, question: &Question, found: &Found) -> Value {
    let passes = |entry: &Value| question.filter.as_ref().is_none_or(|filter| filter.passes(entry));
    let is_meant = |instance: &&Instance| {
        !question.needs_node_meta
            && question.tags.iter().all(|tag| instance.has_tag(tag))
            && (!question.passing || instance.passes())
    };
    let instances = || found.instances.iter().filter(is_meant);
    let at = |node: &str| instances().filter(move |instance| instance.address == node).collect::<Vec<_>>();
    match &question.subject {
        Subject::Services => services(place, question, found),
        Subject::Service(_) => instances().map(|instance| place.catalog_service(instance)).filter(passes).collect(),
        Subject::Nodes => {
            let addresses: BTreeSet<_> = instances().map(|instance| instance.address.as_str()).collect();
            addresses.into_iter().map(|address| place.node(address)).filter(passes).collect()
        }
        Subject::Node(node) => match at(node).as_slice() {
            [] => Value::Null,
            on_node => json!({ "Node": place.node(node), "Services": services_by_id(place, on_node, passes) }),
        },
        Subject::NodeServices(node) => match at(node).as_slice() {
            [] => Value::Null,
            on_node => {
                let services: Vec<_> =
                    on_node.iter().map(|instance| place.agent_service(instance)).filter(passes).collect();
                json!({ "Node": place.node(node), "Services": services })
            }
        },
        Subject::HealthOfService(_) => {
            instances().map(|instance| place.health_service(instance)).filter(passes).collect()
        }
        Subject::ChecksOfService(_) => checks(place, instances(), State::Any, passes),
        Subject::ChecksIn(state) => checks(place, instances(), *state, passes),
        Subject::ChecksOfNode(node) => checks(place, at(node).into_iter(), State::Any, passes),
    }
}

/// The checks of instances in a state.
fn checks<'a>(
    place: &Place,
    instances: impl Iterator<Item = &'a Instance>,
    state: State,
    passes: impl Fn(&Value) -> bool,
) -> Value {
    let all = instances.flat_map(|instance| instance.checks.iter().map(move |check| (instance, check)));
    let in_state = all.filter(|(_, check)| is_in(state, check.status));
    in_state.map(|(instance, check)| place.check(instance, check)).filter(passes).collect()
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
fn services_by_id(place: &Place, instances: &[&Instance], passes: impl Fn(&Value) -> bool) -> Value {
    let mut seen = BTreeSet::new();
    by_name(instances.iter().filter_map(|instance| {
        let entry = Some(place.agent_service(instance)).filter(&passes)?;
        let id = match seen.insert(&instance.id) {
            true => instance.id.clone(),
            false => format!("{}:{}", instance.service, instance.id),
        };
        Some((id, entry))
    }))
}

fn is_in(state: State, status: Status) -> bool {
    match state {
        State::Any => true,
        State::Passing => status == Status::Passing,
        State::Warning => status == Status::Warning,
        State::Critical => status == Status::Critical,
    }
}
