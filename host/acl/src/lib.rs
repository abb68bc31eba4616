//! Who a caller is, and what it may do.
//!
//! # Contract
//! [`Access`] knows every token and policy that is stored, as it is told of them ([`Access::put_token`] and its
//! siblings), and turns credentials into an [`Identity`]: a token's, a client certificate's, a local user's, or the
//! anonymous one. An identity answers as of now. When its token is deleted or expires it fails
//! ([`Authorizer::check_valid`](mortise_resource::authorizer::Authorizer::check_valid)), and when a policy of it changes
//! so do its answers and its fingerprint; [`Access::changes`] tells those who hold identities for long.
//!
//! A secret is hashed (SHA-256) and looked up by its hash; the hashes are compared in constant time. Secrets have 256
//! bits, so they need no salt and no slow hash.
//!
//! # Cost
//! Credentials: one hash and one look-up. A question about a name: a look-up in an ordered table. About a type and a
//! place: a walk over the identity's rules of that kind. The rules of identities with the same policies are compiled
//! once and shared; a change of a policy compiles anew the rules of those that have it, and of no other.
//!
//! # Limits
//! Those of [`Policy`] (bytes and rules) and of [`MAX_POLICIES`]. Reading rules does not recurse.

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

/// The policy that allows everything. It exists always, and is not stored.
pub const GLOBAL_MANAGEMENT: &str = "global-management";
