//! Identities of callers, and their permissions.
//!
//! # Contract
//! [`Access`] holds every stored token and policy. The service reports their changes ([`Access::put_token`] and its
//! siblings). [`Access`] turns credentials into an [`Identity`]: that of a token, a client certificate, a local user,
//! or the anonymous caller. An identity answers by the tokens and policies at the time of the question. After its token
//! is deleted or expires, it fails
//! ([`Authorizer::check_valid`](mortise_resource::authorizer::Authorizer::check_valid)); after one of its policies
//! changes, its answers and its fingerprint change. [`Access::changes`] notifies holders of long-lived identities.
//!
//! A token is a resource. Its name, the *accessor*, is public and stands in refusals and logs; its secret is stored
//! only as a hash (SHA-256). A secret is looked up by its hash; the hashes are compared in constant time. `mortise`
//! makes secrets of 256 random bits, which need no salt and no slow hash. The server cannot check that: a client that
//! stores the hash of a password stores a weak token.
//!
//! A policy has rules of two kinds: by area and name (`key "web" { policy = "read" }`), as in Consul, and by type and
//! place. Of rules for one question the closest decides (an exact name, else the longest prefix); of equally close
//! rules, deny wins. A policy with an unknown word cannot be written. One that is stored from an earlier release grants
//! nothing, and its denying rules hold; a caller for whom an unknown word may deny something has no permissions at all,
//! unless it has [`GLOBAL_MANAGEMENT`].
//!
//! A caller may write tokens and policies that grant what it holds itself ([`Access::check_token`],
//! [`Access::check_policy`]).
//!
//! # Cost
//! Credentials: one hash and one look-up. A question about a name: a look-up in an ordered table. A question about a
//! type and a place: a walk over the identity's rules of that kind. Identities with the same policies share their
//! compiled rules; a change of a policy compiles only the rules that use it. A change of a policy walks over all
//! identities. [`Access::signal_expirations`] walks over all tokens each second, and after each change.
//!
//! # Limits
//! A policy has at most 64 KiB of rules by area, 2,000 in number, and 256 rules by type; a caller has at most
//! [`MAX_POLICIES`]. Secrets of over 256 bytes count as unknown. Reading rules does not recurse.

mod access;
mod areas;
mod grant;
mod grant_checks;
mod hcl;
mod identity;
mod policy;
mod policy_error;
mod rule_set;
mod secret;
mod tables;
mod type_rule;

pub use access::{Access, Options};
pub use areas::Areas;
pub use grant::GrantError;
pub use identity::Identity;
pub use policy::{MAX_POLICIES, Policy, key_names};
pub use policy_error::{PolicyError, YamlRulesError};
pub use secret::hash_secret;

/// Name of the policy that allows everything. It always exists and is not stored.
pub const GLOBAL_MANAGEMENT: &str = "global-management";
