//! The task that builds the indexes of a type, keeps them current, and answers look-ups.
//!
//! A watch of changes is opened together with the content. Changes during the construction are kept as entries and
//! applied afterwards. Every published change is applied before a look-up is answered.

use std::sync::Arc;

use mortise_store::{Backend, ChangeStep, ChangeWatch, OpenedChanges, ScanPart, StoreError};
use tokio::sync::{mpsc, watch};

use super::{
    content::{IndexContent, IndexFull, IndexMemory},
    declared::IndexedFields,
    lookup::Question,
};
use crate::{
    core::durations::{INDEX_IDLE_TIME, INDEX_OVERFLOW_PAUSE},
    lists::Lists,
};

/// The reason for the end of an index.
enum IndexEnd {
    Full,
    Store(StoreError),
    /// Queries no longer ask, or can no longer ask.
    Unused,
}

impl From<IndexFull> for IndexEnd {
    fn from(IndexFull: IndexFull) -> Self {
        Self::Full
    }
}

impl From<StoreError> for IndexEnd {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Runs until the index is unused, the service stops, or changes were missed.
pub(super) async fn run(
    lists: Lists,
    declared: IndexedFields,
    memory: IndexMemory,
    made: watch::Sender<bool>,
    mut questions: mpsc::Receiver<Question>,
) {
    let gvk = declared.gvk.clone();
    let stopped = lists.core.stopped();
    let end = tokio::select! {
        end = keep(&lists, declared, memory, &made, &mut questions) => end,
        () = stopped => return,
    };
    match end {
        IndexEnd::Unused => {}
        IndexEnd::Store(error) => {
            tracing::debug!(r#type = %gvk, %error, "the next query rebuilds the indexes of fields")
        }
        IndexEnd::Full => {
            let most = lists.core.options.index_bytes;
            tracing::warn!(
                r#type = %gvk,
                "the indexes of fields do not fit in {most} bytes (limit service.index_bytes): queries of the type read \
                 ranges of names; raise the limit, or declare fewer fields"
            );
            // While this task holds the place of the index, no other task begins.
            made.send_replace(true);
            tokio::time::timeout(INDEX_OVERFLOW_PAUSE, async { while questions.recv().await.is_some() {} }).await.ok();
        }
    }
}

async fn keep(
    lists: &Lists,
    declared: IndexedFields,
    memory: IndexMemory,
    made: &watch::Sender<bool>,
    questions: &mut mpsc::Receiver<Question>,
) -> IndexEnd {
    let making = make(lists.core.backend.clone(), declared, memory);
    let Some(indexes) = lists.low_priority.run(making).await else { return IndexEnd::Unused };
    let mut indexes = match indexes {
        Ok(indexes) => indexes,
        Err(end) => return end,
    };
    made.send_replace(true);
    match indexes.answer(questions).await {
        Ok(()) => IndexEnd::Unused,
        Err(end) => end,
    }
}

/// Indexes, and the changes not yet applied to them.
struct LiveIndexes {
    declared: IndexedFields,
    content: IndexContent,
    changes: Box<dyn ChangeWatch>,
}

async fn make(
    backend: Arc<dyn Backend>,
    declared: IndexedFields,
    memory: IndexMemory,
) -> Result<LiveIndexes, IndexEnd> {
    let opened = backend.open_changes(&declared.query(), &ScanPart::default(), &[]).await?;
    let OpenedChanges { content: mut stored, mut changes, .. } = opened;
    let mut content = IndexContent::new(declared.fields(), memory);
    let mut later = Vec::new();
    while let Some(page) = stored.next().await? {
        for entry in page.iter().filter_map(|resource| declared.entry(resource)) {
            content.add(entry)?;
        }
        while let Some(change) = changes.ready()? {
            let step = declared.step(&change);
            content.memory().take(step.bytes())?;
            later.push(step);
        }
        tokio::task::yield_now().await;
    }
    for step in later {
        content.memory().give(step.bytes());
        content.apply(step)?;
    }
    Ok(LiveIndexes { declared, content, changes })
}

impl LiveIndexes {
    async fn answer(&mut self, questions: &mut mpsc::Receiver<Question>) -> Result<(), IndexEnd> {
        let idle = tokio::time::sleep(INDEX_IDLE_TIME);
        tokio::pin!(idle);
        loop {
            tokio::select! {
                question = questions.recv() => {
                    let Some(question) = question else { return Ok(()) };
                    while let Some(change) = self.changes.ready()? {
                        self.content.apply(self.declared.step(&change))?;
                    }
                    // The query may have been cancelled.
                    match question {
                        Question::Find { lookup, after, answer } => {
                            answer.send(self.content.find(&lookup, after.as_ref())).ok();
                        }
                        Question::Walk { walk, after, answer } => {
                            answer.send(self.content.walk(&walk, after.as_ref())).ok();
                        }
                    }
                    idle.as_mut().reset(tokio::time::Instant::now() + INDEX_IDLE_TIME);
                }
                change = self.changes.next() => match change? {
                    ChangeStep::Change(change) => self.content.apply(self.declared.step(&change))?,
                    ChangeStep::CaughtUp(_) => {}
                },
                () = &mut idle => return Ok(()),
            }
        }
    }
}
