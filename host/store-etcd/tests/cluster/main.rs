//! The storage contract on a real etcd: the conformance suite, and several servers over one cluster.
//!
//! The program is that of `MORTISE_ETCD`, or what `.ci/go-tool etcd` built. Without it, the tests say SKIPPED and pass.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "these are tests; they panic to report"
)]

mod etcd;
mod faults;
mod plans;
mod servers;

use std::ops::Deref;

use mortise_store::{Options, conformance};
use mortise_store_etcd::EtcdBackend;

/// A server with a prefix of its own.
struct Fresh {
    backend: Option<EtcdBackend>,
    _dir: tempfile::TempDir,
}

impl Deref for Fresh {
    type Target = EtcdBackend;

    fn deref(&self) -> &EtcdBackend {
        self.backend.as_ref().unwrap()
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        self.backend = None;
    }
}

/// Returns the options of a copy with the bounds of the conformance suite.
fn copy_in(dir: &std::path::Path) -> Options {
    Options {
        watch_buffer: conformance::WATCH_BUFFER,
        max_resource_bytes: conformance::MAX_RESOURCE_BYTES,
        quotas: conformance::QUOTAS,
        ..Options::new(dir)
    }
}

/// Opens a server on an empty prefix; `None` without etcd.
fn fresh() -> Option<Fresh> {
    let options = etcd::options(&etcd::prefix())?;
    let dir = tempfile::tempdir().unwrap();
    let copy = copy_in(dir.path());
    let open = || tokio::runtime::Handle::current().block_on(EtcdBackend::open(&options, copy));
    let backend = tokio::task::block_in_place(open).unwrap();
    Some(Fresh { backend: Some(backend), _dir: dir })
}

/// The cases of the suite, on etcd.
mod suite {
    mortise_store::conformance_tests!(super::fresh, of a copy);
}
