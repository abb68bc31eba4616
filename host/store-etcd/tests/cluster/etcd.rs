//! Places in etcd for tests.

use std::sync::atomic::{AtomicU64, Ordering};

use mortise_store_etcd::EtcdOptions;
use mortise_test_process::etcd::{Etcd, shared};

/// Starts an etcd of its own for a test; `None`, said loudly, without the program.
pub(crate) fn start() -> Option<Etcd> {
    let etcd = Etcd::start().unwrap();
    if etcd.is_none() {
        say_skipped();
    }
    etcd
}

/// Returns a prefix that no other test has.
pub(crate) fn prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("/test-{}/", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the options of a server with a prefix in the etcd that all tests share; `None`, said loudly, without etcd.
pub(crate) fn options(prefix: &str) -> Option<EtcdOptions> {
    let endpoint = shared().unwrap();
    if endpoint.is_none() {
        say_skipped();
    }
    Some(options_at(endpoint?, prefix))
}

/// Returns the options of a server with a prefix of the etcd at an address.
pub(crate) fn options_at(endpoint: &str, prefix: &str) -> EtcdOptions {
    EtcdOptions { endpoints: vec![endpoint.to_owned()], prefix: prefix.to_owned(), credentials: None, tls: None }
}

fn say_skipped() {
    use std::io::Write as _;
    // Not captured, as a passing test's output would be.
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: no etcd: a test of the store over etcd");
}
