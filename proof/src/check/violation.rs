//! A broken promise, as the rules report it.

use serde::{Deserialize, Serialize};

use crate::record::Key;

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

    /// A broken promise that is about no resource.
    pub(crate) fn bare(rule: &str, text: String) -> Self {
        Self { rule: rule.to_owned(), key: None, text }
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
