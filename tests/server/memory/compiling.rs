//! The memory of a server that has compiled its plugins.

use crate::support::{Server, Setup};

/// Memory of the server outside of files, bytes: the code of the compiler is in the program's file.
fn anonymous_bytes(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[tokio::test]
async fn a_server_that_has_compiled_keeps_little_more_than_one_that_found_the_code() {
    let cache = tempfile::tempdir().unwrap();
    let start = async || {
        let setup = Setup::new().guest("every-hook").guest("no-hook").guest("reconcile-noop");
        let server = setup.env("MORTISE_CACHE_DIR", cache.path().display()).start().await;
        let bytes = anonymous_bytes(&server);
        (server.stop().await.success(), bytes)
    };
    let ((_, compiled), (_, found)) = (start().await, start().await);
    let ratio = compiled as f64 / found as f64;
    println!("compiled {} KiB, found {} KiB, ratio {ratio:.2}", compiled >> 10, found >> 10);
    assert!(ratio < 1.6, "compiled {compiled}, found {found}");
}
