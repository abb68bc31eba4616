//! The items of the two kinds of queues: a resource to reconcile, and a change to map.

use std::sync::Arc;

use mortise_resource::EncodedResource;
use tokio::time::Instant;

use super::state::Content;
use crate::loop_detection::Cause;

/// Most former versions of a resource that wait to be mapped with it. The oldest and the newest are kept; versions
/// between them are dropped.
const MAX_FORMER_VERSIONS: usize = 16;

/// Most bytes of these versions together; the oldest and the newest are kept even beyond it.
const MAX_FORMER_BYTES: usize = 1 << 20;

/// An item in the queue of the reconciler.
#[derive(Debug, Default)]
pub(crate) struct ReconcileItem {
    /// The uid of the newest known incarnation; `None` when only the name is known.
    pub(crate) uid: Option<Box<str>>,
    /// Chain of the controller's own writes that led to the item.
    pub(crate) cause: Cause,
}

impl ReconcileItem {
    /// An item about this incarnation; an empty uid means that only the name is known.
    pub(crate) fn new(uid: &str, cause: Cause) -> Self {
        Self { uid: (!uid.is_empty()).then(|| uid.into()), cause }
    }
}

impl Content for ReconcileItem {
    /// An item without a uid keeps the one that is known.
    fn merge(&mut self, newer: Self) {
        if newer.uid.is_some() {
            self.uid = newer.uid;
        }
        self.cause.merge(newer.cause);
    }
}

/// An item in the queue of a mapper.
#[derive(Debug, Default)]
pub(crate) struct MappingItem {
    /// `None` only in an item that a timer brings back after its content was taken.
    pub(crate) changed: Option<ChangedResource>,
    pub(crate) cause: Cause,
}

/// A resource to map.
#[derive(Debug, Default)]
pub(crate) struct ChangedResource {
    /// The resource as it is, or as it was last before its deletion; `None` once it is mapped.
    pub(crate) now: Option<Arc<EncodedResource>>,
    /// The versions since it was mapped last, oldest first, without those that are mapped; empty when the mapper does
    /// not follow former versions.
    pub(crate) former: Vec<FormerVersion>,
}

/// A version that was replaced before it was mapped as a former one.
#[derive(Debug, Clone)]
pub(crate) struct FormerVersion {
    pub(crate) resource: Arc<EncodedResource>,
    /// Calls of the mapper that failed on it as a former version; refused calls do not count.
    pub(crate) failures: u32,
    /// Time before which it is not mapped again.
    pub(crate) not_before: Instant,
}

impl FormerVersion {
    /// A former version that was not mapped as one yet.
    pub(crate) fn new(resource: Arc<EncodedResource>) -> Self {
        Self { resource, failures: 0, not_before: Instant::now() }
    }
}

impl ChangedResource {
    /// Whether every version is mapped.
    pub(crate) fn is_mapped(&self) -> bool {
        self.now.is_none() && self.former.is_empty()
    }

    /// The time of the next former version to map; `None` without one.
    pub(crate) fn former_due(&self) -> Option<Instant> {
        self.former.iter().map(|former| former.not_before).min()
    }
}

impl Content for MappingItem {
    fn merge(&mut self, newer: Self) {
        self.cause.merge(newer.cause);
        self.changed = match (self.changed.take(), newer.changed) {
            (Some(ChangedResource { now: was, mut former }), Some(ChangedResource { now, former: later })) => {
                // `later` has `was` as a former version, unless the mapper does not follow those.
                former.extend(later);
                former.dedup_by(|a, b| Arc::ptr_eq(&a.resource, &b.resource));
                drop_between(&mut former);
                Some(ChangedResource { now: now.or(was), former })
            }
            (older, newer) => newer.or(older),
        };
    }
}

/// Drops versions from the second on until the bounds hold, never the first nor the last.
fn drop_between(former: &mut Vec<FormerVersion>) {
    let mut bytes: usize = former.iter().map(|version| version.resource.bytes().len()).sum();
    let (mut count, last) = (former.len(), former.len().saturating_sub(1));
    let mut indexes = 0..;
    former.retain(|version| {
        let is_between = indexes.next().is_some_and(|index| index > 0 && index < last);
        let drops = is_between && (count > MAX_FORMER_VERSIONS || bytes > MAX_FORMER_BYTES);
        if drops {
            count -= 1;
            bytes -= version.resource.bytes().len();
        }
        !drops
    });
}

#[cfg(test)]
mod tests {
    use mortise_resource::pb;

    use super::*;

    #[test]
    fn the_newest_uid_that_is_known_stays_when_only_the_name_is() {
        let wake = |uid: &str| ReconcileItem::new(uid, Cause::default());
        let mut waiting = wake("");
        for (newer, known) in [("1", "1"), ("", "1"), ("2", "2")] {
            waiting.merge(wake(newer));
            assert_eq!(waiting.uid.as_deref(), Some(known));
        }
    }

    #[test]
    fn former_versions_are_bounded_and_the_first_is_kept() {
        let version = |n: usize| {
            let resource = pb::Resource { version: n.to_string(), ..pb::Resource::default() };
            Arc::new(EncodedResource::encode(&resource).unwrap())
        };
        let item = |n: usize| MappingItem {
            changed: Some(ChangedResource { now: Some(version(n)), former: vec![FormerVersion::new(version(n - 1))] }),
            cause: Cause::default(),
        };
        let mut waiting = item(1);
        (2..100).for_each(|n| waiting.merge(item(n)));
        let ChangedResource { now, former } = waiting.changed.unwrap();
        let versions: Vec<&str> = former.iter().map(|former| former.resource.version()).collect();
        assert_eq!(
            (now.unwrap().version(), former.len(), versions[0], versions[15]),
            ("99", MAX_FORMER_VERSIONS, "0", "98")
        );
    }

    #[test]
    fn former_versions_are_bounded_in_bytes_and_the_first_and_the_last_are_kept() {
        let version = |n: usize, bytes: usize| {
            let data = prost_types::Any { value: vec![0; bytes], ..prost_types::Any::default() };
            let resource = pb::Resource { version: n.to_string(), data: Some(data), ..pb::Resource::default() };
            Arc::new(EncodedResource::encode(&resource).unwrap())
        };
        let kept = |bytes: usize| {
            let item = |n| MappingItem {
                changed: Some(ChangedResource {
                    now: Some(version(n, bytes)),
                    former: vec![FormerVersion::new(version(n - 1, bytes))],
                }),
                cause: Cause::default(),
            };
            let mut waiting = item(1);
            (2..10).for_each(|n| waiting.merge(item(n)));
            let former = waiting.changed.unwrap().former;
            former.iter().map(|former| former.resource.version().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(kept(300 << 10), ["0", "7", "8"]);
        assert_eq!(kept(MAX_FORMER_BYTES), ["0", "8"]);
        assert_eq!(kept(100).len(), 9);
    }
}
