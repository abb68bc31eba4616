//! Permissions of a caller, as hooks and the host ask for them.

use crate::{Error, IdRef, pb};

/// Answers permission questions about a caller, as of now: what it may do can change while a stream is open.
///
/// Permissions are named `<area>:<level>`, such as `key:read` or `operator:write`; levels of one area are ordered
/// deny < read < list < write.
pub trait Authorizer: Send + Sync {
    /// Whether the caller has `permission` on the thing called `name`; `name` is empty for areas without names.
    fn is_allowed(&self, permission: &str, name: &str) -> bool;

    /// Whether every question is answered with yes, so that none need be asked.
    fn allows_all(&self) -> bool {
        false
    }

    /// Whether rules deny `permission` on `name` outright, instead of granting nothing.
    fn is_denied(&self, _permission: &str, _name: &str) -> bool {
        false
    }

    /// The decision of the caller's rules by type and place, which are those of `of`. `name` is `None` for the resources
    /// of a type in a place.
    fn effect(&self, _verb: Verb, _of: IdRef<'_>, _name: Option<&str>) -> Effect {
        Effect::Undecided
    }

    /// The name of the caller in a refusal, such as `anonymous token`.
    fn caller(&self) -> &str;

    /// The accessor id of the caller's token; empty for a caller without one.
    fn accessor(&self) -> &str {
        ""
    }

    /// A digest of everything that the answers depend on, the caller's name included: authorizers with equal
    /// fingerprints answer every question alike.
    fn fingerprint(&self) -> u64;

    /// Fails once the caller is none any more: its token was deleted, or has expired.
    ///
    /// # Errors
    /// `Unauthenticated`.
    fn check_valid(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Partition and namespace of requests that name none; empty units mean `default`.
    fn default_tenancy(&self) -> Option<&pb::Tenancy> {
        None
    }
}

/// What is done to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read, and each resource of List and WatchList.
    Read,
    /// List, WatchList, ListByOwner.
    List,
    /// Write, WriteStatus, MutateAndValidate.
    Write,
    /// Delete.
    Delete,
}

impl Verb {
    /// As rules and refusals have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::List => "list",
            Self::Write => "write",
            Self::Delete => "delete",
        }
    }
}

/// The decision of rules by type and place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Refused, whatever else holds.
    Deny,
    /// Allowed, unless the type's hook refuses by itself.
    Allow,
    /// No rule fits.
    Undecided,
}

/// Allows everything: the authorizer while access control is off, and of the host itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

impl Authorizer for AllowAll {
    fn is_allowed(&self, _permission: &str, _name: &str) -> bool {
        true
    }

    fn allows_all(&self) -> bool {
        true
    }

    fn caller(&self) -> &'static str {
        "anonymous token"
    }

    fn fingerprint(&self) -> u64 {
        0
    }
}

/// The text of a refusal, in Consul's words, which clients search for `Permission is_denied` and `lacks permission`.
#[must_use]
pub fn denial_text(caller: &str, permission: &str, name: &str) -> String {
    if name.is_empty() {
        format!("Permission denied: {caller} lacks permission '{permission}'")
    } else {
        format!("Permission denied: {caller} lacks permission '{permission}' on \"{name}\"")
    }
}
