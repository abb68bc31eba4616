//! Errors of the start with a cluster.

use std::path::PathBuf;

use mortise_store::{StoreError, StoreId};

use crate::record::StampFault;

/// Reason why a server cannot start with a cluster.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// An address or a certificate cannot be used.
    #[error("store.etcd.{setting}: {fault}; correct it")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// Fault of its value.
        fault: String,
    },
    /// The cluster does not answer.
    #[error("etcd cannot be reached: {0}; check store.etcd.endpoints, and that etcd runs")]
    Unreachable(String),
    /// The cluster refuses the user.
    #[error("etcd refuses this client: {0}; check store.etcd.username, password_file and the client certificate")]
    Refused(String),
    /// The cluster loses or repeats data.
    #[error("etcd {version} at {endpoint} {fault}; use {needed} or newer")]
    Faulty {
        /// Address of the server.
        endpoint: String,
        /// Version of the server.
        version: String,
        /// Fault of this version, as a predicate.
        fault: &'static str,
        /// Oldest version of its line without the fault.
        needed: &'static str,
    },
    /// The server is another program that knows a part of etcd's API.
    #[error("{endpoint} is not etcd: {fault}; Mortise needs etcd itself (kine and other stand-ins lose events)")]
    NotEtcd {
        /// Address of the server.
        endpoint: String,
        /// Missing ability.
        fault: String,
    },
    /// The prefix holds content of another release or of another program.
    #[error("the key {key} in etcd is not as Mortise writes it: {source}; choose another store.etcd.prefix")]
    Stamp {
        /// The key.
        key: String,
        /// Fault of its value.
        source: StampFault,
    },
    /// A key of a resource holds something else.
    #[error("the key {key} in etcd holds no resource; remove it, or choose another store.etcd.prefix")]
    NoResource {
        /// The key.
        key: String,
    },
    /// The local copy is of another store.
    #[error(
        "{} is a copy of the store {found}, but etcd has the store {wanted}; check store.etcd.endpoints and prefix, or \
         remove the directory to fill it again", path.display()
    )]
    OtherStore {
        /// Directory of the copy.
        path: PathBuf,
        /// Store of the copy.
        found: StoreId,
        /// Store in etcd.
        wanted: StoreId,
    },
    /// The local copy has a fault.
    #[error(transparent)]
    Store(#[from] StoreError),
}
