//! Access control: tokens, policies, and the caller itself.

pub(super) mod auth;
pub(super) mod login;
pub(super) mod policy;
mod secret;
mod stored;
pub(super) mod token;
