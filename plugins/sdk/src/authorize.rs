//! Deciding what the caller of the current request may do.
//!
//! Rules answer from their arguments and from what [`allowed`] says of the caller, nothing else: the host remembers
//! decisions.

use mortise_resource::{pb, types::gvk};

/// A rule's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Go on.
    Allow,
    /// Refuse, with a reason for the caller. Empty: the host names the permission that was asked for last.
    Deny(String),
    /// Cannot tell from the id: ask again with the resource. Only for reads, and only when there was none.
    NeedResource,
}

/// Whether the caller has a permission, such as `key:read`, on something called `name`; `name` is empty for permissions
/// that have none, such as `operator:read`. Natively, [`crate::testing::as_caller`] says.
#[must_use]
pub fn allowed(permission: &str, name: &str) -> bool {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::allowed(permission, name);
    #[cfg(not(target_arch = "wasm32"))]
    return crate::testing::allowed(permission, name);
}

/// Allow if the caller has the permission, else deny and let the host name it.
#[must_use]
pub fn require(permission: &str, name: &str) -> Decision {
    if allowed(permission, name) { Decision::Allow } else { Decision::Deny(String::new()) }
}

/// Consul's rule for reading: `key:read` on `resource/<group.version.Kind>/<name>`.
#[must_use]
pub fn key_read(id: &pb::Id) -> Decision {
    require("key:read", &key(id))
}

/// Consul's rule for writing and deleting: `key:write` on `resource/<group.version.Kind>/<name>`.
#[must_use]
pub fn key_write(id: &pb::Id) -> Decision {
    require("key:write", &key(id))
}

/// Consul's rule for listing: `key:list` on `resource/<group.version.Kind>`.
#[must_use]
pub fn key_list(of: &pb::Type, _tenancy: &pb::Tenancy) -> Decision {
    require("key:list", &format!("resource/{}", gvk(of)))
}

fn key(id: &pb::Id) -> String {
    format!("resource/{}/{}", id.r#type.as_ref().map(gvk).unwrap_or_default(), id.name)
}
