//! The indexes of all types.

use std::{
    collections::HashMap,
    sync::{Arc, Weak, atomic::AtomicUsize},
    time::Duration,
};

use mortise_resource::types::Gvk;
use mortise_store::ListKey;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
};

use super::{
    content::IndexMemory,
    declared::IndexedFields,
    lookup::{Lookup, LookupPage, Question, Walk, WalkPage, WalkPosition},
    task::run,
};
use crate::{lists::Lists, registry::ResourceType};

/// Limit of look-ups that wait for one index.
const MAX_WAITING_LOOK_UPS: usize = 64;

/// The indexes of all types. Cheap to clone.
#[derive(Clone)]
pub(in crate::query) struct FieldIndexes {
    by_type: Arc<Mutex<HashMap<Gvk, TypeIndex>>>,
    /// Bytes of all indexes.
    total: Arc<AtomicUsize>,
    limit: usize,
    /// Runtime of the tasks. The caller may be on a thread of low priority, which has another one.
    runtime: Option<Handle>,
}

/// The index of a type, kept by its task.
#[derive(Clone)]
pub(in crate::query) struct TypeIndex {
    /// Type as registered at the start of the index.
    kind: Weak<ResourceType>,
    is_made: watch::Receiver<bool>,
    questions: mpsc::Sender<Question>,
}

impl FieldIndexes {
    /// Makes the empty set of indexes; `limit` bounds the bytes of all.
    pub(in crate::query) fn new(limit: usize) -> Self {
        Self { by_type: Arc::default(), total: Arc::default(), limit, runtime: Handle::try_current().ok() }
    }

    /// Returns the index of a type. Starts its construction if necessary.
    pub(in crate::query) fn for_type(&self, lists: &Lists, kind: &Arc<ResourceType>) -> TypeIndex {
        let mut by_type = self.by_type.lock();
        by_type.retain(|_, index| !index.questions.is_closed());
        if let Some(index) = by_type.get(&kind.gvk).filter(|index| std::ptr::eq(index.kind.as_ptr(), Arc::as_ptr(kind)))
        {
            return index.clone();
        }
        let (made, is_made) = watch::channel(false);
        let (questions, asked) = mpsc::channel(MAX_WAITING_LOOK_UPS);
        let index = TypeIndex { kind: Arc::downgrade(kind), is_made, questions };
        by_type.insert(kind.gvk.clone(), index.clone());
        let memory = IndexMemory::new(self.total.clone(), self.limit);
        let runtime = self.runtime.clone().unwrap_or_else(Handle::current);
        runtime.spawn(run(lists.clone(), IndexedFields::new(kind), memory, made, asked));
        index
    }
}

impl TypeIndex {
    /// Waits for the end of the construction, at most `within`. `None`: the index is not ready.
    pub(in crate::query) async fn made(&self, within: Option<Duration>) -> Option<()> {
        let mut is_made = self.is_made.clone();
        let made = is_made.wait_for(|is_made| *is_made);
        match within {
            Some(within) => tokio::time::timeout(within, made).await.ok()?.ok()?,
            None => made.await.ok()?,
        };
        Some(())
    }

    /// Finds the next places. `None`: the index is gone.
    pub(crate) async fn find(&self, lookup: Lookup, after: Option<ListKey>) -> Option<LookupPage> {
        let (answer, answered) = oneshot::channel();
        self.questions.send(Question::Find { lookup, after, answer }).await.ok()?;
        answered.await.ok()
    }

    /// Returns the next page of a walk. `None`: the index is gone.
    pub(crate) async fn walk(&self, walk: Walk, after: Option<WalkPosition>) -> Option<WalkPage> {
        let (answer, answered) = oneshot::channel();
        self.questions.send(Question::Walk { walk, after, answer }).await.ok()?;
        answered.await.ok()
    }
}
