//! Rights of tokens: their changes, and the calls and watches that use them.

use serde::{Deserialize, Serialize};

use super::state::State;

/// A change of the rights of a token, by one writer for each token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RightsChange {
    /// Name of the token.
    pub token: String,
    /// Time before the request.
    pub begun: u64,
    /// Time after the answer; [`NEVER`](super::NEVER) without one.
    pub ended: u64,
    /// Right to call once the change has happened.
    pub allows: bool,
}

/// A call with a token, answered by a success or by a refusal for want of rights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUse {
    /// Name of the token.
    pub token: String,
    /// Time before the request.
    pub begun: u64,
    /// Time after the answer.
    pub ended: u64,
    /// Whether the call was allowed.
    pub is_allowed: bool,
}

/// A watch with a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenWatch {
    /// Name of the token.
    pub token: String,
    /// Time after the snapshot was complete.
    pub opened: u64,
    /// States that came after the snapshot, in order.
    pub states: Vec<State>,
    /// Time after the server ended it; [`NEVER`](super::NEVER) if it was open at the end of the history.
    pub ended: u64,
}
