//! Calls that clients give up, bytes behind the end of a call, and streams that a client makes the server reset: what
//! ends, the call or the whole connection.

use mortise_resource::pb;

use super::frames::{self, Connection, kind};
use crate::support::{Server, Setup, Watch, artist, gvk, id, noted, tenancy};

const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// Watches over one connection that have had their snapshot.
async fn watches(server: &Server, count: usize) -> Vec<Watch> {
    let mut watches = Vec::new();
    for _ in 0..count {
        let mut watch = server.watch(gvk("demo.v2.Artist"), Some(tenancy("*", "*")), "").await.unwrap();
        watch.snapshot().await;
        watches.push(watch);
    }
    watches
}

/// Begins a watch on a raw connection, and waits for its answer.
async fn raw_watch(connection: &mut Connection) -> u32 {
    let request = pb::WatchListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: Some(tenancy("*", "*")),
        name_prefix: String::new(),
        after: None,
    };
    let watch = connection.begin(frames::WATCH_LIST);
    connection.data(watch, &frames::message(&request), true);
    connection.flush().await;
    connection.until(|frame| frame.kind == kind::DATA && frame.stream == watch).await;
    watch
}

/// Asserts that the watch still shows changes, and that the connection answers calls.
async fn still_shows(server: &Server, connection: &mut Connection, watch: u32) {
    server.write(artist("after")).await.unwrap();
    connection.until(|frame| frame.kind == kind::DATA && frame.stream == watch).await;
    connection.ping().await;
}

/// Calls that are given up in the packet that begins them: more than a library may have at once, too.
#[tokio::test]
async fn calls_that_are_given_up_at_once_do_not_end_the_connection() {
    let server = Server::start().await;
    let mut connection = Connection::open(server.grpc).await;
    let watch = raw_watch(&mut connection).await;
    for round in [21, 2_000, 10_000] {
        for _ in 0..round {
            let call = connection.begin(HEALTH);
            connection.reset(call);
        }
        connection.flush().await;
        connection.ping().await;
    }
    still_shows(&server, &mut connection, watch).await;
}

/// DATA and trailers behind RST_STREAM, of a call that the server has ended by its own deadline, concern this call
/// alone. HTTP/2 remembers the first 50 such streams for a second, and has forgotten the others.
#[tokio::test]
async fn bytes_behind_the_end_of_a_call_do_not_end_the_connection() {
    let server = Server::start().await;
    let mut connection = Connection::open(server.grpc).await;
    let watch = raw_watch(&mut connection).await;
    let mut ended = Vec::new();
    for _ in 0..100 {
        let call = connection.begin_with(frames::WATCH_LIST, &[("grpc-timeout", "1m")]);
        connection.flush().await;
        connection.until(|frame| frame.stream == call && frame.is_last()).await;
        connection.reset(call);
        connection.data(call, &[0; 5], false);
        match call % 4 {
            1 => connection.trailers(call),
            _ => connection.data(call, &[], true),
        }
        connection.ping().await;
        ended.push(call);
    }
    for call in &ended {
        connection.data(*call, &[0; 100], false);
        connection.trailers(*call);
    }
    connection.ping().await;
    // The discarded bytes are given back to the connection's window.
    for _ in 0..100 {
        let call = connection.begin(HEALTH);
        connection.reset(call);
        for _ in 0..6 {
            connection.data(call, &[0; 16_000], false);
        }
        connection.ping().await;
    }
    still_shows(&server, &mut connection, watch).await;
    // A new request with an old number is the connection's fault.
    connection.request(ended[99], HEALTH, &[]);
    connection.flush().await;
    connection.until_gone("a request with an old number").await;
}

/// The same while the server's end of the call is still on its way, behind a large answer that the client reads late.
#[tokio::test]
async fn bytes_that_cross_the_end_of_a_call_do_not_end_the_connection() {
    let server = Server::start().await;
    for n in 0..40 {
        server.write(noted(artist(&format!("a{n}")), &[("note", &"x".repeat(400_000))])).await.unwrap();
    }
    let mut connection = Connection::open(server.grpc).await;
    let watch = connection.begin(frames::WATCH_LIST);
    let prefix = |name_prefix: &str| pb::WatchListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: Some(tenancy("*", "*")),
        name_prefix: name_prefix.to_owned(),
        after: None,
    };
    connection.data(watch, &frames::message(&prefix("z")), true);
    connection.flush().await;
    connection.until(|frame| frame.kind == kind::DATA && frame.stream == watch).await;
    connection.open_windows();
    let late: Vec<_> =
        (0..20).map(|_| connection.begin_with(frames::WATCH_LIST, &[("grpc-timeout", "300m")])).collect();
    let list = connection.begin(frames::LIST);
    let request = pb::ListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: Some(tenancy("*", "*")),
        name_prefix: String::new(),
    };
    connection.data(list, &frames::message(&request), true);
    connection.flush().await;
    // The deadlines pass while the answer fills the socket; without the mend, this is when the connection ended.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    for call in late {
        connection.reset(call);
        connection.data(call, &[0; 5], false);
        connection.trailers(call);
    }
    connection.ping().await;
    server.write(artist("z")).await.unwrap();
    connection.until(|frame| frame.kind == kind::DATA && frame.stream == watch).await;
}

/// A client that makes the server reset streams, again and again, for faults of the client, is sent away.
#[tokio::test]
async fn streams_that_a_client_makes_the_server_reset_end_in_goaway() {
    let server = Server::start().await;
    type Fault = fn(&mut Connection, u32);
    let faults: [(&str, Fault); 3] = [
        ("a window beyond its bound", |connection, stream| connection.window_update(stream, 0x7fff_ffff)),
        ("a window update of zero", |connection, stream| connection.window_update(stream, 0)),
        ("DATA behind the end", |connection, stream| {
            connection.data(stream, &[], true);
            connection.data(stream, &[1; 8], false);
        }),
    ];
    for (what, fault) in faults {
        let mut connection = Connection::open(server.grpc).await;
        connection.ping().await;
        for _ in 0..3_000 {
            let call = connection.begin(frames::WATCH_LIST);
            fault(&mut connection, call);
        }
        // The server may close before it has read everything.
        let _ = connection.try_flush().await;
        connection.until_gone(what).await;
        server.read(&id("demo.v2.Artist", "none")).await.expect_err("other connections go on");
    }
}

/// The figure of docs/security.md: `cargo test -p mortise --test wire -- --ignored --nocapture ten_thousand`.
#[tokio::test]
#[ignore = "a figure: takes a minute"]
async fn ten_thousand_calls_given_up_and_as_many_deadlines_end_no_watch() {
    let took = given_up_beside_watches(10_000, 100).await;
    println!("10,000 calls given up and 10,000 deadlines beside 100 watches: {took:?}");
}

#[tokio::test]
async fn calls_given_up_and_deadlines_that_pass_end_no_watch() {
    given_up_beside_watches(3_000, 10).await;
}

/// Gives up calls, and lets the deadlines of as many pass, beside watches, which still show changes afterwards. Returns
/// the time without the watches.
async fn given_up_beside_watches(calls: usize, count: usize) -> std::time::Duration {
    let server = Setup::new().start().await;
    let mut others = watches(&server, count).await;
    let begun = std::time::Instant::now();
    let mut connection = Connection::open(server.grpc).await;
    let watch = raw_watch(&mut connection).await;
    for _ in 0..calls / 500 {
        let mut late = Vec::new();
        for _ in 0..500 {
            let call = connection.begin(HEALTH);
            connection.reset(call);
            late.push(connection.begin_with(frames::WATCH_LIST, &[("grpc-timeout", "1n")]));
        }
        connection.ping().await;
        // The deadlines have passed, or pass while these bytes arrive.
        for call in late {
            connection.reset(call);
            connection.data(call, &[0; 5], false);
            connection.trailers(call);
        }
        connection.ping().await;
    }
    let took = begun.elapsed();
    still_shows(&server, &mut connection, watch).await;
    for watch in &mut others {
        watch.upsert().await;
    }
    took
}

/// A client of a library that gives up calls keeps its connection.
#[tokio::test]
async fn a_library_that_gives_up_calls_keeps_its_watches() {
    let server = Server::start().await;
    let mut watch = watches(&server, 1).await.remove(0);
    // The client's own library ends a connection after 1,024 answers to calls that it has reset.
    for _ in 0..5 {
        let calls = (0..200).map(|_| {
            let mut client = server.client.clone();
            async move { client.read(pb::ReadRequest { id: Some(id("demo.v2.Artist", "none")) }).await }
        });
        // The first answer ends the others.
        let _ = futures_first(calls).await;
    }
    server.write(artist("korn")).await.unwrap();
    watch.upsert().await;
}

/// The first result of several futures, which drops the others.
async fn futures_first<F: Future<Output: Send + 'static> + Send + 'static>(
    calls: impl Iterator<Item = F>,
) -> F::Output {
    let mut running: tokio::task::JoinSet<F::Output> = calls.collect();
    running.join_next().await.unwrap().unwrap()
}

/// A connection without calls makes room for another address, and gets GOAWAY.
#[tokio::test]
async fn idle_connections_of_a_crowd_get_goaway() {
    let server = Setup::new().env("MORTISE_GRPC_MAX_CONNECTIONS", 8).start().await;
    let mut crowd = Vec::new();
    for n in 0..6 {
        // Two addresses, besides the server's own client.
        let mut connection = Connection::open_from([127, 0, 0, 2 + n / 5], server.grpc).await;
        connection.ping().await;
        crowd.push(connection);
    }
    let busy = raw_watch(&mut crowd[0]).await;
    for n in 0..3 {
        let mut honest = Connection::open_from([127, 0, 1, n], server.grpc).await;
        honest.ping().await;
        drop(honest);
        let mut other = Connection::open_from([127, 0, 2, n], server.grpc).await;
        other.ping().await;
        crowd.push(other);
    }
    let said = crowd[1].until(|frame| frame.kind == kind::GOAWAY).await;
    assert_eq!(said.payload, [0; 8], "no error, and no call was begun");
    still_shows(&server, &mut crowd[0], busy).await;
    let metrics = server.get("/metrics").await.1;
    assert!(metrics.contains("mortise_idle_replaced_total{place=\"grpc\"}"), "{metrics}");
}
