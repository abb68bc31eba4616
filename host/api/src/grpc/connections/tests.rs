use std::net::SocketAddr;

use futures::StreamExt as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::{Instant, sleep, timeout},
};

use super::*;
use crate::{grpc::preface::PREFACE_BYTES, tls::testing};

const START: &[u8; PREFACE_BYTES] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const LONG: Duration = Duration::from_secs(60);

type Opened = (SocketAddr, Pin<Box<dyn Stream<Item = io::Result<Connection>> + Send>>, watch::Sender<bool>);

async fn open(connections: usize, preface: Duration) -> Opened {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (stop, stopping) = watch::channel(false);
    (
        addr,
        accept(listener, ConnectionLimits { connections, has_reserve: false, preface }, None, stopping).boxed(),
        stop,
    )
}

async fn late(connection: &mut Connection) -> bool {
    let read = timeout(LONG / 2, connection.read(&mut [0])).await.expect("reading ends");
    read.is_err_and(|e| e.to_string().contains("http.request_timeout_ms"))
}

#[tokio::test]
async fn a_client_has_to_begin_in_time() {
    let (addr, mut connections, _stop) = open(8, Duration::from_millis(200)).await;
    let mut clients = Vec::new();
    let mut servers = Vec::new();
    for sent in [&START[..0], &START[..10], &START[..PREFACE_BYTES - 1], &START[..]] {
        let mut client = TcpStream::connect(addr).await.unwrap();
        client.write_all(sent).await.unwrap();
        let mut server = connections.next().await.unwrap().unwrap();
        server.read_exact(&mut vec![0; sent.len()]).await.unwrap();
        clients.push(client);
        servers.push(server);
    }
    let mut begun = servers.pop().unwrap();
    for server in &mut servers {
        assert!(late(server).await);
        assert!(late(server).await, "asked again, it says so again");
    }
    // Single bytes now and then do not complete the preface.
    let mut slow = TcpStream::connect(addr).await.unwrap();
    let mut server = connections.next().await.unwrap().unwrap();
    tokio::spawn(async move {
        for byte in &START[..PREFACE_BYTES - 1] {
            let _ = slow.write_all(&[*byte]).await;
            // The pace of a slow client.
            sleep(Duration::from_millis(20)).await;
        }
        std::future::pending::<()>().await;
    });
    while server.read(&mut [0]).await.is_ok() {}
    assert!(server.preface.is_some());
    // A connection that has begun may stay silent, for longer than the others had.
    sleep(Duration::from_millis(300)).await;
    clients.last_mut().unwrap().write_all(b"x").await.unwrap();
    assert_eq!(timeout(LONG, begun.read_u8()).await.unwrap().unwrap(), b'x');
}

#[tokio::test]
async fn what_has_not_begun_ends_with_the_server_and_what_has_goes_on() {
    let (addr, mut connections, stop) = open(8, LONG).await;
    let mut silent = TcpStream::connect(addr).await.unwrap();
    let mut server = connections.next().await.unwrap().unwrap();
    let mut client = TcpStream::connect(addr).await.unwrap();
    client.write_all(START).await.unwrap();
    let mut begun = connections.next().await.unwrap().unwrap();
    begun.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();

    let sent_at = Instant::now();
    stop.send_replace(true);
    assert!(late(&mut server).await);
    assert!(sent_at.elapsed() < Duration::from_secs(5), "{:?}", sent_at.elapsed());
    drop(server);
    assert_eq!(silent.read(&mut [0]).await.unwrap(), 0);
    client.write_all(b"x").await.unwrap();
    assert_eq!(begun.read_u8().await.unwrap(), b'x');
    // A preface before the stop is served.
    client = TcpStream::connect(addr).await.unwrap();
    client.write_all(START).await.unwrap();
    begun = connections.next().await.unwrap().unwrap();
    begun.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
}

#[tokio::test]
async fn connections_are_bounded_and_places_come_back() {
    let (addr, mut connections, _stop) = open(2, LONG).await;
    let mut clients = Vec::new();
    let mut servers = Vec::new();
    for _ in 0..2 {
        clients.push(TcpStream::connect(addr).await.unwrap());
        servers.push(connections.next().await.unwrap().unwrap());
    }
    let mut refused = TcpStream::connect(addr).await.unwrap();
    let next = timeout(Duration::from_millis(200), connections.next()).await;
    assert!(next.is_err(), "it is not served");
    assert_eq!(refused.read(&mut [0]).await.unwrap(), 0, "it is closed");
    servers.pop();
    let client = TcpStream::connect(addr).await.unwrap();
    let server = timeout(LONG, connections.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(server.connect_info().remote, Remote::from_address(client.local_addr().unwrap()));
    assert!(server.transport.inner().tcp().unwrap().nodelay().unwrap());
}

#[tokio::test]
async fn requests_know_where_they_come_from_and_by_which_certificate() {
    let (addr, mut connections, _stop) = open(8, LONG).await;
    let client = TcpStream::connect(addr).await.unwrap();
    let facts = connections.next().await.unwrap().unwrap().connect_info();
    assert_eq!(facts.remote, Remote::from_address(client.local_addr().unwrap()));
    assert_eq!(facts.certificate, None);

    let files = testing::Files::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (_stop, stopping) = watch::channel(false);
    let limits = ConnectionLimits { connections: 8, has_reserve: false, preface: LONG };
    let mut connections = accept(listener, limits, Some(files.load().await), stopping).boxed();
    for names in [Some(["robot.test", "spiffe://test/robot", "robot"]), None] {
        let connecting = files.connect(addr, names.is_some());
        let (client, server) = tokio::join!(connecting, connections.next());
        let facts = server.unwrap().unwrap().connect_info();
        assert_eq!(facts.remote, Remote::from_address(client.get_ref().0.local_addr().unwrap()));
        let found = facts.certificate.as_ref().map(|certificate| certificate.names.to_vec());
        assert_eq!(found, names.map(|names| names.map(str::to_owned).into()));
    }
}

/// Small output of several calls waits once until other tasks have run, that of one call and large output does not.
#[tokio::test]
async fn small_output_of_several_calls_waits_for_other_tasks_once() {
    use std::future::poll_fn;
    let (addr, mut connections, _stop) = open(8, LONG).await;
    let mut client = TcpStream::connect(addr).await.unwrap();
    client.write_all(START).await.unwrap();
    let mut server = connections.next().await.unwrap().unwrap();
    server.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
    let usage = server.place.0.usage.clone();
    // Returns whether each of two flushes behind a write is ready at once.
    let mut flushes = async |bytes: usize| {
        server.write_all(&vec![7; bytes]).await.unwrap();
        let flush = |server: &mut Connection, cx: &mut Context<'_>| Pin::new(server).poll_flush(cx).is_ready();
        let flushed = poll_fn(|cx| Poll::Ready([flush(&mut server, cx), flush(&mut server, cx)])).await;
        // HTTP/2 reads again; there is nothing.
        let mut byte = [0];
        let read = poll_fn(|cx| Poll::Ready(Pin::new(&mut server).poll_read(cx, &mut ReadBuf::new(&mut byte)))).await;
        assert!(read.is_pending());
        flushed
    };
    let _first = usage.begin_call();
    assert_eq!(flushes(10).await, [true, true], "one call");
    let _second = usage.begin_call();
    assert_eq!(flushes(10).await, [false, true], "several calls");
    assert_eq!(flushes(10).await, [false, true], "again, once HTTP/2 has read");
    assert_eq!(flushes(64 << 10).await, [true, true], "large output");
    let mut received = vec![0; 3 * 10 + (64 << 10)];
    client.read_exact(&mut received).await.unwrap();
}

/// A connection that has to leave sends the ends of its answers before GOAWAY, behind which clients repeat calls; and
/// it ends without GOAWAY if the client does not take them.
#[tokio::test]
async fn a_connection_leaves_behind_the_ends_of_its_answers() {
    use std::future::poll_fn;
    const END: &[u8] = b"the end of an answer";
    for takes in [true, false] {
        let (addr, mut connections, _stop) = open(1, LONG).await;
        let mut client = TcpStream::connect(addr).await.unwrap();
        client.write_all(START).await.unwrap();
        let mut server = connections.next().await.unwrap().unwrap();
        server.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
        // A connection of another address takes the place of this idle one; a call begins at the same time.
        let other = TcpSocket::new_v4().unwrap();
        other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let _other = other.connect(addr).await.unwrap();
        let _taken = connections.next().await.unwrap().unwrap();
        let call = server.place.0.usage.begin_call();
        // Reads as HTTP/2 does; `None` while there is nothing to read, else the bytes that were read.
        let read = async |server: &mut Connection| {
            let mut byte = [0];
            poll_fn(|cx| {
                let mut buffer = ReadBuf::new(&mut byte);
                let polled = Pin::new(&mut *server).poll_read(cx, &mut buffer);
                Poll::Ready(match polled {
                    Poll::Pending => None,
                    Poll::Ready(read) => Some(read.map(|()| buffer.filled().len()).unwrap()),
                })
            })
            .await
        };
        assert_eq!([read(&mut server).await, read(&mut server).await], [None, None], "the call runs");
        drop(call);
        assert_eq!(read(&mut server).await, None, "HTTP/2 may hold the end of its answer");
        let end = if takes { END.to_vec() } else { vec![7; 16 << 20] };
        // Writes as much as the client takes, and flushes behind the last byte, as HTTP/2 does.
        let written = poll_fn(|cx| {
            let mut written = 0;
            while let Some(rest @ [_, ..]) = end.get(written..)
                && let Poll::Ready(more) = Pin::new(&mut server).poll_write(cx, rest)
            {
                written += more.unwrap();
            }
            let is_whole = written == end.len();
            assert_eq!(is_whole && Pin::new(&mut server).poll_flush(cx).is_ready(), takes);
            Poll::Ready(written)
        })
        .await;
        assert_eq!(read(&mut server).await, Some(0), "the connection ends");
        drop(server);
        let mut received = Vec::new();
        let _reset = client.read_to_end(&mut received).await;
        match takes {
            true => assert_eq!(received, [END, &GO_AWAY].concat()),
            false => assert!(received.len() <= written && received.iter().all(|byte| *byte == 7)),
        }
    }
}

/// A client of a connection that the server shuts down, and the end of the server's side.
async fn shut_down() -> (TcpStream, tokio::task::JoinHandle<io::Result<()>>) {
    let (addr, mut connections, _stop) = open(8, LONG).await;
    let mut client = TcpStream::connect(addr).await.unwrap();
    client.write_all(START).await.unwrap();
    let mut server = connections.next().await.unwrap().unwrap();
    server.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
    let ended = tokio::spawn(async move {
        server.write_all(b"the last answer").await?;
        server.shutdown().await
    });
    (client, ended)
}

/// Bytes that cross the server's end do not reset the connection: the client still has its last answer.
#[tokio::test]
async fn a_client_that_still_sends_reads_the_last_answer() {
    let (mut client, ended) = shut_down().await;
    // More than one write: the first one to a closed socket succeeds, and is answered by the reset.
    for _ in 0..3 {
        client.readable().await.unwrap();
        client.write_all(b"WINDOW_UPDATE").await.unwrap();
    }
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "the last answer");
    client.write_all(b"an acknowledgement").await.unwrap();
    client.write_all(b"and another one").await.unwrap();
    assert!(!ended.is_finished(), "it waits for the client's end");
    drop(client);
    timeout(LONG, ended).await.expect("it ends with the client").unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_sends_on_holds_no_connection() {
    let (mut chatty, ended) = shut_down().await;
    let flood = tokio::spawn(async move { while chatty.write_all(&[0; 64 << 10]).await.is_ok() {} });
    timeout(LONG, ended).await.expect("it ends although the client sends on").unwrap().unwrap();
    timeout(LONG, flood).await.expect("the client's writes fail").unwrap();
}
