//! Answers that are not read.

use std::time::{Duration, Instant};

use mortise_resource::pb;
use mortise_test_guests::Thing;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::sleep,
};
use tonic::Code;

use super::{Connection, MIB, growth, heavy, lean, peak_until_stalled, status};
use crate::support::{
    PATIENCE, Watch, album, artist, eventually, gvk, id, id_of, list_artists, names, owned, progress_until, tenancy,
    thing, watch_artists,
};

const ARTIST: &str = "demo.v2.Artist";

#[tokio::test]
async fn a_watch_that_is_not_read_holds_little_and_ends() {
    let server = lean().limit("watch_buffer_bytes", 16 * MIB).env("MORTISE_HTTP_STALL_TIMEOUT_MS", 2_000).start().await;
    server.write(heavy("korn", 900_000)).await.unwrap();
    let before = server.resident_bytes();
    let connection = Connection::open(&server).await;
    let unread = connection.ask("WatchList", &watch_artists()).await;
    // The bound does not affect a watch that is read and idle for longer.
    let mut idle = server.watch(gvk("demo.v2.Album"), Some(tenancy("*", "*")), "").await.unwrap();
    idle.snapshot().await;
    let mut most = 0;
    for _ in 0..250 {
        server.write(heavy("korn", 900_000)).await.unwrap();
        most = most.max(growth(&server, before));
    }
    assert!(most < 120 * MIB, "{} MiB for events that nobody takes", most / MIB);
    // It is ended, polled or not.
    server.metric_until("mortise_grpc_answers_stalled_total", 1.0).await;
    let (code, said) = status(unread).await;
    assert_eq!(code, (Code::Aborted as i32).to_string(), "{said}");
    assert!(said.contains("http.stall_timeout_ms"), "{said}");
    // The other watch continues.
    idle.shows_next(&server, album("debut", None)).await;
}

/// Lists and watches without a reader, over gRPC and HTTP, do not delay the stop.
#[tokio::test]
async fn answers_that_are_not_read_do_not_delay_the_end() {
    let mut server = lean()
        .long_grace()
        .env("MORTISE_HTTP_STALL_TIMEOUT_MS", 600_000)
        .env("MORTISE_SERVICE_CONCURRENT_WATCH_SNAPSHOTS", 16)
        .start()
        .await;
    for n in 0..40 {
        server.write(heavy(&format!("a{n}"), 200_000)).await.unwrap();
    }
    let connection = Connection::open(&server).await;
    let _list = connection.ask("List", &list_artists()).await;
    let watch = connection.ask("WatchList", &watch_artists()).await;
    let mut pages = Vec::new();
    for query in ["", "?watch"] {
        let mut page = TcpStream::connect(server.http).await.unwrap();
        let request = format!("GET /api/demo/v2/artist{query} HTTP/1.1\r\nhost: {}\r\n\r\n", server.http);
        page.write_all(request.as_bytes()).await.unwrap();
        page.readable().await.unwrap();
        let mut head = [0; 15];
        page.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK", "{query:?}");
        pages.push(page);
    }
    // The answers get as far as possible without a reader: buffers of the system fill up, which has no event.
    sleep(Duration::from_millis(500)).await;
    server.signal("TERM");
    assert!(server.ended().await.success(), "{}", server.log());
    drop((watch, pages));
}

/// Snapshots and lists wait for their turn, and another client gets one meanwhile.
#[tokio::test]
async fn lists_and_snapshots_that_are_not_read_leave_room_for_others() {
    let server = lean()
        .env("MORTISE_SERVICE_LIST_BYTES", 64 * MIB)
        .env("MORTISE_SERVICE_CONCURRENT_WATCH_SNAPSHOTS", 4)
        .env("MORTISE_HTTP_STALL_TIMEOUT_MS", 2_000)
        .start()
        .await;
    for n in 0..40 {
        server.write(heavy(&format!("a{n}"), 200_000)).await.unwrap();
    }
    let before = server.resident_bytes();
    // One of another address: of the same address, answers that are not read would end for hers.
    let connection = Connection::from_address([127, 0, 0, 2], &server, 65_535).await;
    let mut unread = Vec::new();
    for _ in 0..24 {
        let connection = Connection { sender: connection.sender.clone(), addr: connection.addr };
        unread.push(tokio::spawn(async move { connection.ask("List", &list_artists()).await }));
    }
    let mut watches = Vec::new();
    for _ in 0..12 {
        watches.push(connection.ask("WatchList", &watch_artists()).await);
    }
    let most = peak_until_stalled(&server, before).await;
    assert!(most < 150 * MIB, "{} MiB for answers that nobody takes", most / MIB);
    // Another connection.
    let client = mortise_api::ResourceServiceClient::new(server.channel().await);
    let listed = client.clone().max_decoding_message_size(usize::MAX).list(list_artists()).await.unwrap().into_inner();
    assert_eq!(listed.resources.len(), 40);
    let events = client.max_decoding_message_size(usize::MAX).watch_list(watch_artists()).await.unwrap().into_inner();
    assert_eq!(Watch(events).snapshot().await.len(), 40);
    // All end, in groups, and their memory is freed.
    let ended = async || server.metric("mortise_grpc_answers_stalled_total").await.unwrap();
    assert!(ended().await < 36.0, "the other client was served before");
    progress_until("all end", async || {
        let now = ended().await;
        if now == 36.0 { Ok(()) } else { Err(now) }
    })
    .await;
    // Read concurrently, since they share the connection's window.
    let mut endings: Vec<_> = watches.into_iter().map(|watch| tokio::spawn(status(watch))).collect();
    for list in unread {
        endings.push(tokio::spawn(status(list.await.unwrap())));
    }
    for ending in endings {
        let (code, said) = ending.await.unwrap();
        assert_eq!(code, (Code::Aborted as i32).to_string(), "{said}");
    }
    let left = growth(&server, before);
    assert!(left < 100 * MIB, "{} MiB stay", left / MIB);
    assert_eq!(server.list(gvk(ARTIST), tenancy("", ""), "").await.unwrap().len(), 40);
}

/// Lists by owner behave as lists: they wait for their turn, another client gets one meanwhile, and their memory is
/// freed.
#[tokio::test]
async fn lists_by_owner_that_are_not_read_are_bounded() {
    let server =
        lean().env("MORTISE_SERVICE_LIST_BYTES", 32 * MIB).env("MORTISE_HTTP_STALL_TIMEOUT_MS", 3_000).start().await;
    let owner = id_of(&server.write(artist("owner")).await.unwrap());
    for n in 0..40 {
        server.write(owned(heavy(&format!("a{n:02}"), 200_000), &owner)).await.unwrap();
    }
    let request = pb::ListByOwnerRequest { owner: Some(owner.clone()) };
    let before = server.resident_bytes();
    let connection = Connection::with_window(&server, 16 * MIB as u32).await;
    let mut unread = Vec::new();
    for _ in 0..30 {
        let connection = Connection { sender: connection.sender.clone(), addr: connection.addr };
        let request = request.clone();
        unread.push(tokio::spawn(async move { connection.ask("ListByOwner", &request).await }));
    }
    let most = peak_until_stalled(&server, before).await;
    println!("{} MiB for 30 lists of 8 MB that nobody takes", most / MIB);
    assert!(most < 80 * MIB, "{} MiB for answers that nobody takes", most / MIB);
    let client = mortise_api::ResourceServiceClient::new(server.channel().await);
    let listed = client.max_decoding_message_size(usize::MAX).list_by_owner(request).await.unwrap().into_inner();
    let ended = server.metric("mortise_grpc_answers_stalled_total").await.unwrap();
    assert!(ended < 30.0, "others wait still");
    let expected: Vec<_> = (0..40).map(|n| format!("a{n:02}")).collect();
    assert_eq!(names(&listed.resources), expected);
    drop(unread);
    drop(connection);
    eventually("it comes back", async || growth(&server, before) < 60 * MIB).await;
}

/// The total of waiting bytes is bounded: the answers unread for longest are ended, and take no more memory in the next
/// round.
#[tokio::test]
async fn answers_that_are_not_taken_are_bounded_in_all() {
    const HELD: usize = 8 * MIB;
    let server = lean()
        .env("MORTISE_GRPC_OUTBOUND_BUFFER_BYTES", HELD)
        .env("MORTISE_SERVICE_LIST_BYTES", 1024 * MIB)
        .env("MORTISE_HTTP_STALL_TIMEOUT_MS", 600_000)
        .start()
        .await;
    // HTTP/2 gets a resource as one piece; all of it but one frame waits.
    for n in 0..3 {
        server.write(heavy(&format!("a{n}"), 900_000)).await.unwrap();
    }
    let read = pb::ReadRequest { id: Some(id(ARTIST, "a0")) };
    let before = server.resident_bytes();
    let mut peaks = Vec::new();
    for (round, method) in ["List", "Read", "List", "Read", "List", "Read"].into_iter().enumerate() {
        let connection = Connection::with_window(&server, 64 * MIB as u32).await;
        let mut unread = Vec::new();
        for _ in 0..60 {
            unread.push(match method {
                "List" => connection.ask(method, &list_artists()).await,
                _ => connection.ask(method, &read).await,
            });
        }
        // Only the ten newest fit.
        server.metric_until("mortise_grpc_answers_dropped_total", (round + 1) as f64 * 50.0).await;
        let most = growth(&server, before);
        println!("{method}: {} MiB", most / MIB);
        peaks.push(most);
        // Ten lists of three resources, and HTTP/2's part of each of the others.
        assert!(most < 100 * MIB, "{method}: {} MiB for answers that nobody takes", most / MIB);
        let kept = unread.split_off(50);
        for answer in unread {
            let (code, said) = status(answer).await;
            assert_eq!(code, (Code::ResourceExhausted as i32).to_string(), "{method}: {said}");
            assert!(said.contains("grpc.outbound_buffer_bytes"), "{method}: {said}");
        }
        for answer in kept {
            assert_eq!(status(answer).await.0, "0", "{method}: the newest are whole");
        }
    }
    // The allocator keeps a part of it.
    let (first, last) = (peaks[..2].iter().max().unwrap(), peaks[4..].iter().max().unwrap());
    assert!(last < &(first + 24 * MIB), "{} MiB, and in the third round {}", first / MIB, last / MIB);
    assert_eq!(server.list(gvk(ARTIST), tenancy("", ""), "").await.unwrap().len(), 3);
}

/// A list for a controller's plugin is counted while it is read: of 130 MB, a page or two.
#[tokio::test]
async fn a_plugin_that_lists_more_than_it_may_take_costs_a_page() {
    let grants = "[plugin.reconcile-foreign.grants]\nread = [\"demo.v2.Artist\"]\n";
    let server = lean().guest("reconcile-foreign").config(grants).start().await;
    let text = |text: &str| Thing { text: text.into(), ..Thing::default() };
    let owner = server.write(thing("reconcile_foreign", "one", &text("x"))).await.unwrap();
    for n in 0..150 {
        server.write(owned(heavy(&format!("a{n}"), 900_000), &id_of(&owner))).await.unwrap();
    }
    let before = server.resident_bytes();
    server.write(thing("reconcile_foreign", "one", &text("list"))).await.unwrap();
    let (mut most, mut conditions) = (0, Vec::new());
    let begun = Instant::now();
    while conditions.len() < 2 {
        assert!(begun.elapsed() < PATIENCE, "it says in time what came of it");
        most = most.max(growth(&server, before));
        let seen = server.read(&id_of(&owner)).await.unwrap();
        let said = seen.status.get("reconcile-foreign/things").map(|status| status.conditions.clone());
        conditions = said.unwrap_or_default();
        conditions.retain(|condition| ["Listed", "Owned"].contains(&&*condition.r#type));
    }
    for condition in conditions {
        assert_eq!(condition.reason, "Code8", "{condition:?}");
        assert!(condition.message.contains("(sandbox.reply_bytes)"), "{condition:?}");
    }
    println!("{} MiB", most / MIB);
    assert!(most < 50 * MIB, "{} MiB for a list that is too long", most / MIB);
}

/// Streams are ended at once with a message; the stop waits only for calls that can end.
#[tokio::test]
async fn clients_that_take_nothing_do_not_hold_up_the_end() {
    let server = lean().long_grace().start().await;
    for n in 0..10 {
        server.write(heavy(&format!("a{n}"), 200_000)).await.unwrap();
    }
    let connection = Connection::open(&server).await;
    let _list = connection.ask("List", &list_artists()).await;
    let _watch = connection.ask("WatchList", &watch_artists()).await;
    let (_, _http_list) = server.ask("GET", "/api/demo/v2/artist").open().await;
    let (_, _http_watch) = server.ask("GET", "/api/demo/v2/artist?watch").open().await;
    let mut read = server.watch(gvk("demo.v2.Album"), Some(tenancy("*", "*")), "").await.unwrap();
    read.snapshot().await;
    server.read(&id(ARTIST, "a1")).await.unwrap();
    server.signal("TERM");
    let ended = read.next().await.unwrap_err();
    assert_eq!(ended.code(), Code::Unavailable, "{ended}");
    let mut server = server;
    assert!(server.ended().await.success());
}
