//! Permissions of a caller, as hooks and the host ask for them.

/// Answers permission questions about the caller of one request.
///
/// Permissions are named `<area>:<level>`, such as `key:read` or `operator:write`; levels of one area are ordered
/// deny < read < list < write.
pub trait Authorizer: Send + Sync {
    /// Whether the caller has `permission` on the thing called `name`; `name` is empty for areas without names.
    fn allowed(&self, permission: &str, name: &str) -> bool;

    /// The name of the caller in a refusal, such as `anonymous token`.
    fn caller(&self) -> &str;

    /// A digest of everything that the answers depend on: authorizers with equal fingerprints answer every question
    /// alike.
    fn fingerprint(&self) -> u64;
}

/// Allows everything: the authorizer while access control is off, and of the host itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

impl Authorizer for AllowAll {
    fn allowed(&self, _permission: &str, _name: &str) -> bool {
        true
    }

    fn caller(&self) -> &'static str {
        "anonymous token"
    }

    fn fingerprint(&self) -> u64 {
        0
    }
}

/// The text of a refusal, in Consul's words, which clients search for `Permission denied` and `lacks permission`.
#[must_use]
pub fn denial(caller: &str, permission: &str, name: &str) -> String {
    if name.is_empty() {
        format!("Permission denied: {caller} lacks permission '{permission}'")
    } else {
        format!("Permission denied: {caller} lacks permission '{permission}' on \"{name}\"")
    }
}
