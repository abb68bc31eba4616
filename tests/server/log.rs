//! Lines of the log that cannot be written: they are dropped and counted, and the server goes on.

use std::{fs::OpenOptions, process::Stdio};

use crate::support::{PATIENCE, Server, Setup, artist, eventually};
use tokio::{process::Command, time::timeout};

/// The value of a metric without labels.
async fn metric(server: &Server, name: &str) -> f64 {
    let (_, metrics) = server.get("/metrics").await;
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0.0, |value| value.parse().unwrap())
}

/// Writes and reloads work, lost lines are counted, no task has failed, and the end is clean.
async fn serves_without_a_log(log: impl Into<Stdio>) {
    let server = Setup::new().env("MORTISE_LOG_LEVEL", "info,h2=trace").log_to(log).start().await;
    let mut written = 0;
    while metric(&server, "mortise_log_lines_dropped_total").await == 0.0 {
        server.write(artist(&format!("artist-{written}"))).await.unwrap();
        written += 1;
    }
    let (new, moved) = (server.plugin_dir.join("prior.new"), server.plugin_dir.join("prior.wasm"));
    std::fs::copy(mortise_test_guests::component("prior"), &new).unwrap();
    std::fs::rename(new, moved).unwrap();
    let has_type = async || server.get("/v1/types").await.1.contains("prior.v1.Thing");
    eventually("the watch of the plugins' files works", has_type).await;
    assert_eq!(server.get("/readyz").await, (200, "ready\n".to_owned()));
    assert_eq!(metric(&server, "mortise_panics_total").await, 0.0);
    server.write(artist("last")).await.unwrap();
    assert_eq!(server.stop().await.code(), Some(0));
}

#[tokio::test]
async fn a_log_whose_reader_is_gone_is_dropped_and_counted() {
    let (_, log) = std::io::pipe().unwrap();
    serves_without_a_log(log).await;
}

#[tokio::test]
async fn a_log_on_a_full_disk_is_dropped_and_counted() {
    serves_without_a_log(OpenOptions::new().write(true).open("/dev/full").unwrap()).await;
}

#[tokio::test]
async fn a_log_that_is_not_read_is_dropped_and_counted() {
    let (_unread, log) = std::io::pipe().unwrap();
    serves_without_a_log(log).await;
}

/// A server without a reader of stdout serves: the line there is for scripts.
#[tokio::test]
async fn a_ready_line_without_a_reader_does_not_keep_the_server_from_serving() {
    let (reader, without_reader) = std::io::pipe().unwrap();
    drop(reader);
    for stdout in [Stdio::from(without_reader), OpenOptions::new().write(true).open("/dev/full").unwrap().into()] {
        let dir = tempfile::tempdir().unwrap();
        let (mut command, ..) = Setup::new().command(dir.path());
        let mut child = command.stdout(stdout).spawn().unwrap();
        let mut log = String::new();
        let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(child.stderr.take().unwrap()));
        while !log.contains("cannot be written to stdout") {
            let line = timeout(PATIENCE, lines.next_line()).await.expect("the line comes").unwrap();
            log.push_str(&line.unwrap_or_else(|| panic!("the server ended: {log}")));
        }
        let http = log.split("http=").nth(1).unwrap().split_whitespace().next().unwrap();
        tokio::net::TcpStream::connect(http.trim_end_matches(|c: char| !c.is_ascii_digit())).await.unwrap();
        let pid = child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
        assert_eq!(child.wait().await.unwrap().code(), Some(0), "{log}");
    }
}
