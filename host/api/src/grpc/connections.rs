//! The connections of the gRPC port: how many, and how long they may take to begin.
//!
//! With TLS, one begins with a handshake, in a task of its own, so that a client that is slow at it delays no other. It
//! has its place among the connections from before the handshake on.
//!
//! A connection begins with what HTTP/2 wants first of every client. One that has not sent it within the time limit is
//! closed, and so is one that still has not when the server stops: nothing can be under way on it. From there on HTTP/2
//! looks after it; a client that answers no ping is gone. Connections beyond the limit are closed at once, without a
//! word: clients take that for a server that is not there and come back later, where an answer in HTTP/2 would have
//! them try again at once.
//!
//! Cost: about 16 KiB for a connection without calls, 4 more once it was written to, and a timer besides until it has begun; no task of its own.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use ::http::Extensions;
use futures::{
    FutureExt as _, Stream,
    future::{BoxFuture, Fuse, FusedFuture as _},
    stream,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, UnixListener},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::sleep,
};
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::small_writes::SmallWrites;
use crate::{
    peer::{LocalUser, PeerCertificate},
    port::Port,
    tls::{Protocol, Tls},
    transport::Transport,
};

/// What a client sends at least, unasked: 24 bytes that are always the same, and the head of a frame with its settings.
const PREFACE_BYTES: usize = 24 + 9;

/// Connections over the unix socket at once.
const LOCAL_CONNECTIONS: usize = 256;

/// How long is waited after an error.
const ACCEPT_RETRY_WAIT: Duration = Duration::from_millis(500);

/// What bounds connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// How many may be open.
    pub(crate) connections: usize,
    /// How long one may take to begin.
    pub(crate) preface: Duration,
}

/// Connections as clients open them, for ever. Those that have not begun end when told to stop.
pub(crate) fn accept(
    listener: TcpListener,
    bounds: ConnectionLimits,
    tls: Option<Arc<Tls>>,
    stopping: watch::Receiver<bool>,
) -> impl Stream<Item = io::Result<Connection>> {
    let places = Arc::new(Semaphore::new(bounds.connections.min(Semaphore::MAX_PERMITS)));
    let begun = (Port::new(listener, Protocol::Grpc.name()), JoinSet::new());
    stream::unfold(begun, move |(mut port, mut handshakes)| {
        let (places, tls, stopping) = (places.clone(), tls.clone(), stopping.clone());
        async move {
            let (transport, permit) = loop {
                let stream = tokio::select! {
                    stream = port.next() => stream,
                    Some(ended) = handshakes.join_next() => match ended {
                        Ok(Some(connected)) => break connected,
                        _ => continue,
                    },
                };
                let Ok(permit) = places.clone().try_acquire_owned() else {
                    metrics::counter!("mortise_grpc_connections_refused_total").increment(1);
                    port.full("grpc.max_connections");
                    continue;
                };
                let permit = CountedPermit::new(permit);
                match tls.clone() {
                    None => break (Transport::Tcp(stream), permit),
                    Some(tls) => {
                        // The server does not wait for it when it stops.
                        handshakes.spawn(async move { Some((tls.accept(stream, Protocol::Grpc).await?, permit)) });
                    }
                }
            };
            let preface = Some(Preface::new(bounds.preface, stopping));
            Some((Ok(Connection::new(transport, preface, permit)), (port, handshakes)))
        }
    })
}

/// Connections of this machine's own users, over a unix socket. They have places of their own, so that an operator gets in
/// when the port is full.
pub(crate) fn accept_local(
    listener: UnixListener,
    bounds: ConnectionLimits,
    stopping: watch::Receiver<bool>,
) -> impl Stream<Item = io::Result<Connection>> {
    let places = Arc::new(Semaphore::new(LOCAL_CONNECTIONS));
    stream::unfold(listener, move |listener| {
        let (places, stopping) = (places.clone(), stopping.clone());
        async move {
            loop {
                let stream = match listener.accept().await {
                    Ok((stream, _)) => stream,
                    Err(e) => {
                        tracing::warn!("the unix socket: cannot take a connection: {e}");
                        sleep(ACCEPT_RETRY_WAIT).await;
                        continue;
                    }
                };
                // Closed at once, as on the port.
                let Ok(permit) = places.clone().try_acquire_owned() else { continue };
                let permit = CountedPermit::new(permit);
                let preface = Some(Preface::new(bounds.preface, stopping));
                return Some((Ok(Connection::new(Transport::Unix(stream), preface, permit)), listener));
            }
        }
    })
}

/// What is known of the client of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    tcp: Option<TcpConnectInfo>,
    certificate: Option<PeerCertificate>,
    local: Option<LocalUser>,
}

impl Peer {
    /// Puts each part of it by itself among the extensions of a request that came with the whole.
    pub(crate) fn spread_into(extensions: &mut Extensions) {
        if let Some(Self { tcp, certificate, local }) = extensions.remove::<Self>() {
            tcp.map(|tcp| extensions.insert(tcp));
            certificate.map(|certificate| extensions.insert(certificate));
            local.map(|local| extensions.insert(local));
        }
    }
}

/// One connection. Reading fails if its client does not begin.
pub(crate) struct Connection {
    transport: SmallWrites<Transport>,
    /// Until it has begun.
    preface: Option<Preface>,
    _permit: CountedPermit,
}

impl Connection {
    fn new(transport: Transport, preface: Option<Preface>, permit: CountedPermit) -> Self {
        Self { transport: SmallWrites::new(transport), preface, _permit: permit }
    }
}

/// What is waited for, and how long.
struct Preface {
    missing: usize,
    patience: Fuse<BoxFuture<'static, ()>>,
}

impl Preface {
    fn new(limit: Duration, mut stopping: watch::Receiver<bool>) -> Self {
        let patience = async move {
            tokio::select! {
                () = sleep(limit) => {}
                // An error means that the sender is gone, which means stop too.
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        };
        Self { missing: PREFACE_BYTES, patience: patience.boxed().fuse() }
    }

    /// Fails once it has taken too long.
    fn poll_deadline<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if !self.patience.is_terminated() {
            ready!(self.patience.poll_unpin(cx));
        }
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not begin to speak HTTP/2 (limit http.request_timeout_ms)",
        )))
    }
}

/// One of the places that are bounded, counted while it is taken.
struct CountedPermit(#[expect(dead_code, reason = "held")] OwnedSemaphorePermit);

impl CountedPermit {
    fn new(permit: OwnedSemaphorePermit) -> Self {
        metrics::gauge!("mortise_grpc_connections").increment(1);
        Self(permit)
    }
}

impl Drop for CountedPermit {
    fn drop(&mut self) {
        metrics::gauge!("mortise_grpc_connections").decrement(1);
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        let transport = self.transport.inner();
        Peer { tcp: transport.connect_info(), certificate: transport.peer_certificate(), local: transport.local_user() }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.transport).poll_read(cx, buf);
        let Some(preface) = &mut self.preface else { return polled };
        if polled.is_pending() {
            return preface.poll_deadline(cx);
        }
        preface.missing = preface.missing.saturating_sub(buf.filled().len() - before);
        if preface.missing == 0 {
            self.preface = None;
        }
        polled
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use futures::StreamExt as _;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
        time::{Instant, timeout},
    };

    use super::*;
    use crate::tls::testing;

    const START: &[u8; PREFACE_BYTES] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const LONG: Duration = Duration::from_secs(60);

    type Opened = (SocketAddr, Pin<Box<dyn Stream<Item = io::Result<Connection>> + Send>>, watch::Sender<bool>);

    async fn open(connections: usize, preface: Duration) -> Opened {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, stopping) = watch::channel(false);
        (addr, accept(listener, ConnectionLimits { connections, preface }, None, stopping).boxed(), stop)
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
        // One byte now and then is no beginning, either.
        let mut slow = TcpStream::connect(addr).await.unwrap();
        let mut server = connections.next().await.unwrap().unwrap();
        tokio::spawn(async move {
            while slow.write_all(b"P").await.is_ok() {
                sleep(Duration::from_millis(20)).await;
            }
        });
        while server.read(&mut [0]).await.is_ok() {}
        assert!(server.preface.is_some());
        // One that has begun may be silent for longer.
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

        let told = Instant::now();
        stop.send_replace(true);
        assert!(late(&mut server).await);
        assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
        drop(server);
        assert_eq!(silent.read(&mut [0]).await.unwrap(), 0);
        client.write_all(b"x").await.unwrap();
        assert_eq!(begun.read_u8().await.unwrap(), b'x');
        // What is in time for the end is served.
        client = TcpStream::connect(addr).await.unwrap();
        client.write_all(START).await.unwrap();
        sleep(Duration::from_millis(50)).await;
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
        assert_eq!(server.connect_info().tcp.unwrap().remote_addr(), Some(client.local_addr().unwrap()));
        assert!(server.transport.inner().tcp().unwrap().nodelay().unwrap());
    }

    /// What requests on such a connection have among their extensions.
    fn unfolded(connection: &Connection) -> Extensions {
        let mut extensions = Extensions::new();
        extensions.insert(connection.connect_info());
        Peer::spread_into(&mut extensions);
        extensions
    }

    #[tokio::test]
    async fn requests_know_where_they_come_from_and_by_which_certificate() {
        let (addr, mut connections, _stop) = open(8, LONG).await;
        let client = TcpStream::connect(addr).await.unwrap();
        let extensions = unfolded(&connections.next().await.unwrap().unwrap());
        let source = |extensions: &Extensions| extensions.get::<TcpConnectInfo>().unwrap().remote_addr();
        assert_eq!(source(&extensions), Some(client.local_addr().unwrap()));
        assert_eq!(extensions.get::<PeerCertificate>(), None);

        let files = testing::Files::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (_stop, stopping) = watch::channel(false);
        let limits = ConnectionLimits { connections: 8, preface: LONG };
        let mut connections = accept(listener, limits, Some(files.load().await), stopping).boxed();
        for names in [Some(["robot.test", "spiffe://test/robot", "robot"]), None] {
            let connecting = files.connect(addr, names.is_some());
            let (client, server) = tokio::join!(connecting, connections.next());
            let extensions = unfolded(&server.unwrap().unwrap());
            assert_eq!(source(&extensions), Some(client.get_ref().0.local_addr().unwrap()));
            let found = extensions.get::<PeerCertificate>().map(|certificate| certificate.names.to_vec());
            assert_eq!(found, names.map(|names| names.map(str::to_owned).into()));
        }
    }
}
