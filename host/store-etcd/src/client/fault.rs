//! Faults of calls.

use tonic::{Code, Status};

/// A call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{}", text(.0))]
pub(crate) struct Fault(Status);

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        Self(status)
    }
}

impl Fault {
    pub(super) fn unknown_server() -> Self {
        Self(Status::internal("no such server"))
    }

    pub(crate) fn interrupted_upload() -> Self {
        Self(Status::deadline_exceeded("the upload of the component took too long"))
    }

    pub(super) fn bad_token() -> Self {
        Self(Status::internal("etcd's token has characters that no header may have"))
    }

    /// Returns whether another server may answer.
    pub(crate) fn is_of_connection(&self) -> bool {
        matches!(self.0.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown)
    }

    /// Returns whether etcd knows this call, and refused it without any effect.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self.0.code(),
            Code::InvalidArgument
                | Code::PermissionDenied
                | Code::Unauthenticated
                | Code::Unimplemented
                | Code::FailedPrecondition
                | Code::OutOfRange
                | Code::ResourceExhausted
        )
    }

    /// Returns whether the store of the cluster is over its quota.
    pub(crate) fn is_full(&self) -> bool {
        self.0.code() == Code::ResourceExhausted && self.0.message().contains("space")
    }

    /// Returns whether etcd does not let this client in.
    pub(crate) fn is_of_user(&self) -> bool {
        matches!(self.0.code(), Code::PermissionDenied | Code::Unauthenticated)
            || self.0.message().contains("authentication failed")
            || self.0.message().contains("user name is empty")
    }

    /// Returns whether the answer is larger than this client takes.
    pub(crate) fn is_too_large(&self) -> bool {
        self.0.code() == Code::OutOfRange && self.0.message().contains("too large")
    }

    /// Returns whether etcd is too old for the call.
    pub(crate) fn is_unknown_call(&self) -> bool {
        self.0.code() == Code::Unimplemented
    }

    /// Returns whether the revision that was asked for is compacted.
    pub(crate) fn is_compacted(&self) -> bool {
        self.0.code() == Code::OutOfRange && self.0.message().contains("compacted")
    }
}

/// Returns whether etcd has forgotten the token of this client, for example by its restart.
pub(super) fn is_token_gone(status: &Status) -> bool {
    status.message().contains("invalid auth token") || status.message().contains("revision of auth store is old")
}

/// Returns the text of a status with the reason behind it.
fn text(status: &Status) -> String {
    let mut text = match status.message() {
        "" => format!("{:?}", status.code()),
        message => message.to_owned(),
    };
    let mut source = std::error::Error::source(status);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
