//! Decisions of rules about recent events, made once for all watches of callers with the same permissions.
//!
//! # Contract
//! A decision is remembered for a resource (the same bytes in memory), the type as registered, and the
//! [fingerprint](mortise_resource::authorizer::Authorizer::fingerprint) of the caller, which differs for another name
//! and after every change of rules. So a watch gets the decision that it would make itself. Errors are not remembered,
//! nor are decisions of an authorize hook: its plugin remembers those.
//!
//! # Cost and limits
//! A lock and a look at the latest [`MAX_DECISIONS`] decisions, which hold as many resources of at most
//! [`MAX_RESOURCE_BYTES`] each.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use mortise_resource::{EncodedResource, Error};
use parking_lot::Mutex;
use prost::bytes::Bytes;

use crate::{registry::ResourceType, rules::RequestHooks};

/// Most decisions that are remembered.
const MAX_DECISIONS: usize = 64;
/// Most bytes of a resource whose decision is remembered.
const MAX_RESOURCE_BYTES: usize = 64 << 10;

/// The latest decisions.
#[derive(Default)]
pub(crate) struct RecentDecisions {
    latest_first: Mutex<VecDeque<RecentDecision>>,
}

/// A decision. It holds the bytes of the resource, and the address of the type, so no others can take their addresses.
struct RecentDecision {
    resource: Bytes,
    /// Weak, since a type holds its plugin, which a reload replaces.
    kind: Weak<ResourceType>,
    fingerprint: u64,
    may_read: bool,
}

impl RecentDecisions {
    /// Decides as [`RequestHooks::may_read`], or as it did for the same resource, type and permissions.
    ///
    /// # Errors
    /// Those of the hook.
    pub(crate) async fn may_read(&self, hooks: &mut RequestHooks, resource: &EncodedResource) -> Result<bool, Error> {
        // Decisions of a hook are in the memory of its plugin, which a quarantined hook does not use. A hook that reads
        // its plugin's own types needs no permission, which no fingerprint shows.
        let is_rule = !hooks.kind.hooks.authorize_read && hooks.caller.hook_of.is_none();
        let is_free = RequestHooks::reads_all(&hooks.kind, &hooks.caller);
        if !is_rule || is_free || resource.bytes().len() > MAX_RESOURCE_BYTES {
            return hooks.may_read(resource).await;
        }
        // Before the decision, so that rules that change meanwhile make another fingerprint.
        let fingerprint = hooks.caller.authorizer.fingerprint();
        let (kind, bytes) = (hooks.kind.clone(), resource.bytes());
        let is_same = |known: &&RecentDecision| {
            (known.resource.as_ptr(), known.resource.len()) == (bytes.as_ptr(), bytes.len())
                && known.fingerprint == fingerprint
                && known.kind.as_ptr() == Arc::as_ptr(&kind)
        };
        if let Some(known) = self.latest_first.lock().iter().find(is_same) {
            return Ok(known.may_read);
        }
        let may_read = hooks.may_read(resource).await?;
        let mut recent = self.latest_first.lock();
        // Another watch may have decided meanwhile.
        if recent.iter().any(|known| is_same(&known)) {
            return Ok(may_read);
        }
        recent.truncate(MAX_DECISIONS - 1);
        recent.push_front(RecentDecision {
            resource: bytes.clone(),
            kind: Arc::downgrade(&kind),
            fingerprint,
            may_read,
        });
        Ok(may_read)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use mortise_resource::{authorizer::Authorizer, pb, types};
    use mortise_store::Consistency;

    use super::*;
    use crate::{call::Caller, registry::Registry};

    /// A caller whose questions are counted.
    struct Counted {
        fingerprint: u64,
        allowed: bool,
        asked: Arc<AtomicUsize>,
    }

    impl Authorizer for Counted {
        fn is_allowed(&self, _: &str, _: &str) -> bool {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.allowed
        }

        fn caller(&self) -> &'static str {
            "the tester"
        }

        fn fingerprint(&self) -> u64 {
            self.fingerprint
        }
    }

    fn partition(version: &str) -> EncodedResource {
        let kind = Some(types::partition().to_pb());
        let id = pb::Id { name: "p".into(), r#type: kind, tenancy: Some(pb::Tenancy::default()), uid: "u".into() };
        let resource = pb::Resource { id: Some(id), version: version.into(), ..pb::Resource::default() };
        EncodedResource::encode(&resource).unwrap()
    }

    #[tokio::test]
    async fn a_decision_holds_for_the_same_resource_type_and_permissions_alone() {
        let (recent, asked) = (RecentDecisions::default(), Arc::new(AtomicUsize::new(0)));
        let kind = Registry::builtin().unwrap().resolve_type(&types::partition()).unwrap().clone();
        let reloaded = Arc::new(ResourceType::clone(&kind));
        let (first, second) = (partition("1"), partition("2"));
        let ask = async |kind: &Arc<ResourceType>, fingerprint, allowed, resource: &EncodedResource| {
            let authorizer = Arc::new(Counted { fingerprint, allowed, asked: asked.clone() });
            let caller = Caller { authorizer, ..Caller::host(Consistency::Eventual) };
            let may_read = recent.may_read(&mut RequestHooks::new(kind.clone(), &caller), resource).await.unwrap();
            (may_read, asked.swap(0, Ordering::Relaxed) > 0)
        };
        assert_eq!(ask(&kind, 1, true, &first).await, (true, true));
        assert_eq!(ask(&kind, 1, true, &first).await, (true, false), "remembered");
        assert_eq!(ask(&kind, 2, false, &first).await, (false, true), "of other permissions");
        assert_eq!(ask(&kind, 2, false, &first).await, (false, false), "a refusal is remembered, too");
        assert_eq!(ask(&kind, 1, true, &second).await, (true, true), "of another resource");
        assert_eq!(ask(&reloaded, 1, false, &first).await, (false, true), "of the type as registered again");
        assert_eq!(ask(&kind, 1, true, &first).await, (true, false));
        for n in 0..MAX_DECISIONS {
            ask(&kind, 3, true, &partition(&n.to_string())).await;
        }
        assert_eq!(ask(&kind, 1, true, &first).await, (true, true), "pushed out by later ones");
        assert_eq!(recent.latest_first.lock().len(), MAX_DECISIONS);
    }
}
