//! The authority for identities of workloads: issues short-lived certificates from the files of `[identity]`.
//!
//! | file | does |
//! |---|---|
//! | `name` | checks that an identity is in the trust domain |
//! | `issuer` | reads certificate and key, and issues certificates |
//! | `current` | holds the active files, and reads them again when they change |
//!
//! # Contract
//! A certificate has one alternative name, the identity, and is for both sides of TLS. Each is verified against the
//! issuer before it is handed out, so that name constraints of the issuer hold here, too. Its serial number is random.
//! The caller's right is checked by the service ([`mortise_service::Certification`]).
//!
//! # Cost and limits
//! A request is bounded in bytes ([`mortise_keys::certificate::MAX_REQUEST_BYTES`]). At most four requests are
//! verified and signed at the same time, on threads that may block; others wait.

mod current;
mod error;
mod issuer;
mod name;
mod options;

pub(crate) use self::current::{Authority, Certified};
pub use self::{current::AuthorityFiles, error::AuthorityError, options::IdentityOptions};
