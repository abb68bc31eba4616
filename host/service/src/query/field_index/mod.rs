//! Indexes of fields that types declare (`query.indexed_fields` of a manifest): which resources have a value there.
//!
//! # Contract
//! What an index names has to be read and judged by the query: it may name too much, never too little. A query sees every
//! write that was answered before it began, since the store publishes a change before it answers.
//!
//! An index is kept in memory by a task of its type ([`task`]). The first query that has a use for it makes it, and waits
//! for it a moment; until it is there, queries read ranges of names, as their plans say. It goes when nobody has asked for
//! an hour, and when the type is registered anew.
//!
//! # Cost and limits
//! All indexes together hold `service.index_bytes`; a type whose indexes do not fit has none, and is tried again
//! after ten minutes.
//! Making one decodes every resource of the type once, at low priority; each change of the type decodes what was before it
//! and what is. An entry takes some 64 bytes besides the name and the place.

mod content;
mod declared;
mod task;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Weak, atomic::AtomicUsize},
    time::Duration,
};

use mortise_resource::types::Gvk;
use mortise_store::{Place, Query};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
};

use crate::{registry::ResourceType, service::ResourceService};
use declared::Declared;

/// How long a query waits for an index that is being made.
pub(super) const MAKING: Duration = Duration::from_millis(100);
/// Questions that wait for one index.
const WAITING: usize = 64;

/// The indexes of all types. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FieldIndexes {
    by_type: Arc<Mutex<HashMap<Gvk, TypeIndex>>>,
    /// Bytes of all of them.
    total: Arc<AtomicUsize>,
    limit: usize,
    /// Where the tasks run: whoever asks may be on threads of low priority.
    runtime: Option<Handle>,
}

/// The index of a type, which its task keeps.
#[derive(Clone)]
pub(super) struct TypeIndex {
    /// The type as it was registered when the index was begun.
    of: Weak<ResourceType>,
    is_made: watch::Receiver<bool>,
    questions: mpsc::Sender<Question>,
}

/// What is looked up: resources with one of some values.
#[derive(Clone)]
pub(super) struct LookUp {
    /// The field, by its number in the declaration.
    pub(super) field: usize,
    pub(super) values: Arc<BTreeSet<String>>,
    /// Where. Its type is that of the index.
    pub(super) query: Arc<Query>,
}

/// The answer to a look-up: some places, in order.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) places: Vec<Place>,
    /// Behind which it goes on; `None` after the last.
    pub(super) next: Option<Place>,
    /// How many entries there are for the values, everywhere.
    pub(super) entries: usize,
}

/// A look-up, behind a place.
struct Question {
    look_up: LookUp,
    after: Option<Place>,
    answer: oneshot::Sender<Found>,
}

impl FieldIndexes {
    /// None yet; all of them may hold so many bytes together.
    pub(crate) fn new(limit: usize) -> Self {
        Self { by_type: Arc::default(), total: Arc::default(), limit, runtime: Handle::try_current().ok() }
    }

    /// The index of a type. Begins to make it if there is none.
    pub(super) fn of(&self, service: &ResourceService, kind: &Arc<ResourceType>) -> TypeIndex {
        let mut by_type = self.by_type.lock();
        by_type.retain(|_, index| !index.questions.is_closed());
        if let Some(index) = by_type.get(&kind.gvk).filter(|index| std::ptr::eq(index.of.as_ptr(), Arc::as_ptr(kind))) {
            return index.clone();
        }
        let (made, is_made) = watch::channel(false);
        let (questions, asked) = mpsc::channel(WAITING);
        let index = TypeIndex { of: Arc::downgrade(kind), is_made, questions };
        by_type.insert(kind.gvk.clone(), index.clone());
        let memory = content::Memory::new(self.total.clone(), self.limit);
        let runtime = self.runtime.clone().unwrap_or_else(Handle::current);
        runtime.spawn(task::run(service.clone(), Declared::of(kind), memory, made, asked));
        index
    }
}

impl TypeIndex {
    /// Waits until it is made, so long at most. `None`: it is not.
    pub(super) async fn made(&self, within: Option<Duration>) -> Option<()> {
        let mut is_made = self.is_made.clone();
        let made = is_made.wait_for(|is_made| *is_made);
        match within {
            Some(within) => tokio::time::timeout(within, made).await.ok()?.ok()?,
            None => made.await.ok()?,
        };
        Some(())
    }

    /// Looks up the next places. `None`: there is no index by now.
    pub(super) async fn find(&self, look_up: LookUp, after: Option<Place>) -> Option<Found> {
        let (answer, answered) = oneshot::channel();
        self.questions.send(Question { look_up, after, answer }).await.ok()?;
        answered.await.ok()
    }
}
