//! The commands of `consul resource`, by verb and protocol.

/// Verb of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Apply,
    Read,
    List,
    Delete,
}

/// Protocol of a command in Consul, HTTP or gRPC; the output of the two differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Http,
    Grpc,
}
