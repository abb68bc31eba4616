//! Why a peer's copies are not current.

use std::{path::PathBuf, time::Duration};

use mortise_resource::Error;
use tonic::{Code, Status};

/// What ends a watch; it begins again after a while.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    /// A file of the connection cannot be read.
    #[error("{what} {}: {source}", path.display())]
    File { what: &'static str, path: PathBuf, source: std::io::Error },
    /// The token's file holds no token.
    #[error("token_file {} holds no token; put the secret of a token of the peer's into it", path.display())]
    Token { path: PathBuf },
    /// The settings of the connection mean nothing.
    #[error("{address}: {}", root_cause(source))]
    Settings { address: String, source: tonic::transport::Error },
    /// The peer refuses, or the connection broke.
    #[error("{}", status_text(status))]
    Peer { status: Box<Status> },
    /// The peer does not answer.
    #[error("no answer within {} s", within.as_secs())]
    NoAnswer { within: Duration },
    /// The peer ended the watch.
    #[error("the watch was ended")]
    Ended,
    /// More is held back than can be named, so everything is asked for again.
    #[error("more than can be named is held back; a snapshot follows")]
    TooManyDeferred,
    /// More resources are in a snapshot than are remembered.
    #[error(
        "the snapshot has more than {limit} resources of the type, which are too many for one; give fewer to this region"
    )]
    TooManyResources { limit: usize },
    /// Copies were removed here with a unit that was deleted.
    #[error("a unit with copies was emptied here; a snapshot follows")]
    ReplicasRemoved,
    /// This server's own service failed.
    #[error("here: {}", source.message)]
    Local { source: Error },
}

impl FollowError {
    /// Whether the peer does not know the type.
    pub(crate) fn is_unknown_type(&self) -> bool {
        matches!(self, Self::Peer { status } if status.code() == Code::InvalidArgument && status.message().ends_with("not registered"))
    }

    /// Whether the peer's answer is about the ids that it was asked for, and not about the peer.
    pub(crate) fn is_about_ids(&self) -> bool {
        let Self::Peer { status } = self else { return false };
        match status.code() {
            Code::InvalidArgument | Code::PermissionDenied | Code::FailedPrecondition | Code::OutOfRange => true,
            // Its limit of rates has the same code.
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

/// The text of the last cause, which says most.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
