//! Turns: one transition at a time for each plugin. Tasks that wait for a plugin get their turn in the order of their
//! arrival; plugins do not wait for each other.
//!
//! A task has one turn at most, and does not wait for a turn while it holds the lock of the state or a place for a
//! load; so two tasks never wait for each other.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

/// The right to change a plugin, until it is dropped.
pub(crate) type Turn = tokio::sync::OwnedMutexGuard<()>;

/// A queue for each plugin in transition; other plugins take no memory.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// Waits for the turn to change a plugin.
    pub(crate) async fn take(&self, plugin: &str) -> Turn {
        let queue = {
            let mut queues = self.0.lock();
            queues.retain(|_, queue| queue.strong_count() > 0);
            let known = queues.get(plugin).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let queue = Arc::default();
                queues.insert(plugin.to_owned(), Arc::downgrade(&queue));
                queue
            })
        };
        queue.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_plugin_waits_for_itself_only() {
        let turns = Turns::default();
        let first = turns.take("a").await;
        let mut second = Box::pin(turns.take("a"));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(turns.take("b").now_or_never().is_some());
        drop(first);
        assert!(second.now_or_never().is_some());
    }
}
