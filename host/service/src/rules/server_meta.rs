//! A resource's `meta` in a write: the client's part is as sent, or as stored; the server's part follows from the
//! write.
//!
//! The generation counts changes of the content: it rises if the data differs, or, for a type that declares the fields
//! of its specification, if one of these differs. Statuses, metadata, `meta` itself and a mark of deletion do not
//! count. The store sets the resource version, which is not known before.

use mortise_resource::{
    Diagnostic, Severity,
    goten::Meta,
    meta, pb,
    resource_meta::{self, lifecycle, merge, normalized, ulid_time},
};

use crate::{core::ids, registry::ResourceType};

/// Returns `meta` for the hooks: the client's part as it will be stored, the server's as it is stored.
pub(crate) fn proposed(incoming: Option<&Meta>, stored: Option<&pb::Resource>) -> Option<Box<Meta>> {
    let known = stored.map(known);
    match (incoming, known) {
        (None, known) => known.map(Box::new),
        (Some(incoming), known) => Some(Box::new(merge(normalized(incoming.clone()), known.unwrap_or_default()))),
    }
}

/// Whether a resource is protected from deletion.
pub(crate) fn is_blocked(resource: &pb::Resource) -> bool {
    resource.meta.as_ref().and_then(|meta| meta.lifecycle).is_some_and(|lifecycle| lifecycle.block_deletion)
}

/// Protects a resource from deletion, or ends the protection.
pub(crate) fn set_block(resource: &mut pb::Resource, blocks: bool) {
    if is_blocked(resource) != blocks {
        resource.meta.get_or_insert_default().lifecycle.get_or_insert_default().block_deletion = blocks;
    }
}

/// Sets `meta` of a resource that is about to replace `stored`; its uid is known. The protection from deletion is the
/// one that the resource has already, from `stored` or from the type's hook.
pub(crate) fn set(
    kind: &ResourceType,
    resource: &mut pb::Resource,
    incoming: Option<&Meta>,
    stored: Option<&pb::Resource>,
) {
    let mut next = proposed(incoming, stored).unwrap_or_default();
    if let Some(lifecycle) = resource.meta.as_ref().and_then(|meta| meta.lifecycle) {
        next.lifecycle.get_or_insert_default().block_deletion = lifecycle.block_deletion;
    }
    let uid = ids::uid_of(resource);
    if stored.is_none() {
        next.create_time = ulid_time(uid);
        uid.clone_into(&mut next.uuid);
    }
    let changed = stored.is_none_or(|stored| changes_content(kind, stored, resource));
    next.generation = next.generation.saturating_add(i64::from(changed));
    touch(&mut next, resource);
    if stored.is_none() {
        next.update_time = next.create_time.or(next.update_time);
    }
    resource.meta = Some(next);
}

/// Sets `meta` of a resource for its hooks; `blocks` is a change of the protection from deletion.
pub(crate) fn propose(
    resource: &mut pb::Resource,
    incoming: &pb::Resource,
    stored: Option<&pb::Resource>,
    blocks: Option<bool>,
) {
    resource.meta = proposed(incoming.meta.as_deref(), stored);
    if let Some(blocks) = blocks {
        set_block(resource, blocks);
    }
}

/// Returns the warning of a request that asks for a protection from deletion and does not get it.
pub(crate) fn ignored_block_of(incoming: &pb::Resource, resource: &pb::Resource) -> Option<Diagnostic> {
    (is_blocked(incoming) && !is_blocked(resource)).then(ignored_block)
}

/// The warning of a request that sets the protection from deletion without effect.
pub(crate) fn ignored_block() -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning.into(),
        path: "meta.lifecycle.block_deletion".into(),
        summary:
            "meta.lifecycle.block_deletion is ignored in a write: an operator sets it with SetBlockDeletion (mortise \
                  protect), and the type's plugin by its mutate hook or its controllers"
                .into(),
        detail: String::new(),
    }
}

/// Sets `meta` of a resource that is stored again with only its status or its mark changed.
pub(crate) fn set_touched(resource: &mut pb::Resource) {
    let mut next = Box::new(known(resource));
    touch(&mut next, resource);
    resource.meta = Some(next);
}

fn touch(next: &mut Meta, resource: &pb::Resource) {
    let now = ids::milliseconds();
    let marked = meta::is_marked(&resource.metadata);
    next.update_time = Some(now);
    next.delete_time = if marked { next.delete_time.or(Some(now)) } else { None };
    let blocked = next.lifecycle.is_some_and(|lifecycle| lifecycle.block_deletion);
    next.lifecycle = Some(mortise_resource::goten::Lifecycle { block_deletion: blocked, ..lifecycle(marked) });
}

/// Returns `meta` of a stored resource, complete.
fn known(stored: &pb::Resource) -> Meta {
    match &stored.meta {
        Some(meta) if !meta.uuid.is_empty() => (**meta).clone(),
        Some(meta) => merge((**meta).clone(), resource_meta::derive_server_part(stored)),
        None => resource_meta::derive_server_part(stored),
    }
}

/// Whether the content differs. Data in another encoding is the same.
fn changes_content(kind: &ResourceType, stored: &pb::Resource, resource: &pb::Resource) -> bool {
    if stored.data == resource.data {
        return false;
    }
    let (Some(before), Some(after)) = (&stored.data, &resource.data) else { return true };
    before.type_url != after.type_url || kind.schema.changes_spec(&before.value, &after.value)
}
