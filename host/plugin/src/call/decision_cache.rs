//! Cache of earlier authorize decisions.
//!
//! An authorize hook runs in a fresh instance without ambient authority, in a deterministic engine; so its answer is a
//! function of its arguments and of the caller's permissions, and the contract says so. Asking again costs an instance
//! (about 10 µs), a cached decision a look-up. The key is everything that the answer depends on: the hook, the caller's
//! fingerprint, and the arguments; a resource is represented by its id with uid and version, since equal versions have
//! equal content. The plugin's settings count too, so a cache belongs to one [`crate::Plugin`], which is one component
//! with one set of settings: a new version of a plugin, or new settings, start with an empty cache.
//!
//! Bounded by the number of decisions (`Limits::remembered_decisions`) and by the size of one key.

use quick_cache::sync::Cache;

use crate::call::answer::Decision;

/// Longest key that is cached, bytes.
const MAX_KEY: usize = 1024;

/// Cache key: all inputs of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key(Box<[u8]>);

impl Key {
    /// Joins the parts unambiguously.
    pub(crate) fn new(hook: u8, fingerprint: u64, parts: &[&[u8]]) -> Self {
        let mut bytes = Vec::with_capacity(9 + parts.iter().map(|part| part.len() + 8).sum::<usize>());
        bytes.push(hook);
        bytes.extend_from_slice(&fingerprint.to_le_bytes());
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        Self(bytes.into_boxed_slice())
    }
}

/// The decisions of one plugin.
pub(crate) struct DecisionCache(Option<Cache<Key, Decision>>);

impl DecisionCache {
    pub(crate) fn new(capacity: usize) -> Self {
        Self((capacity > 0).then(|| Cache::new(capacity)))
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Decision> {
        self.0.as_ref()?.get(key)
    }

    pub(crate) fn put(&self, key: Key, decision: &Decision) {
        if let Some(cache) = &self.0
            && key.0.len() <= MAX_KEY
        {
            cache.insert(key, decision.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_not_run_together() {
        assert_ne!(Key::new(0, 0, &[b"ab", b"c"]), Key::new(0, 0, &[b"a", b"bc"]));
        assert_ne!(Key::new(0, 0, &[b"a"]), Key::new(1, 0, &[b"a"]));
        assert_ne!(Key::new(0, 0, &[b"a"]), Key::new(0, 1, &[b"a"]));
        assert_ne!(Key::new(0, 0, &[b"a"]), Key::new(0, 0, &[b"a", b""]));
    }

    #[test]
    fn bounded_and_switchable() {
        let decision_cache = DecisionCache::new(0);
        decision_cache.put(Key::new(0, 0, &[]), &Decision::Allow);
        assert_eq!(decision_cache.get(&Key::new(0, 0, &[])), None);

        let decision_cache = DecisionCache::new(8);
        let long = Key::new(0, 0, &[&[0; 2 * MAX_KEY]]);
        decision_cache.put(long.clone(), &Decision::Allow);
        assert_eq!(decision_cache.get(&long), None);
        decision_cache.put(Key::new(0, 0, &[b"x"]), &Decision::NeedResource);
        assert_eq!(decision_cache.get(&Key::new(0, 0, &[b"x"])), Some(Decision::NeedResource));
    }
}
