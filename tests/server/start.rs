//! A start that takes long: clients are refused at once, and a signal ends it.

use std::{io::ErrorKind, net::SocketAddr};

use crate::support::{PATIENCE, Server, Setup, is_left_out_over_etcd};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::{TcpStream, UdpSocket, UnixStream},
    process::Child,
    time::timeout,
};

/// An address on loopback that was free a moment ago.
fn free_addr() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Ends a starting server with SIGTERM; it must report nothing but its end.
async fn ends_at_a_signal(child: Child) {
    let pid = child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let output = timeout(PATIENCE, child.wait_with_output()).await.expect("it ends in time").unwrap();
    let (out, log) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert_eq!(out, "", "{log}");
    let after = log.split("SIGTERM: stopping").nth(1).unwrap_or_else(|| panic!("{log}"));
    assert!(!after.contains("ready") && after.trim_end().ends_with("stopped"), "{log}");
}

/// The opening of this store waits for a pipe that it takes for a file.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_opens_its_store_refuses_clients_and_ends_at_a_signal() {
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    assert!(Setup::new().data_dir(data.path()).start().await.stop().await.success());
    let format = data.path().join("store/store/format");
    std::fs::remove_file(&format).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&format).status().unwrap().success());

    let (dir, [grpc, http, dns]) = (tempfile::tempdir().unwrap(), [(); 3].map(|()| free_addr()));
    let setup = Setup::new().data_dir(data.path()).env("MORTISE_DNS_ADDR", dns);
    let (mut command, ..) = setup.addrs(grpc, http).command(dir.path());
    let child = command.spawn().unwrap();
    // Opens once the server reads from the other end.
    let reached = tokio::task::spawn_blocking(move || std::fs::OpenOptions::new().write(true).open(format).unwrap());
    let _blocks = timeout(PATIENCE, reached).await.expect("the start gets there").unwrap();
    for addr in [grpc, http, dns] {
        let refused = timeout(PATIENCE, TcpStream::connect(addr)).await.expect("an answer").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{addr}");
    }
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    udp.connect(dns).await.unwrap();
    udp.send(b"?").await.unwrap();
    let refused = timeout(PATIENCE, udp.recv(&mut [0; 9])).await.expect("an answer").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert!(UnixStream::connect(data.path().join("mortise.sock")).await.is_err());
    ends_at_a_signal(child).await;
}

/// The store is closed by such an end: the next start finds nothing to repair.
#[tokio::test]
async fn a_server_that_loads_its_plugins_ends_at_a_signal_and_closes_its_store() {
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let setup = Setup::new().data_dir(data.path()).guest("describe-loop");
    let (mut command, ..) = setup.env("MORTISE_SANDBOX_DESCRIBE_DEADLINE_MS", 600_000).command(dir.path());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    while !timeout(PATIENCE, lines.next_line()).await.expect("a line").unwrap().unwrap().contains("store open") {}
    drop(lines);
    ends_at_a_signal(child).await;
    assert!(data.path().join("store/store/closed-at").exists());
}

#[tokio::test]
async fn a_taken_address_is_found_at_once() {
    let server = Server::start().await;
    let (free, taken) = (SocketAddr::from(([127, 0, 0, 1], 0)), [server.grpc, server.http]);
    for (addr, addrs) in [(taken[0], (taken[0], free)), (taken[1], (free, taken[1]))] {
        let dir = tempfile::tempdir().unwrap();
        let (mut command, data, _) = Setup::new().addrs(addrs.0, addrs.1).command(dir.path());
        let output = timeout(PATIENCE, command.output()).await.expect("it ends").unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{log}");
        assert!(log.contains(&format!("cannot listen on {addr}")), "{log}");
        assert!(!data.join("store").exists(), "nothing was begun");
    }
}
