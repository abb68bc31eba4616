//! Failures of requests that do not decode or do not fit.

use mortise_query::in_memory::InMemoryError;
use prost::Message;

use crate::{Diagnostics, Failure};

pub(super) fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, Failure> {
    M::decode(bytes).map_err(|fault| Failure::new(Failure::INVALID, fault.to_string()))
}

pub(super) fn refused(error: &InMemoryError) -> Failure {
    let code = match error {
        InMemoryError::Query(_) => Failure::INVALID,
        InMemoryError::Condition => Failure::CONFLICT,
        InMemoryError::Undecodable(_) | InMemoryError::Encoding(_) => Failure::INTERNAL,
    };
    Failure::new(code, error.to_string())
}

/// Failure of a request that a hook refuses.
pub(super) fn refusal(said: &Diagnostics) -> Failure {
    Failure::new(Failure::INVALID, said.summaries())
}
