//! The record of replicas in the audit log: a line for each that was written or removed, by the caller `region <peer>`.
//!
//! A place in the log is reserved before the first change, so replication stops while the log takes no records. The
//! lines of a commit follow the commit.

use std::sync::Arc;

use mortise_resource::{Code, Error, authorizer::Authorizer, pb};

use crate::{
    call::{Call, Origin, Remote, Surface},
    core::Core,
};

/// A peer as a caller: its name, without permissions.
struct PeerCaller(String);

impl Authorizer for PeerCaller {
    fn is_allowed(&self, _permission: &str, _name: &str) -> bool {
        false
    }

    fn caller(&self) -> &str {
        &self.0
    }

    fn fingerprint(&self) -> u64 {
        std::hash::BuildHasher::hash_one(&std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default(), &self.0)
    }
}

/// A change: the id, and the generations before and after.
pub(crate) struct Change {
    pub(crate) id: pb::Id,
    pub(crate) before: String,
    pub(crate) after: String,
}

/// The records of one commit.
pub(crate) struct Records {
    caller: Arc<dyn Authorizer>,
    origin: Arc<Origin>,
    first: Call,
    method: &'static str,
}

impl Records {
    /// Reserves a place for the coming changes.
    ///
    /// # Errors
    /// `Unavailable`: the log takes no records.
    pub(super) async fn begin(core: &Core, caller: String, method: &'static str) -> Result<Self, Error> {
        let caller: Arc<dyn Authorizer> = Arc::new(PeerCaller(caller));
        let origin = Arc::new(Origin::new(Surface::Region, Remote::Unknown, None));
        let first = Call::begin_unrated(core, &caller, Some(&origin), method.into(), true).await?;
        Ok(Self { caller, origin, first, method })
    }

    /// Records the changes.
    pub(crate) async fn end(self, core: &Core, changes: &[Change]) {
        let mut call = Some(self.first);
        for Change { id, before, after } in changes {
            let taken = match call.take() {
                Some(call) => Ok(call),
                None => Call::begin_unrated(core, &self.caller, Some(&self.origin), self.method.into(), true).await,
            };
            let recorded = match taken {
                Ok(mut call) => {
                    call.changed(Some(id), before, after);
                    call.end_with(None, "OK").await
                }
                Err(e) => Err(e),
            };
            if let Err(e) = recorded {
                tracing::warn!("some replicas are missing in the audit log: {e}");
                return;
            }
        }
        if let Some(call) = call {
            call.drop_unused();
        }
    }

    /// Records a failure, with this code and no change.
    pub(super) async fn fail(self, code: Code) {
        if let Err(e) = self.first.end_with(Some(code), code.name()).await {
            tracing::warn!("replicas are missing in the audit log: {e}");
        }
    }
}
