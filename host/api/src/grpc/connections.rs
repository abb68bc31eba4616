//! The connections of the gRPC port: their number, and the time for their beginning.
//!
//! With TLS, a connection begins with a handshake in a task of its own, so that a slow client delays no other. It
//! counts among the connections from before the handshake.
//!
//! A connection begins with the preface that HTTP/2 requires of every client ([`super::preface`]). It is closed if the
//! preface is not complete in time, or when the server stops: no call can be running on it. From there on HTTP/2
//! watches it and drops a client that answers no ping. At the limit another connection makes room ([`crate::places`]).
//! An idle one gets GOAWAY, so that its client opens another one for its next call, and is closed; a busy one is closed
//! with its calls, for which its client gets Unavailable. If none makes room, the new one is closed at once and
//! silently: clients treat this like an absent server and come back later, while after an answer in HTTP/2 they would
//! retry at once.
//!
//! HTTP/2 gets the bytes of a connection in slices of [`SLICE_BYTES`], and the server begins the calls of a slice
//! before it reads the next. So a client that begins and resets calls at once takes turns with other connections, and
//! the number of calls that it has reset before they began stays below what HTTP/2 tolerates (`MAX_STREAMS` in
//! `server`).
//!
//! A connection with several calls lets other tasks run before it sends small frames: an event of a thousand watches
//! then goes out in some writes, and not in one for each watch. A task that wakes a connection is followed by that
//! connection at once otherwise, so each answer would go out by itself. Other threads may take the connection earlier:
//! it costs them a write, and nothing else. Larger frames do not wait.
//!
//! At its end a connection says so first (FIN), and then reads for a while the bytes that its client has sent meanwhile
//! ([`Lingering`]). A socket that is closed with unread bytes is reset, and the reset may overtake the last answers:
//! the client, which has them, would see a broken connection instead.
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

use futures::{Stream, StreamExt as _, future, stream};
use mortise_service::{Remote, Source};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpListener,
    sync::watch,
    task::{JoinSet, coop},
    time::Instant,
};
use tonic::transport::server::Connected;

use super::{
    lingering::Lingering,
    preface::{ForeignAnswer, Preface, Spoken},
    small_writes::SmallWrites,
};
use crate::{
    peer::{LocalUser, PeerCertificate},
    places::{Place, Places, Usage},
    port::Port,
    tls::{Protocol, Tls},
    transport::{LocalConnections, Transport},
};

/// Concurrent connections over the unix socket.
const LOCAL_CONNECTIONS: usize = 256;

/// Bytes that HTTP/2 reads from a connection before the calls in them begin. A call that begins and is reset takes at
/// least 26 bytes, so a slice has fewer of them than HTTP/2 tolerates.
const SLICE_BYTES: usize = 32 << 10;

/// GOAWAY with the last stream 0 and without an error: a frame of 8 bytes on the connection's own stream. A client may
/// repeat every call that has no complete answer by then. So it is sent only while no call runs, and behind the last
/// bytes of their answers.
const GO_AWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// Concurrent connections.
    pub(crate) connections: usize,
    /// Whether callers have credentials, so that a part of the connections is for those.
    pub(crate) has_reserve: bool,
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
    let places = Places::with_reserve("grpc", bounds.connections, bounds.has_reserve);
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

/// The known facts about the client of a connection. Each request of the connection has them as an
/// `Arc<ConnectionFacts>` in its extensions.
#[derive(Debug)]
pub(crate) struct ConnectionFacts {
    pub(crate) remote: Remote,
    /// The connection, as a source of calls. All connections over the unix socket are one.
    pub(crate) source: Source,
    pub(crate) certificate: Option<PeerCertificate>,
    pub(crate) local: Option<LocalUser>,
    pub(crate) usage: Arc<Usage>,
}

/// A connection. Reading fails if the preface is late.
pub(crate) struct Connection {
    transport: SmallWrites<Transport>,
    /// Present until the connection has begun.
    preface: Option<Preface>,
    /// Present if the client speaks another protocol.
    foreign: Option<ForeignAnswer>,
    /// Bytes that HTTP/2 may read before it lets the calls in them begin.
    slice: usize,
    gathering: Gathering,
    leaving: Leaving,
    /// Present once the end was sent.
    lingering: Option<Lingering>,
    place: CountedPlace,
}

/// The way out of a connection that has to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// HTTP/2 begins the calls that it has read.
    Asked,
    /// All calls have ended; HTTP/2 sends the rest of their answers.
    Flushing,
    /// The rest of their answers was sent.
    Flushed,
    /// GOAWAY was sent, if the client has taken all answers.
    Gone,
    /// The connection ends with its calls.
    Cut,
}

/// The progress of letting other tasks run before output is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gathering {
    /// The next output waits.
    Idle,
    /// Output waits while other tasks run.
    Waiting,
    /// They have run: output goes out until HTTP/2 reads again.
    Done,
}

/// The end of a connection whose calls end, too.
fn cut() -> io::Error {
    let what = "another address took the place of this connection, since this address has the most";
    io::Error::new(io::ErrorKind::ConnectionAborted, what)
}

impl Connection {
    fn new(transport: Transport, preface: Option<Preface>, place: CountedPlace) -> Self {
        let transport = SmallWrites::new(transport);
        Self {
            transport,
            preface,
            foreign: None,
            slice: SLICE_BYTES,
            gathering: Gathering::Idle,
            leaving: Leaving::No,
            lingering: None,
            place,
        }
    }

    /// Takes the next step of a connection that has to leave; ready at its end. Calls that HTTP/2 has read begin before
    /// that, and keep the connection open until they end.
    fn poll_leave(&mut self, cx: &mut Context<'_>) -> Poll<Leaving> {
        match self.leaving {
            Leaving::No if self.place.0.usage.poll_leave(cx).is_ready() => {
                if self.place.0.usage.ends_calls() {
                    self.leaving = Leaving::Cut;
                } else {
                    self.leaving = Leaving::Asked;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            // HTTP/2 reads before it writes, and may hold the end of an answer.
            Leaving::Asked if self.place.0.usage.is_idle() => {
                self.leaving = Leaving::Flushing;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Leaving::Flushing | Leaving::Flushed if !self.place.0.usage.is_idle() => self.leaving = Leaving::Asked,
            Leaving::Flushing => self.leaving = Leaving::Gone,
            Leaving::Flushed => {
                self.leaving = Leaving::Gone;
                if self.preface.is_none() {
                    self.say_go_away(cx);
                }
            }
            Leaving::No | Leaving::Asked | Leaving::Gone | Leaving::Cut => {}
        }
        Poll::Ready(self.leaving)
    }

    /// Lets the tasks that are ready run before small output is sent, so that calls among them add theirs; once for
    /// each time that HTTP/2 reads, however often it flushes.
    fn poll_gathered(&mut self, cx: &Context<'_>) -> Poll<()> {
        match self.gathering {
            Gathering::Idle if self.transport.holds_bytes() && self.place.0.usage.has_several_calls() => {
                self.gathering = Gathering::Waiting;
                // A task that wakes itself goes behind those that are ready.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Gathering::Waiting => self.gathering = Gathering::Done,
            Gathering::Idle | Gathering::Done => {}
        }
        Poll::Ready(())
    }

    /// Fails once the connection has to end with its calls. HTTP/2 does not read while the client takes nothing.
    fn check_cut(&self, cx: &Context<'_>) -> io::Result<()> {
        let usage = &self.place.0.usage;
        match usage.poll_leave(cx).is_ready() && usage.ends_calls() {
            true => Err(cut()),
            false => Ok(()),
        }
    }

    /// Sends GOAWAY, unless the client does not take it: the connection ends in any case.
    fn say_go_away(&mut self, cx: &mut Context<'_>) {
        let mut transport = Pin::new(&mut self.transport);
        if transport.as_mut().poll_flush(cx).is_ready() && transport.as_mut().poll_write(cx, &GO_AWAY).is_ready() {
            let _ = transport.poll_flush(cx);
        }
    }

    /// Answers a client of another protocol; ready at the end of the connection.
    fn poll_foreign(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { foreign: Some(foreign), transport, preface, .. } = self else { return Poll::Ready(Ok(())) };
        match (foreign.poll(transport, cx), preface) {
            (Poll::Pending, Some(preface)) => preface.poll_deadline(cx),
            (polled, _) => polled,
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
    type ConnectInfo = Arc<ConnectionFacts>;

    fn connect_info(&self) -> Arc<ConnectionFacts> {
        let transport = self.transport.inner();
        let address = transport.connect_info().and_then(|tcp| tcp.remote_addr());
        let local = transport.local_user();
        let remote = match (address, local) {
            (Some(address), _) => Remote::from_address(address),
            (None, Some(user)) => Remote::User(user.uid()),
            (None, None) => Remote::Unknown,
        };
        Arc::new(ConnectionFacts {
            remote,
            source: Source::from_key(address),
            certificate: transport.peer_certificate(),
            local,
            usage: self.place.0.usage.clone(),
        })
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match ready!(self.poll_leave(cx)) {
            // The end of the connection, for HTTP/2.
            Leaving::Gone => return Poll::Ready(Ok(())),
            Leaving::Cut => return Poll::Ready(Err(cut())),
            Leaving::No | Leaving::Asked | Leaving::Flushing | Leaving::Flushed => {}
        }
        if self.foreign.is_some() {
            return self.poll_foreign(cx);
        }
        self.gathering = match self.gathering {
            Gathering::Waiting => Gathering::Done,
            Gathering::Idle | Gathering::Done => Gathering::Idle,
        };
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
        let known = preface.spoken();
        match preface.take(buf.filled().get(before..).unwrap_or_default()) {
            Spoken::Unknown => {}
            Spoken::Http2 => {
                if preface.is_complete() {
                    self.preface = None;
                }
                if known == Spoken::Unknown {
                    // What HTTP/2 has written so far; the rest is written when the transport takes it.
                    let _ = Pin::new(&mut self.transport).poll_flush(cx);
                }
            }
            Spoken::Other => {
                buf.set_filled(before);
                self.transport.discard();
                self.foreign = Some(ForeignAnswer::new());
                return self.poll_foreign(cx);
            }
        }
        polled
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check_cut(cx)?;
        if self.foreign.is_some() {
            return Poll::Ready(Ok(buf.len()));
        }
        Pin::new(&mut self.transport).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_cut(cx)?;
        let is_unknown = self.preface.as_ref().is_some_and(|preface| preface.spoken() == Spoken::Unknown);
        if is_unknown || self.foreign.is_some() {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_gathered(cx));
        ready!(Pin::new(&mut self.transport).poll_flush(cx))?;
        if self.leaving == Leaving::Flushing {
            self.leaving = Leaving::Flushed;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A connection that has to leave makes room at once.
        let leaves = self.place.0.usage.poll_leave(cx).is_ready();
        if self.lingering.is_none() {
            match Pin::new(&mut self.transport).poll_shutdown(cx) {
                Poll::Pending if leaves => return Poll::Ready(Ok(())),
                polled => ready!(polled)?,
            }
        }
        if leaves {
            return Poll::Ready(Ok(()));
        }
        let Self { transport, lingering, .. } = &mut *self;
        lingering.get_or_insert_with(Lingering::new).poll_end(transport, cx).map(Ok)
    }
}

#[cfg(test)]
mod tests;
