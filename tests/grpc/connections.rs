//! The gRPC port with too many clients, and with clients that connect and stay silent.

use std::process::Command;

use super::frames::{self, Connection};
use crate::support::{Server, Setup, artist, eventually, skipped, until_closed, watch_artists};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};
use tonic::transport::Channel;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// First half of HTTP/2's opening text.
const HALF: &[u8] = b"PRI * HTTP/2";

/// A connection on which these bytes were sent.
async fn connected(server: &Server, says: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.grpc).await.unwrap();
    stream.write_all(says).await.unwrap();
    stream
}

/// A client on a connection of its own.
async fn client(server: &Server) -> crate::support::Client {
    mortise_api::ResourceServiceClient::new(server.channel().await)
}

/// Whether a new client is served.
async fn serves(server: &Server) -> bool {
    let Ok(channel) = Channel::from_shared(format!("http://{}", server.grpc)).unwrap().connect().await else {
        return false;
    };
    HealthClient::new(channel).check(HealthCheckRequest::default()).await.is_ok()
}

/// Waits until the server counts this many connections.
async fn open(server: &Server, connections: usize) {
    let line = format!("\nmortise_grpc_connections {connections}\n");
    eventually(&line, async || server.metrics().await.contains(&line)).await;
}

#[tokio::test]
async fn clients_that_do_not_begin_are_cut_off() {
    let server = Setup::new().env("MORTISE_HTTP_REQUEST_TIMEOUT_MS", 500).start().await;
    let mut silent = connected(&server, b"").await;
    let mut halfway = connected(&server, HALF).await;
    let _ = until_closed(&mut silent).await;
    let _ = until_closed(&mut halfway).await;
    // A connection with a full opening may stay silent for longer.
    open(&server, 1).await;
    server.write(artist("korn")).await.unwrap();
}

/// The server's own client counts, too. Connections with a call stay.
#[tokio::test]
async fn connections_are_bounded() {
    let server = Setup::new().env("MORTISE_GRPC_MAX_CONNECTIONS", 3).start().await;
    let watch = async |mut client: crate::support::Client| {
        let mut watch = client.watch_list(watch_artists()).await.unwrap().into_inner();
        watch.message().await.unwrap();
        (client, watch)
    };
    let own = watch(server.client.clone()).await;
    let held = [watch(client(&server).await).await, watch(client(&server).await).await];
    for _ in 0..2 {
        let mut refused = TcpStream::connect(server.grpc).await.unwrap();
        assert_eq!(until_closed(&mut refused).await.0, "", "closed without a word");
    }
    server.write(artist("korn")).await.unwrap();
    open(&server, 3).await;
    let metrics = server.metrics().await;
    assert!(metrics.contains("\nmortise_grpc_connections_refused_total 2\n"), "{metrics}");
    let said = || server.log().matches("(limit grpc.max_connections)").count();
    eventually("the fault is in the log", async || said() > 0).await;
    assert_eq!(said(), 1, "{}", server.log());
    assert!(!serves(&server).await);
    drop((own, held));
    eventually("there is room again", async || serves(&server).await).await;
}

/// C-core (Python, C++) and grpc-java send the path of the socket, percent-encoded or not; others `localhost`, or
/// nothing.
#[tokio::test]
async fn a_unix_socket_takes_every_authority_of_its_clients() {
    let server = Server::start().await;
    let path = server.data_dir.join("mortise.sock");
    let plain = path.display().to_string();
    let encoded = plain.replace('/', "%2F");
    let stream = tokio::net::UnixStream::connect(&path).await.unwrap();
    let mut connection = Connection::over(stream).await;
    let long = |text: &str| text[text.len().saturating_sub(120)..].to_owned();
    let abstract_name = "%00mortise".to_owned();
    for authority in
        ["localhost".to_owned(), String::new(), long(&plain), long(&encoded), encoded.to_lowercase(), abstract_name]
    {
        connection.authority = long(&authority);
        let call = connection.begin("/grpc.health.v1.Health/Check");
        connection.data(call, &frames::message(&HealthCheckRequest::default()), true);
        connection.flush().await;
        let answer = connection.until(|frame| frame.stream == call && frame.kind != frames::kind::HEADERS).await;
        assert_eq!(answer.kind, frames::kind::DATA, "{authority:?}: {answer:?}");
    }
}

#[tokio::test]
async fn connections_that_have_not_begun_do_not_delay_the_end() {
    let mut server = Setup::new().long_grace().start().await;
    let _held = [connected(&server, b"").await, connected(&server, HALF).await];
    open(&server, 3).await;
    server.signal("TERM");
    assert!(server.ended().await.success(), "{}", server.log());
    assert!(!server.log().contains("did not finish in time"), "{}", server.log());
}

/// Processor time of a process or a thread, in hundredths of a second.
fn used(process: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// Needs `prlimit` (util-linux); prints SKIPPED without it.
#[tokio::test]
async fn a_server_without_descriptors_waits_and_says_so() {
    let server = Server::start().await;
    let pid = server.pid();
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let highest: usize =
        descriptors.map(|fd| fd.unwrap().file_name().to_str().unwrap().parse().unwrap()).max().unwrap();
    let limit = highest + 9;
    let limited = Command::new("prlimit").arg(format!("--pid={pid}")).arg(format!("--nofile={limit}:{limit}")).status();
    let Ok(limited) = limited else {
        skipped("no prlimit on PATH (package util-linux)");
        return;
    };
    assert!(limited.success());
    let mut held = Vec::new();
    for _ in 0..=limit {
        held.push(connected(&server, b"").await);
    }
    let said = || server.log().matches("gRPC: cannot accept a connection: Too many open files").count();
    eventually("the fault is in the log", async || said() > 0).await;
    // The server does not retry in a tight loop, which would use about as much as this one.
    let used = || (used("thread-self"), used(&pid.to_string()));
    let before = used();
    let (own, of_server) = loop {
        let now = used();
        if now.0 >= before.0 + 40 {
            break (now.0 - before.0, now.1 - before.1);
        }
    };
    assert!(of_server * 3 < own, "the server used {of_server} hundredths of a second, and a tight loop {own}");
    assert_eq!(said(), 1, "{}", server.log());
    drop(held);
    eventually("it serves again", async || serves(&server).await).await;
}
