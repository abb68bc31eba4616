//! Crowds of strangers that hold what they can: an honest client is served beside them, of another address and, where
//! the crowd reads nothing, of the same one. Time limits are far away, so only their giving way lets it in.

use std::time::{Duration, Instant};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};

use http_body_util::BodyExt as _;
use mortise_api::{ResourceServiceClient, WatchServiceClient};
use mortise_resource::{
    data::WatchResourceRequest,
    goten::View,
    pb::{self, watch_event::Event},
};
use tonic::transport::Channel;

use super::{Connection, MIB, growth, heavy, lean};
use crate::support::{PATIENCE, Server, Setup, Watch, artist, gvk, id, list_artists, noted, until, watch_artists};

const CROWD: [u8; 4] = [127, 0, 0, 66];

const OTHER: [u8; 4] = [127, 0, 0, 7];

/// Begins answers on connections of the crowd's address, and reads nothing of them.
async fn unread(server: &Server, method: &'static str, connections: usize, each: usize) -> JoinSet<()> {
    let mut crowd = JoinSet::new();
    for _ in 0..connections {
        let connection = Connection::from_address(CROWD, server, 65_535).await;
        for _ in 0..each {
            let connection = Connection { sender: connection.sender.clone(), addr: connection.addr };
            crowd.spawn(async move {
                let _unread = match method {
                    "List" => connection.ask(method, &list_artists()).await,
                    _ => connection.ask(method, &watch_artists()).await,
                };
                std::future::pending().await
            });
        }
    }
    crowd
}

/// Answers that ended for others so far.
async fn replaced(server: &Server) -> u64 {
    let metrics = server.get("/metrics").await.1;
    let line = metrics.lines().find_map(|line| line.strip_prefix("mortise_unread_answers_replaced_total "));
    line.map_or(0, |count| count.parse().unwrap())
}

async fn channel(server: &Server, address: [u8; 4]) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{}", server.grpc)).unwrap();
    endpoint.local_address(Some(address.into())).connect().await.unwrap()
}

async fn client(server: &Server, address: [u8; 4]) -> ResourceServiceClient<Channel> {
    ResourceServiceClient::new(channel(server, address).await).max_decoding_message_size(usize::MAX)
}

/// An honest client of an address: a watch up to the end of its snapshot, and a list.
async fn honest(server: &Server, address: [u8; 4]) {
    let mut client = client(server, address).await;
    let events = client.watch_list(watch_artists()).await.unwrap().into_inner();
    assert_eq!(Watch(events).snapshot().await.len(), 10);
    assert_eq!(client.list(list_artists()).await.unwrap().into_inner().resources.len(), 10);
}

async fn start(list_bytes: usize, snapshots: usize) -> Server {
    let server = lean()
        .env("MORTISE_HTTP_STALL_TIMEOUT_MS", 600_000)
        .env("MORTISE_SERVICE_CONCURRENT_WATCH_SNAPSHOTS", snapshots)
        .env("MORTISE_SERVICE_LIST_BYTES", list_bytes)
        .start()
        .await;
    for n in 0..10 {
        server.write(heavy(&format!("a{n}"), 200_000)).await.unwrap();
    }
    server
}

#[tokio::test]
async fn beginnings_that_are_not_read_give_way() {
    for method in ["WatchList", "List"] {
        let server = start(8 * MIB, 4).await;
        let _crowd = unread(&server, method, 4, 12).await;
        until("an answer gives way", async || {
            timeout(PATIENCE, honest(&server, OTHER)).await.expect("another address is served");
            timeout(PATIENCE, honest(&server, CROWD)).await.expect("another connection of the crowd's address, too");
            match replaced(&server).await {
                0 => Err("none has yet"),
                _ => Ok(()),
            }
        })
        .await;
    }
}

/// Connections on which nothing was sent, and heads that never end.
async fn slow_heads(server: &Server, count: usize) -> Vec<TcpStream> {
    let mut slow = Vec::new();
    for n in 0..count {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((CROWD, 0).into()).unwrap();
        let mut stream = socket.connect(server.http).await.unwrap();
        if n % 2 == 0 {
            stream.write_all(b"GET /v1/types HTTP/1.1\r\nhost: ").await.unwrap();
        }
        slow.push(stream);
    }
    slow
}

#[tokio::test]
async fn slow_heads_do_not_close_the_http_port() {
    let server = Setup::new()
        .env("MORTISE_HTTP_MAX_CONNECTIONS", 8)
        .env("MORTISE_HTTP_REQUEST_TIMEOUT_MS", 600_000)
        .start()
        .await;
    let slow = slow_heads(&server, 40).await;
    for _ in 0..20 {
        let answer = server.fetch("/v1/types").await;
        assert_eq!(answer.code(), 200, "{answer:?}");
    }
    drop(slow);
}

/// An address of a crowd of several.
fn address(n: u8) -> [u8; 4] {
    [127, 0, 66, n + 1]
}

/// A request whose body never ends.
async fn endless_request(server: &Server, from: [u8; 4]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let mut stream = socket.connect(server.http).await.unwrap();
    let head = "PUT /api/demo/v2/artist/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Connections with a call each, from several addresses: watches, and requests whose bodies never end.
async fn busy(server: &Server, addresses: u8, each: usize) -> (Vec<Connection>, Vec<TcpStream>) {
    let (mut watching, mut sending) = (Vec::new(), Vec::new());
    for n in 0..addresses {
        for _ in 0..each {
            let connection = Connection::from_address(address(n), server, 65_535).await;
            let mut answer = connection.ask("WatchList", &watch_artists()).await.into_body();
            tokio::spawn(async move { while answer.frame().await.is_some_and(|frame| frame.is_ok()) {} });
            watching.push(connection);
            sending.push(endless_request(server, address(n)).await);
        }
    }
    (watching, sending)
}

/// Watches of several addresses, none of which has too many, read or unread, leave places to another address.
#[tokio::test]
async fn watches_of_several_addresses_make_room() {
    let server = Setup::new().env("MORTISE_SERVICE_MAX_WATCHES", 12).start().await;
    server.write(artist("a")).await.unwrap();
    let open = async |address| -> Result<Watch, tonic::Status> {
        let mut watch = Watch(client(&server, address).await.watch_list(watch_artists()).await?.into_inner());
        while !matches!(watch.next().await?, Event::EndOfSnapshot(_)) {}
        Ok(watch)
    };
    let mut crowd = Vec::new();
    for n in 0..12 {
        crowd.push(open([127, 0, 0, 61 + n % 3]).await.unwrap());
    }
    let mut honest = Vec::new();
    for _ in 0..3 {
        honest.push(open(OTHER).await.unwrap_or_else(|status| panic!("another address is served: {status}")));
    }
    // Nearly as many as each of the crowd: from here on it would take turns with them.
    let refused = open(OTHER).await.err().unwrap();
    assert_eq!(refused.message(), "12 watches are open already (limit service.max_watches)");
    assert_eq!(server.metric("mortise_watches_replaced_total").await, Some(3.0));
    // The newest watch of each address of the crowd has ended; all others go on.
    server.write(artist("b")).await.unwrap();
    for (n, watch) in crowd.iter_mut().enumerate() {
        match watch.next().await {
            Ok(_) => assert!(n < 9, "watch {n} goes on"),
            Err(status) => assert!(n >= 9 && status.code() == tonic::Code::Aborted, "watch {n}: {status}"),
        }
    }
    for watch in &mut honest {
        watch.upsert().await;
    }
}

/// Connections of both ports that made room with their calls.
async fn busy_replaced(server: &Server) -> [f64; 2] {
    let mut replaced = [0.0; 2];
    for (replaced, place) in replaced.iter_mut().zip(["grpc", "http"]) {
        let series = format!("mortise_busy_replaced_total{{place=\"{place}\"}}");
        *replaced = server.metric(&series).await.unwrap_or_default();
    }
    replaced
}

/// A crowd of several addresses, none of which has too many connections, fills both ports with calls.
#[tokio::test]
async fn busy_connections_of_several_addresses_make_room() {
    let server = Setup::new()
        .env("MORTISE_GRPC_MAX_CONNECTIONS", 13)
        .env("MORTISE_HTTP_MAX_CONNECTIONS", 12)
        .env("MORTISE_HTTP_REQUEST_TIMEOUT_MS", 600_000)
        .start()
        .await;
    // The server's own client has a connection, too.
    let (_watching, mut sending) = busy(&server, 3, 4).await;
    for n in 0..4 {
        let list = client(&server, [127, 0, 0, 7 + n]).await.list(list_artists()).await;
        list.expect("another address is served");
    }
    // The server may look at a head after it has accepted the next connection.
    until("both ports made room", async || {
        assert_eq!(server.fetch("/v1/types").await.code(), 200);
        sending.push(endless_request(&server, address(0)).await);
        match busy_replaced(&server).await {
            [grpc, http] if grpc >= 1.0 && http >= 1.0 => Ok(()),
            replaced => Err(format!("{replaced:?}")),
        }
    })
    .await;
}

/// The figures of docs/security.md: `cargo test -p mortise --test wire -- --ignored --nocapture beside_crowds`. Needs
/// 10,000 open files.
#[tokio::test]
#[ignore = "figures: takes minutes"]
async fn an_honest_client_beside_crowds_in_full() {
    for method in ["WatchList", "List"] {
        let server = start(256 * MIB, 32).await;
        let before = server.resident_bytes();
        let _crowd = unread(&server, method, 8, 100).await;
        sleep(Duration::from_secs(2)).await;
        for (address, whose) in [(OTHER, "another"), (CROWD, "the same")] {
            let begun = Instant::now();
            honest(&server, address).await;
            let (took, more) = (begun.elapsed(), growth(&server, before) / MIB);
            println!(
                "8 connections with 100 unread {method} each: a watch and a list of {whose} address in {took:?}, {more} MiB"
            );
        }
    }
    let server = Setup::new().start().await;
    let before = server.resident_bytes();
    let mut idle = Vec::new();
    for _ in 0..4_200 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((CROWD, 0).into()).unwrap();
        let mut stream = socket.connect(server.grpc).await.unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        idle.push(stream);
    }
    let begun = Instant::now();
    let client = ResourceServiceClient::new(server.channel().await);
    drop(client.clone().list(list_artists()).await.unwrap());
    println!("4,200 idle connections: a list in {:?}, {} MiB", begun.elapsed(), growth(&server, before) / MIB);
    let slow = slow_heads(&server, 4_200).await;
    let begun = Instant::now();
    assert_eq!(server.fetch("/v1/types").await.code(), 200);
    println!("4,200 slow heads: a request in {:?}, {} MiB", begun.elapsed(), growth(&server, before) / MIB);
    drop((idle, slow));

    let server = Setup::new().start().await;
    let before = server.resident_bytes();
    let floods: Vec<_> = (0..4).map(|_| tokio::spawn(flood(server.grpc))).collect();
    let mut slowest = Duration::ZERO;
    for n in 0..200 {
        let begun = Instant::now();
        server.write(artist(&format!("a{n}"))).await.unwrap();
        slowest = slowest.max(begun.elapsed());
    }
    println!(
        "4 connections with 250,000 streams to reset: the slowest of 200 writes in {slowest:?}, {} MiB",
        growth(&server, before) / MIB
    );
    for flood in floods {
        flood.abort();
    }
    server.read(&id("demo.v2.Artist", "a0")).await.unwrap();
}

/// The same for crowds of several addresses, which fill both ports with calls.
#[tokio::test]
#[ignore = "figures: takes minutes"]
async fn an_honest_client_beside_crowds_of_several_addresses_in_full() {
    let server = Setup::new().env("MORTISE_HTTP_REQUEST_TIMEOUT_MS", 600_000).start().await;
    let before = server.resident_bytes();
    let _crowd = busy(&server, 8, 511).await;
    for n in 0..3 {
        let begun = Instant::now();
        drop(client(&server, [127, 0, 0, 7 + n]).await.list(list_artists()).await.unwrap());
        let listed = begun.elapsed();
        let begun = Instant::now();
        assert_eq!(server.fetch("/v1/types").await.code(), 200);
        let more = growth(&server, before) / MIB;
        println!(
            "8 addresses with 511 busy connections to each port: a list in {listed:?}, a request in {:?}, {more} MiB",
            begun.elapsed()
        );
    }
    println!("made room with calls (grpc, http): {:?}", busy_replaced(&server).await);
}

/// Watches of one address that evaluate each change in vain.
enum Vain {
    /// Lists of another GroupVersion.
    OtherVersion,
    /// Lists of names with another prefix, which the store looks up.
    OtherNames,
    /// Watches of the one resource, whose mask hides the changes.
    OneResource,
}

async fn vain(server: &Server, kind: &Vain, count: usize) -> JoinSet<()> {
    let mut crowd = JoinSet::new();
    let list = |of: &str, name_prefix: &str| pb::WatchListRequest {
        r#type: Some(gvk(of)),
        name_prefix: name_prefix.to_owned(),
        ..watch_artists()
    };
    let mut to = channel(server, CROWD).await;
    for n in 0..count {
        if n % 1_000 == 999 {
            to = channel(server, CROWD).await;
        }
        let (mut lists, mut watches) = (ResourceServiceClient::new(to.clone()), WatchServiceClient::new(to.clone()));
        match kind {
            Vain::OneResource => {
                let id = Some(id("demo.v2.Artist", "a"));
                let request = WatchResourceRequest { id, view: View::Name.into(), ..Default::default() };
                let mut stream = watches.watch_resource(request).await.unwrap().into_inner();
                stream.message().await.unwrap();
                crowd.spawn(async move { while let Ok(Some(_)) = stream.message().await {} });
            }
            kind => {
                let request = match kind {
                    Vain::OtherVersion => list("demo.v1.Artist", ""),
                    _ => list("demo.v2.Artist", "zzz"),
                };
                let mut stream = lists.watch_list(request).await.unwrap().into_inner();
                stream.message().await.unwrap();
                crowd.spawn(async move { while let Ok(Some(_)) = stream.message().await {} });
            }
        }
    }
    crowd
}

/// Middle and longest time of an honest client's writes.
async fn writes(server: &Server) -> (Duration, Duration) {
    let mut times = Vec::new();
    for n in 0..200 {
        let begun = Instant::now();
        server.write(noted(artist("a"), &[("n", &n.to_string())])).await.unwrap();
        times.push(begun.elapsed());
    }
    times.sort();
    (times[100], times[199])
}

/// The same for thousands of watches that evaluate each change.
#[tokio::test]
#[ignore = "figures: takes minutes"]
async fn an_honest_writer_beside_crowds_of_watches_in_full() {
    for (kind, what) in [
        (Vain::OtherVersion, "lists of another GroupVersion"),
        (Vain::OtherNames, "lists of other names"),
        (Vain::OneResource, "watches of the resource, masked"),
    ] {
        let server = Setup::new().start().await;
        server.write(artist("a")).await.unwrap();
        let before = server.resident_bytes();
        let alone = writes(&server).await;
        let crowd = vain(&server, &kind, 5_000).await;
        let beside = writes(&server).await;
        let more = growth(&server, before) / MIB;
        let ratio = beside.0.as_secs_f64() / alone.0.as_secs_f64();
        println!(
            "5,000 {what}: a write (middle, longest) in {beside:?}, alone {alone:?}, ratio {ratio:.1}, {more} MiB"
        );
        drop(crowd);
    }
}

/// Begins streams, each with a window update beyond its bound, as long as the server takes them.
async fn flood(server: std::net::SocketAddr) {
    let mut left = 250_000_u32;
    while left > 0 {
        let mut stream = TcpStream::connect(server).await.unwrap();
        let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
        let mut id = 1_u32;
        loop {
            let mut frames = Vec::new();
            for _ in 0..1_000 {
                let path = b"/hashicorp.consul.resource.ResourceService/Read";
                let mut block = vec![0x83, 0x86, 0x04, path.len() as u8];
                block.extend_from_slice(path);
                frames.extend_from_slice(&[0, 0, block.len() as u8, 1, 4]);
                frames.extend_from_slice(&id.to_be_bytes());
                frames.extend_from_slice(&block);
                frames.extend_from_slice(&[0, 0, 4, 8, 0]);
                frames.extend_from_slice(&id.to_be_bytes());
                frames.extend_from_slice(&0x7fff_ffff_u32.to_be_bytes());
                id += 2;
            }
            left = left.saturating_sub(1_000);
            let sent = stream.write_all(&frames).await;
            let mut said = [0; 64 << 10];
            while let Ok(read) = stream.try_read(&mut said) {
                if read == 0 {
                    break;
                }
            }
            if sent.is_err() || left == 0 {
                break;
            }
        }
        let _ = timeout(Duration::from_secs(1), stream.read(&mut [0; 1])).await;
    }
}
