//! Failures of `mortise resource …`, in Consul's words.

use tonic::{Code, Status};

use super::verb::Family;
use crate::{CliError, Exit};

/// Why a command ended early.
pub(super) enum ConsulError {
    Help,
    /// The text for standard error.
    Wrong(String),
    /// The output is closed, or full.
    Output(CliError),
}

impl From<String> for ConsulError {
    fn from(text: String) -> Self {
        Self::Wrong(text)
    }
}

/// What is at fault in the arguments themselves.
pub(super) fn format_fault(what: &str) -> ConsulError {
    ConsulError::Wrong(format!("Incorrect argument format: {what}"))
}

pub(super) const NOT_NEEDED: &str =
    "File argument is not needed when resource information is provided with the command";

/// An error of ours in one of these commands.
pub(super) fn wording(error: CliError) -> ConsulError {
    if error.exit == Exit::Closed { ConsulError::Output(error) } else { ConsulError::Wrong(error.to_string()) }
}

/// A server's refusal: over gRPC as the status, over HTTP as the response code that Consul answers then.
pub(super) fn refusal(doing: &str, name: &str, family: Family, status: &Status) -> ConsulError {
    let code = match status.code() {
        Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    };
    let rpc = format!("rpc error: code = {code} desc = {}", status.message());
    let http = match status.code() {
        Code::InvalidArgument => 400,
        Code::PermissionDenied => 403,
        Code::NotFound => 404,
        Code::Aborted => 409,
        _ => 500,
    };
    ConsulError::Wrong(match family {
        Family::Grpc => format!("{doing} {name}: {rpc}"),
        Family::Http => format!("{doing} {name}: Unexpected response code: {http} ({rpc})"),
    })
}
