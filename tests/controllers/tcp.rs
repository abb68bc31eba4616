//! TCP connects of controllers: permitted targets, and limits.

use std::time::{Duration, Instant};

use crate::support::{Server, Setup, decoded, id, mortise, thing};
use mortise_resource::pb::{Condition, condition::State};
use mortise_test_guests::{Inner, Thing};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A server with a plugin that is granted these hosts.
fn setup(granted: &[&str]) -> Setup {
    Setup::new().guest("reconcile-tcp").config(format!("[plugin.reconcile-tcp.grants]\ntcp = {granted:?}\n"))
}

async fn server(granted: &[&str]) -> Server {
    setup(granted).start().await
}

fn asked(host: &str, port: u16, timeout_ms: u32) -> Thing {
    let inner = Some(Inner { text: timeout_ms.to_string() });
    Thing { text: host.into(), number: port.into(), inner, ..Thing::default() }
}

/// The condition after a connect.
async fn connected(server: &Server, name: &str, data: Thing) -> Condition {
    server.write(thing("reconcile_tcp", name, &data)).await.unwrap();
    condition(server, name).await
}

async fn condition(server: &Server, name: &str) -> Condition {
    let id = id("reconcile_tcp.v1.Thing", name);
    crate::support::controllers::condition_until(server, &id, "reconcile-tcp/things", "Connected", |_| true).await
}

fn says(condition: &Condition, reason: &str, message: &str) {
    assert_eq!((&*condition.reason, condition.message.contains(message)), (reason, true), "{message}: {condition:?}");
}

/// Starts a listener that accepts; returns its port too.
async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A port with a full queue, so that a connect waits; the other values fill the queue and must live as long.
async fn deaf() -> (TcpListener, Vec<TcpStream>, u16) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let addr = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(addr)).await {
        waiting.push(stream);
        assert!(waiting.len() < 64, "its queue has no end");
    }
    (listener, waiting, addr.port())
}

#[tokio::test]
async fn a_granted_port_is_connected_to_and_no_bytes_are_sent() {
    let (listener, port) = listener().await;
    let server = server(&[&format!("127.0.0.1:{port}"), &format!("localhost:{port}")]).await;
    for (name, host) in [("address", "127.0.0.1"), ("name", "LocalHost")] {
        let found = connected(&server, name, asked(host, port, 1_500)).await;
        assert_eq!(found.state(), State::True, "{found:?}");
        let took = found.message.parse::<u64>().unwrap();
        assert!((1..1_500_000).contains(&took), "{took} microseconds");
        let (stream, _) = listener.accept().await.unwrap();
        stream.readable().await.unwrap();
        assert_eq!(stream.try_read(&mut [0; 1]).unwrap(), 0, "it closes, and sends nothing");
    }
    let metrics = server.metrics().await;
    let line = "mortise_plugin_tcp_connects_total{plugin=\"reconcile-tcp\",outcome=\"connected\"} 2";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn connects_without_a_grant_are_denied_with_the_entry_to_add() {
    let ((_listener, port), (_other_listener, other)) = (listener().await, listener().await);
    let server = server(&[&format!("127.0.0.1:{port}"), "*.example.net:5432"]).await;
    for (name, host, at, entry) in [
        ("port", "127.0.0.1", other, format!("127.0.0.1:{other}")),
        ("host", "localhost", port, format!("localhost:{port}")),
        ("six", "::1", port, format!("[::1]:{port}")),
        ("mapped", "::ffff:127.0.0.1", port, format!("[::ffff:127.0.0.1]:{port}")),
        ("above", "example.net", 5432, "example.net:5432".to_owned()),
    ] {
        let denied = connected(&server, name, asked(host, at, 500)).await;
        let remedy = format!("plugin.reconcile-tcp.grants.tcp = [\"{entry}\"] in config.toml");
        says(&denied, "Code7", &remedy);
    }
    for (name, host) in [("dot", "127.0.0.1."), ("number", "2130706433"), ("user", "me@127.0.0.1"), ("star", "*")] {
        says(&connected(&server, name, asked(host, port, 500)).await, "Code3", "neither a DNS name nor an address");
    }
    says(&connected(&server, "zero", asked("127.0.0.1", 0, 500)).await, "Code3", "1 to 65535");
    says(&connected(&server, "hasty", asked("127.0.0.1", port, 0)).await, "Code3", "at least 1 ms");
    let metrics = server.metrics().await;
    let line = "mortise_plugin_tcp_connects_total{plugin=\"reconcile-tcp\",outcome=\"denied\"} 11";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn a_star_is_everything() {
    let (_listener, port) = listener().await;
    let server = server(&["*"]).await;
    let found = connected(&server, "one", asked("localhost", port, 1_500)).await;
    assert_eq!(found.state(), State::True, "{found:?}");
}

#[tokio::test]
async fn refused_and_unresolved_hosts_are_unavailable() {
    let (refusing, port) = listener().await;
    drop(refusing);
    let server = server(&["*"]).await;
    says(&connected(&server, "refused", asked("127.0.0.1", port, 1_500)).await, "Code14", &format!("127.0.0.1:{port}"));
    let unknown = connected(&server, "unknown", asked("nothing.invalid", 80, 1_900)).await;
    // Without a resolver in reach, the timeout ends it.
    assert!(["Code14", "Code4"].contains(&&*unknown.reason) && unknown.message.contains("resolve"), "{unknown:?}");
}

/// The guest's own timeout ends a connect; a longer one is ended by the limit of a host call.
#[tokio::test]
async fn silent_hosts_time_out() {
    let (_listener, _waiting, port) = deaf().await;
    let server = setup(&["*"]).env("MORTISE_CONTROLLERS_HOST_CALL_MS", 1_000).start().await;
    for (name, timeout, least, words) in [
        ("soon", 200, Duration::from_millis(200), "in time (timeout 200 ms"),
        ("never", 60_000, Duration::from_millis(1_000), "(limit controllers.host_call_ms)"),
    ] {
        let begun = Instant::now();
        says(&connected(&server, name, asked("127.0.0.1", port, timeout)).await, "Code4", words);
        assert!(begun.elapsed() >= least, "{name}: {:?}", begun.elapsed());
    }
}

/// Connects over the limit of 32 concurrent ones wait: none is lost, and each has its whole timeout.
#[tokio::test]
async fn connects_wait_for_each_other() {
    let (_listener, _waiting, port) = deaf().await;
    let server = server(&["*"]).await;
    let begun = Instant::now();
    let names: Vec<_> = (0..97).map(|n| format!("t{n}")).collect();
    for name in &names {
        server.write(thing("reconcile_tcp", name, &asked("127.0.0.1", port, 300))).await.unwrap();
    }
    for name in &names {
        says(&condition(&server, name).await, "Code4", "(timeout 300 ms)");
    }
    assert!(begun.elapsed() >= Duration::from_millis(4 * 300), "97 need four rounds: {:?}", begun.elapsed());
}

/// A hook has no host access, not even with a grant.
#[tokio::test]
async fn hooks_are_refused() {
    let (_listener, port) = listener().await;
    let server = server(&["*"]).await;
    let written = server.write(thing("reconcile_tcp", "in-hook", &asked("127.0.0.1", port, 500))).await.unwrap();
    let text = decoded::<Thing>(&written).text;
    assert!(text.starts_with("9 only a reconciler may call tcp.connect"), "{text}");
}

#[tokio::test]
async fn an_invalid_host_and_port_is_a_fault_of_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    std::fs::write(&config, "[plugin.x.grants]\ntcp = [\"db.internal\"]\n").unwrap();
    let (code, _, said) = mortise(&["serve", "--config", config.to_str().unwrap()], &[]).await;
    assert_ne!(code, Some(0), "{said}");
    assert!(said.contains("is not a host for grants.tcp: a port is required"), "{said}");
}

#[tokio::test]
async fn inspection_shows_requested_and_granted_hosts() {
    let server = server(&["127.0.0.1:22"]).await;
    let addr = server.grpc.to_string();
    let (code, out, err) = mortise(&["plugin", "inspect", "reconcile-tcp", "--grpc-addr", &addr], &[]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("tcp * (") && out.contains("tcp 127.0.0.1:22"), "{out}");
}
