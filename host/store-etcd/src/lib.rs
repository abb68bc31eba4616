//! The storage contract over an etcd cluster that several Mortise servers share.
//!
//! [`EtcdBackend`] keeps a whole copy of the content in a local store, fed by one watch of everything below the prefix;
//! reads, lists, indexes, watches, history and snapshots are those of the copy. Only two things ask etcd: a commit, which
//! is drafted on the copy and proposed as one transaction, and a consistent read, which first waits until the copy has
//! everything that etcd had at the call.
//!
//! - `client`: etcd's API, over generated code. The crate `etcd-client` would bring the same calls, but it needs
//!   `protoc` to build, hides whether an answer of a watch is complete, and restarts no stream either.
//! - `keys`, `record`: the form of resources in etcd. docs/storage-format.md describes it.
//! - `commit`: the way of batches into transactions; outcomes of lost answers.
//! - `follow`: the watch that feeds the copy, and its first filling.
//! - `barrier`: waits for everything that was acknowledged before.
//! - [`library`]: plans of plugins that every server follows, and their components.
//! - [`load`]: fills a prefix with the content of another engine.
//! - `placement`: work that one server does at a time, and the condition under which its commits are stored.
//! - `start`: the checks of a cluster, and of the copy beside it.
//!
//! # Contract
//! That of [`Backend`](mortise_store::Backend), for all servers together: versions are the same on every server, and a
//! position of one server is followed by any other.
//!
//! # Cost
//! A commit is one transaction, shared by the batches that wait (at most [`MAX_OPERATIONS`]), and the way back through
//! the watch. A consistent read is one read of etcd, shared by all that wait for it.
//!
//! # Limits
//! A batch of more than [`MAX_OPERATIONS`] changes and conditions is stored in parts; a resource takes at most
//! [`MAX_RESOURCE_BYTES`].

mod backend;
mod barrier;
mod client;
mod commit;
mod error;
mod follow;
mod keys;
pub mod library;
pub mod load;
mod options;
mod placement;
mod planted;
mod record;
mod start;

pub use backend::EtcdBackend;
pub use commit::MAX_OPERATIONS;
pub use error::EtcdError;
pub use options::{Credentials, EtcdOptions, Tls};
pub use record::StampFault;

/// Largest resource that fits into a request of etcd with its default limit of 1.5 MiB, bytes.
pub const MAX_RESOURCE_BYTES: usize = 1 << 20;
