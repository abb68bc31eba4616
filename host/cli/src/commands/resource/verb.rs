//! Which of Consul's commands one is.

/// What is done with resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Apply,
    Read,
    List,
    Delete,
}

/// The family of a command: in Consul one speaks HTTP and the other gRPC, which shows in what they print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Http,
    Grpc,
}
