//! Faults on purpose: `mortise-proof planted` shows with them that histories find faults.
//!
//! Only builds with the feature `planted-faults` have them, where `MORTISE_PLANTED_FAULT` names the fault. No build has
//! the feature by default, and a release build with it does not compile. Without it, the functions of this module do
//! nothing, and the compiler removes them.

#[cfg(all(feature = "planted-faults", not(debug_assertions)))]
compile_error!("the feature planted-faults is for tests; build without it");

/// A fault of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A write keeps the generation.
    GenerationKept,
    /// A write removes the statuses.
    StatusLost,
    /// A deletion does not compare the version.
    DeletionIgnoresVersion,
    /// A deletion removes a resource in spite of its finalizers.
    FinalizerIgnored,
    /// The reaper leaves a child.
    ReaperForgetsChild,
    /// A list leaves out a piece, which has a part of its resources or all.
    ListLacksPiece,
    /// The rights of a policy are remembered over its changes.
    PolicyRemembered,
    /// A move leaves the moved resource.
    MoveKeepsSource,
    /// An import replaces a stored resource.
    ImportReplaces,
    /// A deletion ignores blocking references.
    BlockIgnored,
    /// A watch skips an event after a reload of its plugin.
    #[cfg(feature = "planted-faults")]
    WatchSkipsAtReload,
    /// The reaper deletes the children of a living owner of the same name.
    #[cfg(feature = "planted-faults")]
    ReaperWithoutUid,
}

#[cfg(not(feature = "planted-faults"))]
pub(crate) use off::*;
#[cfg(feature = "planted-faults")]
pub(crate) use on::*;

#[cfg(not(feature = "planted-faults"))]
mod off {
    use mortise_resource::pb;

    use super::Fault;
    use crate::{core::Core, registry::Registry};

    /// Whether the fault happens now.
    pub(crate) const fn happens(_: Fault) -> bool {
        false
    }

    /// Whether a watch skips an event that it delivers by this registry.
    pub(crate) const fn skips(_: &Registry) -> bool {
        false
    }

    /// Returns the owner whose children go.
    pub(crate) async fn reaped(_: &Core, owner: &pb::Id) -> pb::Id {
        owner.clone()
    }

    /// Leaves a new resource as it is.
    pub(crate) async fn replace_stored(_: &Core, _: &mut pb::Resource) {}
}

#[cfg(feature = "planted-faults")]
mod on {
    use std::sync::{
        LazyLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    };

    use mortise_resource::pb;
    use mortise_store::Consistency;

    use super::Fault;
    use crate::{core::Core, registry::Registry};

    static CHOSEN: LazyLock<String> = LazyLock::new(|| std::env::var("MORTISE_PLANTED_FAULT").unwrap_or_default());
    static OCCASIONS: AtomicU64 = AtomicU64::new(1);

    /// Whether the chosen fault is this one, and its turn has come.
    pub(crate) fn happens(fault: Fault) -> bool {
        let every = match fault {
            Fault::ReaperForgetsChild | Fault::ReaperWithoutUid | Fault::WatchSkipsAtReload => 1,
            Fault::DeletionIgnoresVersion | Fault::FinalizerIgnored => 1,
            Fault::GenerationKept | Fault::StatusLost => 97,
            Fault::ListLacksPiece | Fault::PolicyRemembered => 7,
            Fault::MoveKeepsSource | Fault::ImportReplaces | Fault::BlockIgnored => 3,
        };
        *CHOSEN == format!("{fault:?}") && OCCASIONS.fetch_add(1, Ordering::Relaxed) % every == 0
    }

    /// Whether a watch skips an event that it delivers by this registry: the first one after each change.
    pub(crate) fn skips(registry: &Registry) -> bool {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let now = std::ptr::from_ref(registry).addr();
        let before = LAST.swap(now, Ordering::Relaxed);
        before != 0 && before != now && happens(Fault::WatchSkipsAtReload)
    }

    /// Returns the owner whose children go: for the fault, the living one of that name.
    pub(crate) async fn reaped(core: &Core, owner: &pb::Id) -> pb::Id {
        let any = pb::Id { uid: String::new(), ..owner.clone() };
        match core.backend.read(Consistency::Consistent, &any).await {
            Ok(pb::Resource { id: Some(living), .. }) if happens(Fault::ReaperWithoutUid) => living,
            _ => owner.clone(),
        }
    }

    /// Makes a new resource one that replaces the stored one, for the fault.
    pub(crate) async fn replace_stored(core: &Core, resource: &mut pb::Resource) {
        let id = resource.id.clone().unwrap_or_default();
        let any = pb::Id { uid: String::new(), ..id };
        if *CHOSEN == format!("{:?}", Fault::ImportReplaces)
            && let Ok(stored) = core.backend.read(Consistency::Consistent, &any).await
        {
            (resource.id, resource.version) = (stored.id, stored.version);
        }
    }
}
