//! Reasons why a peer's replicas are not current.

use std::{path::PathBuf, time::Duration};

use mortise_resource::Error;
use tonic::{Code, Status};

use crate::trust::StopReason;

/// Beginning of a refusal of a call for another store or another region.
const OTHER_ADDRESSEE: &str = "the call is for the ";

/// The reason for the end of a watch. The watch starts again after a wait.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    /// A file of the connection cannot be read.
    #[error("{what} {}: {source}", path.display())]
    File { what: &'static str, path: PathBuf, source: std::io::Error },
    /// The token file holds no token.
    #[error("token_file {} holds no token; put the secret of one of the peer's tokens into it", path.display())]
    Token { path: PathBuf },
    /// The settings of the connection are invalid.
    #[error("{address}: {}", root_cause(source))]
    Settings { address: String, source: tonic::transport::Error },
    /// The peer rejected a call, or the connection broke.
    #[error("{}", status_text(status))]
    Peer {
        #[source]
        status: Box<Status>,
    },
    /// The peer did not answer in time.
    #[error("the peer did not answer within {} s", within.as_secs())]
    NoAnswer { within: Duration },
    /// The peer ended the watch.
    #[error("the peer ended the watch")]
    Ended,
    /// Too many resources are deferred to list them, so a snapshot follows.
    #[error("too many resources are deferred to list them; a snapshot follows")]
    TooManyDeferred,
    /// A snapshot has more resources than can be remembered.
    #[error(
        "the snapshot has more than {limit} resources of the type, which is the limit; share fewer with this region"
    )]
    TooManyResources { limit: usize },
    /// Replicas were removed here together with their partition or namespace.
    #[error("a partition or namespace with replicas was emptied here; a snapshot follows")]
    ReplicasRemoved,
    /// The peer is stopped: its replicas stay as they are.
    #[error("{reason}")]
    Stopped { reason: StopReason },
    /// This server's own service failed.
    #[error("this server: {}", source.message)]
    Local { source: Error },
}

impl FollowError {
    /// Whether the peer does not know the type.
    pub(crate) fn is_unknown_type(&self) -> bool {
        matches!(self, Self::Peer { status } if status.code() == Code::InvalidArgument && status.message().ends_with("not registered"))
    }

    /// Whether the peer does not take a resume token that was sent.
    pub(crate) fn is_unknown_token(&self) -> bool {
        let Self::Peer { status } = self else { return false };
        matches!(status.code(), Code::InvalidArgument | Code::OutOfRange | Code::NotFound) && !self.is_unknown_type()
    }

    /// Whether the release of the peer does not have the call.
    pub(crate) fn is_unknown_call(&self) -> bool {
        matches!(self, Self::Peer { status } if status.code() == Code::Unimplemented)
    }

    /// Whether the peer is stopped.
    pub(crate) fn is_stop(&self) -> bool {
        matches!(self, Self::Stopped { .. })
    }

    /// Whether the peer's answer is about the requested ids, and not about the peer.
    pub(crate) fn is_about_ids(&self) -> bool {
        let Self::Peer { status } = self else { return false };
        match status.code() {
            Code::FailedPrecondition if status.message().starts_with(OTHER_ADDRESSEE) => false,
            Code::InvalidArgument | Code::PermissionDenied | Code::FailedPrecondition | Code::OutOfRange => true,
            // The limit of rates has the same code.
            Code::ResourceExhausted => status.message().contains("bytes together"),
            _ => false,
        }
    }
}

impl From<Status> for FollowError {
    fn from(status: Status) -> Self {
        Self::Peer { status: Box::new(status) }
    }
}

impl From<Error> for FollowError {
    fn from(source: Error) -> Self {
        Self::Local { source }
    }
}

fn status_text(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => format!("{}: {}", status.message(), root_cause(source)),
        None => format!("{}: {}", status.code().description(), status.message()),
    }
}

/// The text of the innermost cause, which is the most specific.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
