//! What the queues carry: why a resource is to be reconciled, and what is to be mapped.

use std::sync::Arc;

use mortise_resource::pb;

use crate::{cause::Cause, custom::CustomEvent, queue::Content};

/// Former versions of one resource that wait to be mapped with it. Beyond, the ones in the middle are left out.
const FORMER: usize = 16;

/// In the queue of the reconciler.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    /// The newest incarnation that was heard of.
    pub(crate) uid: Option<Box<str>>,
    pub(crate) cause: Cause,
}

impl Wake {
    pub(crate) fn new(id: &pb::Id, cause: Cause) -> Self {
        Self { uid: (!id.uid.is_empty()).then(|| id.uid.as_str().into()), cause }
    }
}

impl Content for Wake {
    /// Who knows only the name does not make what is known of the incarnation forgotten.
    fn merge(&mut self, newer: Self) {
        if newer.uid.is_some() {
            self.uid = newer.uid;
        }
        self.cause.merge(newer.cause);
    }
}

/// In the queue of a mapper.
#[derive(Debug, Default)]
pub(crate) struct Item {
    pub(crate) subject: Option<Subject>,
    pub(crate) cause: Cause,
}

/// What is mapped.
#[derive(Debug)]
pub(crate) enum Subject {
    /// A resource as it is now, or was last.
    Resource {
        now: Arc<pb::Resource>,
        /// What it was since it was mapped last, if the mapper cares.
        former: Vec<Arc<pb::Resource>>,
    },
    /// Something else.
    Custom(CustomEvent),
}

impl Content for Item {
    fn merge(&mut self, newer: Self) {
        self.cause.merge(newer.cause);
        let subject = match (self.subject.take(), newer.subject) {
            (Some(Subject::Resource { mut former, .. }), Some(Subject::Resource { now, former: later })) => {
                // What this item was about is, as a former version, in `later`, unless the mapper does not care.
                former.extend(later);
                former.dedup_by(|a, b| Arc::ptr_eq(a, b));
                if former.len() > FORMER {
                    former.drain(1..=former.len() - FORMER);
                }
                Some(Subject::Resource { now, former })
            }
            (older, newer) => newer.or(older),
        };
        self.subject = subject;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_uid_that_is_known_stays_when_only_the_name_is() {
        let wake = |uid: &str| Wake::new(&pb::Id { uid: uid.into(), ..pb::Id::default() }, Cause::default());
        let mut waiting = wake("");
        for (newer, known) in [("1", "1"), ("", "1"), ("2", "2")] {
            waiting.merge(wake(newer));
            assert_eq!(waiting.uid.as_deref(), Some(known));
        }
    }

    #[test]
    fn former_versions_are_bounded_and_the_first_is_kept() {
        let version = |n: usize| Arc::new(pb::Resource { version: n.to_string(), ..pb::Resource::default() });
        let item = |n: usize| Item {
            subject: Some(Subject::Resource { now: version(n), former: vec![version(n - 1)] }),
            cause: Cause::default(),
        };
        let mut waiting = item(1);
        (2..100).for_each(|n| waiting.merge(item(n)));
        let Some(Subject::Resource { now, former }) = waiting.subject else { panic!("no resource") };
        let versions: Vec<&str> = former.iter().map(|r| r.version.as_str()).collect();
        assert_eq!((now.version.as_str(), former.len(), versions[0], versions[15]), ("99", FORMER, "0", "98"));
    }
}
