//! A client of HTTP/2 that sends any frames, in any order, and sees each frame of the server. It keeps no window of its
//! own, so it is for short answers only.

use std::net::{IpAddr, SocketAddr};

use prost::Message;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::support::PATIENCE;

pub const WATCH_LIST: &str = "/hashicorp.consul.resource.ResourceService/WatchList";

pub const WRITE: &str = "/hashicorp.consul.resource.ResourceService/Write";

pub const LIST: &str = "/hashicorp.consul.resource.ResourceService/List";

/// Types of frames.
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
}

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// A frame of the server.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// Whether the server's side of the stream ends here.
    pub fn is_last(&self) -> bool {
        self.kind == kind::RST_STREAM
            || (matches!(self.kind, kind::DATA | kind::HEADERS) && self.flags & END_STREAM != 0)
    }
}

/// A connection. Frames are written together, by [`Connection::flush`].
pub struct Connection<S = TcpStream> {
    stream: S,
    unsent: Vec<u8>,
    next: u32,
    pings: u64,
    /// The `:authority` of further calls.
    pub authority: String,
}

/// A message as gRPC frames it.
pub fn message(message: &impl Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
    [&[0], length.as_slice(), &bytes].concat()
}

impl Connection {
    pub async fn open(server: SocketAddr) -> Self {
        Self::open_from([127, 0, 0, 1], server).await
    }

    /// Connects from an address, which stands for another machine.
    pub async fn open_from(address: impl Into<IpAddr>, server: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(address.into(), 0)).unwrap();
        Self::over(socket.connect(server).await.unwrap()).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Begins on an open stream.
    pub async fn over(stream: S) -> Self {
        let mut connection = Self { stream, unsent: Vec::new(), next: 1, pings: 0, authority: "localhost".to_owned() };
        connection.unsent.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        connection.frame(kind::SETTINGS, 0, 0, &[]);
        connection.flush().await;
        connection
    }

    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        self.unsent.extend_from_slice(&length[1..]);
        self.unsent.extend_from_slice(&[kind, flags]);
        self.unsent.extend_from_slice(&stream.to_be_bytes());
        self.unsent.extend_from_slice(payload);
    }

    /// Begins a call; returns its stream.
    pub fn begin(&mut self, path: &str) -> u32 {
        self.begin_with(path, &[])
    }

    /// Begins a call with further headers.
    pub fn begin_with(&mut self, path: &str, more: &[(&str, &str)]) -> u32 {
        let stream = self.next;
        self.next += 2;
        self.request(stream, path, more);
        stream
    }

    /// Sends the head of a request on a stream, used or not.
    pub fn request(&mut self, stream: u32, path: &str, more: &[(&str, &str)]) {
        // `:method: POST` and `:scheme: http` are in HPACK's table; the others are literals.
        let mut block = vec![0x83, 0x86];
        let authority = self.authority.clone();
        let headers =
            [(":path", path), (":authority", &authority), ("content-type", "application/grpc"), ("te", "trailers")];
        for (name, value) in headers.iter().chain(more) {
            block.push(0);
            for text in [name, value] {
                assert!(text.len() < 127);
                block.push(text.len() as u8);
                block.extend_from_slice(text.as_bytes());
            }
        }
        self.frame(kind::HEADERS, END_HEADERS, stream, &block);
    }

    pub fn data(&mut self, stream: u32, bytes: &[u8], last: bool) {
        self.frame(kind::DATA, if last { END_STREAM } else { 0 }, stream, bytes);
    }

    /// Ends a request with a field behind its DATA.
    pub fn trailers(&mut self, stream: u32) {
        self.frame(kind::HEADERS, END_HEADERS | END_STREAM, stream, b"\0\x05x-sum\x011");
    }

    /// Gives a call up.
    pub fn reset(&mut self, stream: u32) {
        self.frame(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }

    /// Lets the server send without waiting for this client.
    pub fn open_windows(&mut self) {
        const INITIAL_WINDOW: [u8; 6] = [0, 4, 0x7f, 0xff, 0xff, 0xff];
        self.frame(kind::SETTINGS, 0, 0, &INITIAL_WINDOW);
        self.window_update(0, 0x7fff_0000);
    }

    pub fn window_update(&mut self, stream: u32, by: u32) {
        self.frame(kind::WINDOW_UPDATE, 0, stream, &by.to_be_bytes());
    }

    pub async fn flush(&mut self) {
        self.try_flush().await.expect("the connection is open");
    }

    pub async fn try_flush(&mut self) -> std::io::Result<()> {
        let bytes = std::mem::take(&mut self.unsent);
        timeout(PATIENCE, self.stream.write_all(&bytes)).await.expect("the server reads")
    }

    /// Reads a frame; acknowledges settings, and pings of the server.
    pub async fn next(&mut self) -> std::io::Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.stream.read_exact(&mut payload).await?;
        let stream = u32::from_be_bytes(head[5..9].try_into().unwrap());
        let frame = Frame { kind: head[3], flags: head[4], stream, payload };
        if matches!(frame.kind, kind::SETTINGS | kind::PING) && frame.flags & ACK == 0 {
            let payload = if frame.kind == kind::PING { frame.payload.clone() } else { Vec::new() };
            self.frame(frame.kind, ACK, 0, &payload);
            self.try_flush().await?;
        }
        Ok(frame)
    }

    /// Reads until a frame fits. Gives windows back for DATA.
    pub async fn until(&mut self, fits: impl Fn(&Frame) -> bool) -> Frame {
        let reading = async {
            loop {
                let frame = self.next().await.expect("the connection is open");
                if frame.kind == kind::DATA && !frame.payload.is_empty() {
                    self.window_update(0, frame.payload.len() as u32);
                }
                if fits(&frame) {
                    return frame;
                }
                assert_ne!(frame.kind, kind::GOAWAY, "the server ends the connection: {frame:?}");
            }
        };
        timeout(PATIENCE, reading).await.expect("the frame comes in time")
    }

    /// Sends what is unsent and a ping, and waits for its answer: the server has read everything.
    pub async fn ping(&mut self) {
        self.pings += 1;
        let number = self.pings.to_be_bytes();
        self.frame(kind::PING, 0, 0, &number);
        self.flush().await;
        self.until(|frame| frame.kind == kind::PING && frame.flags & ACK != 0 && frame.payload == number).await;
    }

    /// Waits for GOAWAY with an error, or for the end behind it: a reset may overtake the frame.
    pub async fn until_gone(&mut self, what: &str) {
        let reading = async {
            while let Ok(frame) = self.next().await {
                if frame.kind == kind::GOAWAY {
                    assert_ne!(frame.payload[4..8], [0; 4], "{what}: {frame:?}");
                    return;
                }
            }
        };
        timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("{what}: the server goes on"));
    }
}
