//! The connections of the gRPC port: their number, and the time for their beginning.
//!
//! With TLS, a connection begins with a handshake in a task of its own, so that a slow client delays no other. It
//! counts among the connections from before the handshake.
//!
//! A connection begins with the preface that HTTP/2 requires of every client. It is closed if the preface is not
//! complete in time, or when the server stops: no call can be running on it. From there on HTTP/2 watches it and drops
//! a client that answers no ping. At the limit an idle connection makes room ([`crate::places`]): it gets GOAWAY, so
//! that its client opens another one for its next call, and is closed. If no connection is idle, the new one is closed
//! at once and silently: clients treat this like an absent server and come back later, while after an answer in HTTP/2
//! they would retry at once.
//!
//! HTTP/2 gets the bytes of a connection in slices of [`SLICE_BYTES`], and the server begins the calls of a slice before
//! it reads the next. So a client that begins and resets calls at once takes turns with other connections, and the
//! number of calls that it has reset before they began stays below what HTTP/2 tolerates (`MAX_STREAMS` in `server`).
//!
//! Cost: about 16 KiB for a connection without calls, 4 more once it was written to, and a timer until it has begun; no
//! task of its own.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use ::http::Extensions;
use futures::{
    FutureExt as _, Stream, StreamExt as _,
    future::{self, BoxFuture, Fuse, FusedFuture as _},
    stream,
};
use mortise_service::Source;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpListener,
    sync::watch,
    task::{JoinSet, coop},
    time::{Instant, sleep},
};
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::small_writes::SmallWrites;
use crate::{
    peer::{LocalUser, PeerCertificate},
    places::{Place, Places, Usage},
    port::Port,
    ports::LocalConnections,
    tls::{Protocol, Tls},
    transport::Transport,
};

/// Fewest bytes that a client sends at first: the constant 24 bytes, and the head of a settings frame.
const PREFACE_BYTES: usize = 24 + 9;

/// Concurrent connections over the unix socket.
const LOCAL_CONNECTIONS: usize = 256;

/// Bytes that HTTP/2 reads from a connection before the calls in them begin. A call that begins and is reset takes at
/// least 26 bytes, so a slice has fewer of them than HTTP/2 tolerates.
const SLICE_BYTES: usize = 32 << 10;

/// GOAWAY with the last stream 0 and without an error: a frame of 8 bytes on the connection's own stream. It is sent only
/// while no call runs, so every call behind it is one that the server has not seen.
const GO_AWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// Concurrent connections.
    pub(crate) connections: usize,
    /// Longest time for the preface.
    pub(crate) preface: Duration,
}

/// Accepts connections for ever. When the server stops, connections without a complete preface end.
pub(crate) fn accept(
    listener: TcpListener,
    bounds: ConnectionLimits,
    tls: Option<Arc<Tls>>,
    stopping: watch::Receiver<bool>,
) -> impl Stream<Item = io::Result<Connection>> {
    let places = Places::new("grpc", bounds.connections);
    let begun = (Port::new(listener, Protocol::Grpc.name()), JoinSet::new());
    stream::unfold(begun, move |(mut port, mut handshakes)| {
        let (places, tls, stopping) = (places.clone(), tls.clone(), stopping.clone());
        async move {
            let (transport, place) = loop {
                let (stream, address) = tokio::select! {
                    connected = port.next() => connected,
                    Some(ended) = handshakes.join_next() => match ended {
                        Ok(Some(connected)) => break connected,
                        _ => continue,
                    },
                };
                let Some(place) = CountedPlace::take(&places, address) else {
                    metrics::counter!("mortise_grpc_connections_refused_total").increment(1);
                    port.full("grpc.max_connections");
                    continue;
                };
                match tls.clone() {
                    None => break (Transport::Tcp(stream), place),
                    Some(tls) => {
                        // A stopping server does not wait for handshakes.
                        handshakes.spawn(async move {
                            let usage = place.0.usage.clone();
                            tokio::select! {
                                transport = tls.accept(stream, Protocol::Grpc) => Some((transport?, place)),
                                () = usage.has_to_leave() => None,
                            }
                        });
                    }
                }
            };
            let preface = Some(Preface::new(bounds.preface, stopping));
            Some((Ok(Connection::new(transport, preface, place)), (port, handshakes)))
        }
    })
}

/// Begins connections of local users over a unix socket. They have places of their own, shared by user, so that an
/// operator gets in when the port is full.
pub(crate) fn accept_local(
    connections: LocalConnections,
    bounds: ConnectionLimits,
    stopping: watch::Receiver<bool>,
) -> impl Stream<Item = io::Result<Connection>> {
    let places = Places::new("local", LOCAL_CONNECTIONS);
    connections.filter_map(move |stream| {
        let transport = Transport::Unix(stream);
        let user = transport.local_user().map(LocalUser::uid);
        // Over the limit the connection is closed at once, as on the port.
        let place = CountedPlace::take(&places, Source::from_key(("user", user)));
        let preface = Some(Preface::new(bounds.preface, stopping.clone()));
        future::ready(place.map(|place| Ok(Connection::new(transport, preface, place))))
    })
}

/// The known facts about the client of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    tcp: Option<TcpConnectInfo>,
    certificate: Option<PeerCertificate>,
    local: Option<LocalUser>,
    usage: Arc<Usage>,
}

impl Peer {
    /// Moves each fact into the request's extensions as a value of its own.
    pub(crate) fn spread_into(extensions: &mut Extensions) {
        if let Some(Self { tcp, certificate, local, usage }) = extensions.remove::<Self>() {
            extensions.insert(usage);
            tcp.map(|tcp| extensions.insert(tcp));
            certificate.map(|certificate| extensions.insert(certificate));
            local.map(|local| extensions.insert(local));
        }
    }
}

/// A connection. Reading fails if the preface is late.
pub(crate) struct Connection {
    transport: SmallWrites<Transport>,
    /// Present until the connection has begun.
    preface: Option<Preface>,
    /// Bytes that HTTP/2 may read before it lets the calls in them begin.
    slice: usize,
    leaving: Leaving,
    place: CountedPlace,
}

/// The way out of a connection that has to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// HTTP/2 begins the calls that it has read.
    Asked,
    /// GOAWAY was sent.
    Gone,
}

impl Connection {
    fn new(transport: Transport, preface: Option<Preface>, place: CountedPlace) -> Self {
        Self { transport: SmallWrites::new(transport), preface, slice: SLICE_BYTES, leaving: Leaving::No, place }
    }

    /// Takes the next step of a connection that has to leave; ready at its end. Calls that HTTP/2 has read begin before
    /// that, and keep the connection open until they end.
    fn poll_leave(&mut self, cx: &mut Context<'_>) -> Poll<Leaving> {
        match self.leaving {
            Leaving::No if self.place.0.usage.poll_leave(cx).is_ready() => {
                self.leaving = Leaving::Asked;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Leaving::Asked if self.place.0.usage.is_idle() => {
                self.leaving = Leaving::Gone;
                if self.preface.is_none() {
                    self.say_go_away(cx);
                }
            }
            Leaving::No | Leaving::Asked | Leaving::Gone => {}
        }
        Poll::Ready(self.leaving)
    }

    /// Sends GOAWAY, unless the client has not taken what was sent before: the connection ends in any case.
    fn say_go_away(&mut self, cx: &mut Context<'_>) {
        let mut transport = Pin::new(&mut self.transport);
        if transport.as_mut().poll_flush(cx).is_ready() && transport.as_mut().poll_write(cx, &GO_AWAY).is_ready() {
            let _ = transport.poll_flush(cx);
        }
    }
}

/// Uses up what the runtime lets the task do at a time: nothing more is read until other tasks have had their turn, and
/// HTTP/2 goes on to begin calls. Outside of a runtime it has no effect.
fn end_turn(cx: &mut Context<'_>) {
    for _ in 0..=u8::MAX {
        match coop::poll_proceed(cx) {
            Poll::Ready(turn) => turn.made_progress(),
            Poll::Pending => return,
        }
    }
}

/// The wait for the preface, and its limit.
struct Preface {
    missing: usize,
    patience: Fuse<BoxFuture<'static, ()>>,
}

impl Preface {
    fn new(limit: Duration, mut stopping: watch::Receiver<bool>) -> Self {
        let patience = async move {
            tokio::select! {
                () = sleep(limit) => {}
                // An error means that the sender is gone, which also means stop.
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        };
        Self { missing: PREFACE_BYTES, patience: patience.boxed().fuse() }
    }

    /// Fails once the time is up.
    fn poll_deadline<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if !self.patience.is_terminated() {
            ready!(self.patience.poll_unpin(cx));
        }
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client did not begin HTTP/2 in time (limit http.request_timeout_ms)",
        )))
    }
}

/// A place, counted while it is taken.
struct CountedPlace(Place);

impl CountedPlace {
    fn take(places: &Arc<Places>, address: Source) -> Option<Self> {
        let place = places.take(address, Instant::now())?;
        metrics::gauge!("mortise_grpc_connections").increment(1);
        Some(Self(place))
    }
}

impl Drop for CountedPlace {
    fn drop(&mut self) {
        metrics::gauge!("mortise_grpc_connections").decrement(1);
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        let transport = self.transport.inner();
        Peer {
            tcp: transport.connect_info(),
            certificate: transport.peer_certificate(),
            local: transport.local_user(),
            usage: self.place.0.usage.clone(),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if ready!(self.poll_leave(cx)) == Leaving::Gone {
            // The end of the connection, for HTTP/2.
            return Poll::Ready(Ok(()));
        }
        if self.slice == 0 {
            self.slice = SLICE_BYTES;
            end_turn(cx);
        }
        let turn = ready!(coop::poll_proceed(cx));
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.transport).poll_read(cx, buf);
        if polled.is_ready() {
            turn.made_progress();
        }
        self.slice = self.slice.saturating_sub(buf.filled().len() - before);
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
        // Single bytes now and then do not complete the preface.
        let mut slow = TcpStream::connect(addr).await.unwrap();
        let mut server = connections.next().await.unwrap().unwrap();
        tokio::spawn(async move {
            while slow.write_all(b"P").await.is_ok() {
                // The pace of a slow client.
                sleep(Duration::from_millis(20)).await;
            }
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

        let told = Instant::now();
        stop.send_replace(true);
        assert!(late(&mut server).await);
        assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
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
        assert_eq!(server.connect_info().tcp.unwrap().remote_addr(), Some(client.local_addr().unwrap()));
        assert!(server.transport.inner().tcp().unwrap().nodelay().unwrap());
    }

    /// Extensions of a request on the connection.
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
