//! Namespaces that outlive their owner's deletion: a replica of a namespace stays while resources are in it here, and
//! goes when the last one does.
//!
//! # Contract
//! A held namespace is not marked, so the resources in it can be read, and be written by the region that they belong
//! to. Its status under the key `mortise` has the condition `Held`. [`crate::deletion`] removes it once it is empty.
//! Another namespace of its owner with the same name takes its place.

use mortise_resource::{
    EncodedResource, meta,
    pb::{self, condition::State},
};

use crate::{
    core::ids,
    rules::{region, server_meta},
};

/// Key of the status entry.
const STATUS_KEY: &str = "mortise";
/// Type of the condition.
const HELD: &str = "Held";
/// Reason of a namespace that its owner deleted.
const OWNER_DELETED: &str = "OwnerDeleted";
/// Reason of a namespace that its owner does not share with this region any more.
const NOT_SHARED: &str = "NotShared";

/// Returns the held form of a namespace's replica; `None` if it is stored already.
pub(crate) fn hold(stored: &pb::Resource, deleted: bool) -> Option<pb::Resource> {
    let reason = if deleted { OWNER_DELETED } else { NOT_SHARED };
    if reason_of(stored).is_some_and(|known| known == reason || known == OWNER_DELETED)
        && !meta::is_marked(&stored.metadata)
    {
        return None;
    }
    let mut held = stored.clone();
    held.metadata.remove(meta::DELETION_TIMESTAMP);
    held.metadata.remove(meta::FINALIZERS);
    held.generation = ids::ulid();
    let syncing = region::syncing_of(held.meta.as_deref()).cloned();
    server_meta::set_touched(&mut held);
    held.meta.get_or_insert_default().syncing = syncing;
    let owner = region::replica_origin(stored);
    let what = if deleted { "deleted it" } else { "does not share it with this region any more" };
    let condition = pb::Condition {
        r#type: HELD.into(),
        state: State::True.into(),
        reason: reason.into(),
        message: format!("region {owner:?} {what}; it stays here until the resources in it are gone"),
        resource: None,
    };
    let updated_at = Some(ids::timestamp());
    let status = pb::Status { observed_generation: held.generation.clone(), conditions: vec![condition], updated_at };
    held.status.insert(STATUS_KEY.into(), status);
    Some(held)
}

/// Removes the condition from a namespace that this region takes over.
pub(crate) fn release(unit: &mut pb::Resource) {
    if let Some(status) = unit.status.get_mut(STATUS_KEY) {
        status.conditions.retain(|condition| condition.r#type != HELD);
        if status.conditions.is_empty() {
            unit.status.remove(STATUS_KEY);
        }
    }
}

/// Whether a namespace is held.
pub(crate) fn is_held(unit: &EncodedResource) -> bool {
    unit.decode().is_ok_and(|unit| reason_of(&unit).is_some() && region::is_replica(&unit))
}

/// Whether the owner of a held namespace deleted it.
pub(crate) fn is_deleted(unit: &pb::Resource) -> bool {
    reason_of(unit) == Some(OWNER_DELETED)
}

/// Returns the reason why a namespace is held.
pub(crate) fn reason_of(unit: &pb::Resource) -> Option<&str> {
    let conditions = &unit.status.get(STATUS_KEY)?.conditions;
    conditions.iter().find(|condition| condition.r#type == HELD).map(|condition| condition.reason.as_str())
}
