//! The rules, and the order of states that they share.
//!
//! | module | rules |
//! |---|---|
//! | [`timeline`] | a version has one content and one resource |
//! | [`linear`] | calls on a resource take effect in an order that agrees with their times; no read is stale |
//! | [`states`] | uid, generation, content and statuses of consecutive states; compare-and-swap; order of versions |
//! | [`deletions`] | a resource goes only by a deletion, and takes its owned resources along |
//! | [`cuts`] | lists and snapshots are as of one commit |
//! | [`watches`] | events in order, each once, none missing, also over a resumption |
//! | [`pages`] | rows of STATEFUL watches |

pub mod cuts;
pub mod deletions;
pub mod linear;
pub mod pages;
pub mod states;
pub mod timeline;
pub mod watches;

use serde::{Deserialize, Serialize};

use crate::record::{History, Key};
use timeline::Timeline;

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Violation {
    /// Name of the rule.
    pub rule: String,
    /// Resource, if it is about one.
    pub key: Option<Key>,
    /// Description of the evidence.
    pub text: String,
}

impl Violation {
    pub(crate) fn new(rule: &str, key: &Key, text: String) -> Self {
        Self { rule: rule.to_owned(), key: Some(key.clone()), text }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.rule)?;
        match &self.key {
            Some(key) => write!(f, "{key}: {}", self.text),
            None => write!(f, "{}", self.text),
        }
    }
}

/// Judges a history; returns every broken promise, in a fixed order.
#[must_use]
pub fn judge(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let timeline = Timeline::read(history, &mut found);
    let orders = linear::check(history, &timeline, &mut found);
    states::check(history, &timeline, &mut found);
    deletions::check(history, &timeline, &orders, &mut found);
    cuts::check(history, &timeline, &mut found);
    watches::check(history, &timeline, &mut found);
    pages::check(history, &timeline, &mut found);
    found.sort();
    found.dedup();
    found
}
