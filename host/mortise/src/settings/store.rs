//! The settings of the store, and of the etcd cluster that may keep its content.

use std::path::PathBuf;

use mortise_plugin_host::units::Size;

use super::{
    declare::{Section, Setting, section},
    error::SettingError,
    range::Range,
};

const KIB: i64 = 1 << 10;
const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
const TIB: i64 = 1 << 40;

/// Keeper of the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Engine {
    /// The data directory of this server.
    Sled,
    /// An etcd cluster, shared with other servers.
    Etcd,
}

section! {
    /// The store.
    struct Store in "store" {
        /// Keeper of the content: "sled", the data directory of this server; or "etcd", which several servers share
        /// (docs/cluster.md). With etcd the data directory has a copy, which is filled again when it is missing.
        engine: Engine = Engine::Sled;
        /// Memory for the data file. 0: a sixteenth of the memory of the machine, 32 MiB to 1 GiB. Recent writes take
        /// extra memory until they are in the file: half as much, at most 16 MiB, and up to four times that if the disk
        /// is too slow for the load.
        cache_bytes: Size = Size(0), Range::bytes(64 * KIB, TIB).or_zero();
        /// Size of the largest resource. The server stores one resource of its own for each plugin.
        max_resource_bytes: Size = Size::from(mortise_store::Options::new("").max_resource_bytes), Range::bytes(4 << 10, GIB);
        /// Events kept on disk, so that watches can resume.
        history_events: u64 = mortise_store::Options::new("").history_events, Range::new(0, 100_000_000);
        /// Size of the events kept on disk.
        history_bytes: Size = Size(mortise_store::Options::new("").history_bytes), Range::bytes(0, TIB);
        /// Memory for events waiting for watches. When it is full, events of the type with the most are dropped, and
        /// watches still waiting for them are ended with Aborted; so are watches more than 4,096 events or 32 MiB
        /// behind. Lists and starting watches may buffer the same amount of overwritten versions; the one with the most
        /// is ended with Aborted.
        watch_bytes: Size = Size::from(mortise_store::Options::new("").watch_bytes), Range::bytes(KIB, TIB);
        /// Disk space taken in advance, with half as much again for the log. When the disk is full, writes are refused
        /// with ResourceExhausted; deletions use this space.
        reserve_bytes: Size = Size(mortise_store::Options::new("").reserve_bytes), Range::bytes(8 * MIB, GIB);
        /// Resources, owner entries and events compared with their checksums per second, in the background. 0: none. A
        /// mismatch ends readiness, and `mortise status` describes it.
        scrub_per_second: u64 = mortise_store::Options::new("").scrub_per_second, Range::new(0, 1_000_000);
        /// Makes every start compare all resources, owner entries and events with their checksums. Otherwise only a
        /// start after a crash or with a small store does. Takes about a second for each million.
        compare_at_start: bool = false;
    } with {
        etcd: Etcd,
    }
}

section! {
    /// The etcd cluster of `engine = "etcd"`, version 3.4.42, 3.5.28, 3.6.9 or newer.
    struct Etcd in "store.etcd" {
        /// Addresses of its servers, as `host:port`.
        endpoints: Vec<String> = vec!["127.0.0.1:2379".to_owned()];
        /// Beginning of every key. Servers with the same prefix share their content.
        prefix: String = "/mortise/".to_owned();
        /// User of etcd. Empty: none.
        username: String = String::new();
        /// File with the user's password.
        password_file: PathBuf = PathBuf::new();
        /// Certificates of the authorities that etcd's certificates come from, as PEM. Empty: no TLS, unless there is a
        /// client certificate; then the authorities of the system count.
        ca_file: PathBuf = PathBuf::new();
        /// Client certificate, as PEM, and its key. Empty: none.
        cert_file: PathBuf = PathBuf::new();
        /// Key of the client certificate, as PEM.
        key_file: PathBuf = PathBuf::new();
    }
}

impl Store {
    /// Checks the settings that need each other.
    pub(super) fn check(&self) -> Result<(), SettingError> {
        let Etcd { endpoints, prefix, username, password_file, cert_file, key_file, .. } = &self.etcd;
        let is_set = |file: &PathBuf| !file.as_os_str().is_empty();
        for (given, missing) in [
            (("store.etcd.username", !username.is_empty()), ("store.etcd.password_file", is_set(password_file))),
            (("store.etcd.password_file", is_set(password_file)), ("store.etcd.username", !username.is_empty())),
            (("store.etcd.cert_file", is_set(cert_file)), ("store.etcd.key_file", is_set(key_file))),
            (("store.etcd.key_file", is_set(key_file)), ("store.etcd.cert_file", is_set(cert_file))),
        ] {
            if given.1 && !missing.1 {
                return Err(SettingError::Alone { given: given.0, missing: missing.0 });
            }
        }
        if endpoints.is_empty() || endpoints.iter().any(|addr| !is_address(addr)) {
            return Err(SettingError::EtcdEndpoints { text: endpoints.join(", ") });
        }
        let is_printable = |c: char| c.is_ascii_graphic();
        if !prefix.starts_with('/') || !prefix.ends_with('/') || !prefix.chars().all(is_printable) {
            return Err(SettingError::EtcdPrefix { text: prefix.clone() });
        }
        let largest = mortise_store_etcd::MAX_RESOURCE_BYTES as u64;
        match self.engine {
            Engine::Etcd if self.max_resource_bytes.0 > largest => Err(SettingError::TooLargeForEtcd { largest }),
            _ => Ok(()),
        }
    }
}

/// Returns whether a text is a host and a port. An address of IPv6 has brackets.
fn is_address(text: &str) -> bool {
    let is_host = |host: &str| {
        !host.is_empty()
            && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '[' | ']' | ':'))
    };
    text.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0))
}
