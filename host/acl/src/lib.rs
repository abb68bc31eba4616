//! Identities of callers, and their permissions.
//!
//! # Contract
//! [`Access`] holds every stored token and policy. Its owner reports changes ([`Access::put_token`] and its siblings).
//! [`Access`] turns credentials into an [`Identity`]: that of a token, a client certificate, a local user, or the
//! anonymous caller. An identity's answers are as of now. After its token is deleted or expires, it fails
//! ([`Authorizer::check_valid`](mortise_resource::authorizer::Authorizer::check_valid)); after one of its policies
//! changes, its answers and its fingerprint change. [`Access::changes`] notifies holders of long-lived identities.
//!
//! A secret is hashed (SHA-256) and looked up by its hash; the hashes are compared in constant time. Secrets have 256
//! bits, so they need no salt and no slow hash.
//!
//! # Cost
//! Credentials: one hash and one look-up. A question about a name: a look-up in an ordered table. A question about a
//! type and a place: a walk over the identity's rules of that kind. Identities with the same policies share their
//! compiled rules; a change of a policy compiles only the rules that use it.
//!
//! # Limits
//! Those of [`Policy`] (bytes and rules) and [`MAX_POLICIES`]. Reading rules does not recurse.

mod access;
mod hcl;
mod identity;
mod policy;
mod policy_error;
mod rule_set;
mod secret;
mod type_rule;

pub use access::{Access, Options};
pub use identity::Identity;
pub use policy::{MAX_POLICIES, Policy};
pub use policy_error::PolicyError;
pub use secret::hash_secret;

/// Name of the policy that allows everything. It always exists and is not stored.
pub const GLOBAL_MANAGEMENT: &str = "global-management";
