//! Authorisation of the current request's caller.
//!
//! The answer of a rule must depend on its arguments and on [`allowed`] alone, since the host caches decisions.

use mortise_resource::{pb, types::gvk};

/// Answer of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The caller may proceed.
    Allow,
    /// The caller may not, for this reason. If it is empty, the host names the permission that was asked for last.
    Deny(String),
    /// The id alone does not suffice: ask again with the resource. Only for reads, and only without the resource.
    NeedResource,
}

/// Whether the caller has a permission, such as `key:read`, on `name`, which is empty for permissions without a name,
/// such as `operator:read`. In native tests [`crate::testing::as_caller`] decides.
#[must_use]
pub fn allowed(permission: &str, name: &str) -> bool {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::allowed(permission, name);
    #[cfg(not(target_arch = "wasm32"))]
    return crate::testing::allowed(permission, name);
}

/// Allows the call if the caller has the permission, else denies it and lets the host name the permission.
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
