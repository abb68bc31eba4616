//! The trait by which hooks and the host ask for a caller's permissions.

use std::any::Any;

use crate::{Error, IdRef, pb};

/// Answers permission questions about a caller. Each answer is as of now: permissions can change while a stream is
/// open.
///
/// Permissions are named `<area>:<level>`, such as `key:read` or `operator:write`; the levels of an area are ordered
/// deny < read < list < write.
pub trait Authorizer: Any + Send + Sync {
    /// Whether the caller has `permission` on `name`; `name` is empty for areas without names.
    fn is_allowed(&self, permission: &str, name: &str) -> bool;

    /// Whether every answer is yes, so that callers can skip the questions.
    fn allows_all(&self) -> bool {
        false
    }

    /// Whether a rule denies `permission` on `name`. False where rules merely do not grant it.
    fn is_denied(&self, _permission: &str, _name: &str) -> bool {
        false
    }

    /// The decision of the caller's rules by type and place for the resource id `_of`. `_name` is `None` for a question
    /// about all resources of a type in a place.
    fn effect(&self, _verb: Verb, _of: IdRef<'_>, _name: Option<&str>) -> Effect {
        Effect::Undecided
    }

    /// Whether rules surely allow a verb on every resource of the type of `_of`, in every place, if the host also
    /// requires `_permission` on one of these names. False if each resource has to be judged by itself.
    fn allows_every(&self, _verb: Verb, _of: IdRef<'_>, _permission: &str, _names: Names<'_>) -> bool {
        self.allows_all()
    }

    /// Whether the caller has a policy at all. A caller without any learns from no answer which types there are
    /// ([`no_permissions`]).
    fn has_permissions(&self) -> bool {
        true
    }

    /// The caller as refusals name it, such as `anonymous token`.
    fn caller(&self) -> &str;

    /// The accessor id of the caller's token; empty for a caller without one.
    fn accessor(&self) -> &str {
        ""
    }

    /// Whether the caller has proved who it is, by a token or otherwise.
    fn is_authenticated(&self) -> bool {
        !self.accessor().is_empty()
    }

    /// A digest of everything that the answers depend on, the caller's name included: authorizers with equal
    /// fingerprints give equal answers.
    fn fingerprint(&self) -> u64;

    /// Checks that the caller's token still exists and has not expired.
    ///
    /// # Errors
    /// `Unauthenticated`.
    fn check_valid(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Partition and namespace for requests that name none; empty units mean `default`.
    fn default_tenancy(&self) -> Option<&pb::Tenancy> {
        None
    }
}

/// Names of a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names<'n> {
    /// This name alone.
    One(&'n str),
    /// Every name that begins with this text.
    Below(&'n str),
}

/// The kind of access to a resource.
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
    /// Write of a token or a policy that grants what the caller does not have.
    Escalate,
}

impl Verb {
    /// The name in rules and refusals.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::List => "list",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::Escalate => "escalate",
        }
    }
}

/// The decision of rules by type and place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Refused; overrides every other answer.
    Deny,
    /// Allowed, unless the type's hook itself refuses.
    Allow,
    /// Undecided: no rule fits.
    Undecided,
}

/// Allows everything: for callers while access control is off, and for the host itself.
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

/// Returns the refusal of a caller without permissions: the same one for types that exist and for others.
#[must_use]
pub fn no_permissions(caller: &dyn Authorizer) -> Error {
    Error::denied(denial_text(caller.caller(), "operator:read", ""))
}

/// The text of a refusal, in Consul's words: clients search for `Permission denied` and `lacks permission`.
#[must_use]
pub fn denial_text(caller: &str, permission: &str, name: &str) -> String {
    if name.is_empty() {
        format!("Permission denied: {caller} lacks permission '{permission}'")
    } else {
        format!("Permission denied: {caller} lacks permission '{permission}' on \"{name}\"")
    }
}
