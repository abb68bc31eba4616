//! The engine of the servers under test.

use std::path::Path;

/// Settings of the engine that `MORTISE_TEST_ENGINE` names, `etcd` or `sled`. Every data directory has a prefix of its
/// own in the etcd that all tests share.
pub fn settings(data_dir: &Path) -> Vec<(&'static str, String)> {
    match std::env::var("MORTISE_TEST_ENGINE").as_deref() {
        Ok("etcd") => {
            let endpoint =
                mortise_test_process::etcd::shared().unwrap().expect("etcd, as `.ci/go-tool etcd` builds it");
            let place = data_dir.display().to_string().replace('/', "-");
            vec![
                ("MORTISE_STORE_ENGINE", "etcd".to_owned()),
                ("MORTISE_STORE_ETCD_ENDPOINTS", endpoint.to_owned()),
                ("MORTISE_STORE_ETCD_PREFIX", format!("/{place}/")),
            ]
        }
        Ok("sled") | Err(_) => Vec::new(),
        Ok(other) => panic!("MORTISE_TEST_ENGINE is sled or etcd, got {other}"),
    }
}

/// Whether the servers under test share their content over etcd, where a test does not apply; says why.
pub fn is_left_out_over_etcd(why: &str) -> bool {
    let is_etcd = std::env::var("MORTISE_TEST_ENGINE").is_ok_and(|engine| engine == "etcd");
    if is_etcd {
        super::skipped(&format!("over etcd: {why}"));
    }
    is_etcd
}
