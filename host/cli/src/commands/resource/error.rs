//! Failures of `mortise resource …`, in Consul's words.

use tonic::{Code, Status};

use super::verb::Family;
use crate::{CliError, Exit};

/// Reason why a command ended early.
pub(super) enum ConsulError {
    Help,
    /// Text for standard error.
    Wrong(String),
    /// The output is closed or full.
    Output(CliError),
}

impl From<String> for ConsulError {
    fn from(text: String) -> Self {
        Self::Wrong(text)
    }
}

/// Fault in the form of the arguments.
pub(super) fn format_fault(what: &str) -> ConsulError {
    ConsulError::Wrong(format!("Incorrect argument format: {what}"))
}

pub(super) const NOT_NEEDED: &str =
    "File argument is not needed when resource information is provided with the command";

/// Converts an error of this program.
pub(super) fn wording(error: CliError) -> ConsulError {
    if error.exit == Exit::Closed { ConsulError::Output(error) } else { ConsulError::Wrong(error.to_string()) }
}

/// Converts a server's refusal: over gRPC to the status, over HTTP to the response code that Consul would send.
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
