//! Watches over HTTP: server-sent events, and their messages as those of the other watches.
//!
//! The client speaks HTTP/1.1, since the last chunk tells an end by the server from a lost connection. A watch of a
//! query gives its position as the id of an event, others the version; either goes back as `Last-Event-ID`. Reading is
//! safe to cancel. An event of more than [`MAX_EVENT`] counts as a lost connection.

use std::net::SocketAddr;

use mortise_proof::record::{Change, End, Message, Mode, Scope};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::Status;

use super::http;

/// Longest event and head, bytes.
const MAX_EVENT: usize = 16 << 20;
/// A filter with which every resource agrees: it makes a watch one of a query.
const FILTER: &str = "filter=id.name%20!%3D%20%22none%22";

/// The events of an open watch.
pub(crate) struct Events {
    connection: TcpStream,
    /// Received bytes, in chunks.
    chunks: Vec<u8>,
    /// Received bytes, without their chunks.
    body: Vec<u8>,
    /// Tells whether the last chunk was received.
    is_over: bool,
    mode: Mode,
    /// The end, once it is known.
    pub(crate) end: End,
}

/// An event.
#[derive(Debug, Default, PartialEq, Eq)]
struct Event {
    name: String,
    id: Option<String>,
    data: String,
}

/// Path of a watch of a list, or of a query.
pub(crate) fn path(scope: &Scope, mode: Mode, prefix: &str) -> String {
    let query = if mode == Mode::Stateless { format!("&{FILTER}") } else { String::new() };
    format!("{}&name_prefix={prefix}{query}", http::list_path(scope).replacen('?', "/_watch?", 1))
}

impl Events {
    /// Opens a watch; `last` is the last id of an earlier one, empty without one.
    ///
    /// # Errors
    /// The connection is lost, or the server refuses the watch.
    pub(crate) async fn open(addr: SocketAddr, path: &str, mode: Mode, last: &str) -> Result<Self, Status> {
        let last = if last.is_empty() { String::new() } else { format!("last-event-id: {last}\r\n") };
        let head = format!("GET {path} HTTP/1.1\r\nhost: {addr}\r\naccept: text/event-stream\r\n{last}\r\n");
        let mut connection = TcpStream::connect(addr).await.map_err(lost)?;
        connection.write_all(head.as_bytes()).await.map_err(lost)?;
        let mut events =
            Self { connection, chunks: Vec::new(), body: Vec::new(), is_over: false, mode, end: End::Open };
        let head = loop {
            if let Some(head) = until(&mut events.chunks, b"\r\n\r\n") {
                break String::from_utf8_lossy(&head).into_owned();
            }
            events.receive().await?;
        };
        match head.split_whitespace().nth(1) {
            Some("200") => Ok(events),
            status => Err(Status::unavailable(format!("the watch was answered with HTTP {status:?}"))),
        }
    }

    /// Returns the next message with the id of its event; `None` at the end.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) async fn next(&mut self) -> Result<Option<(Message, Option<String>)>, Status> {
        loop {
            if let Some(event) = until(&mut self.body, b"\n\n") {
                let event = parse(&String::from_utf8_lossy(&event));
                if event.name == "closed" {
                    self.end = End::Announced;
                    return Ok(None);
                }
                if !event.name.is_empty() {
                    return Ok(Some((message(&event, self.mode), event.id)));
                }
            } else if !self.unpack()? {
                if self.is_over {
                    self.end = End::Silent;
                    return Ok(None);
                }
                self.receive().await?;
            }
        }
    }

    /// Takes a chunk out of the received bytes; returns whether there was one.
    fn unpack(&mut self) -> Result<bool, Status> {
        let Some(line) = self.chunks.windows(2).position(|pair| pair == b"\r\n") else { return Ok(false) };
        let length = self.chunks.get(..line).and_then(|line| std::str::from_utf8(line).ok());
        let length = length.and_then(|length| usize::from_str_radix(length.trim(), 16).ok());
        let length = length.filter(|length| *length <= MAX_EVENT).ok_or_else(|| Status::unavailable("no chunk"))?;
        let (begin, end) = (line + 2, line + 2 + length);
        // The chunk ends with a line break of its own.
        if self.chunks.len() < end + 2 {
            return Ok(false);
        }
        self.body.extend(self.chunks.get(begin..end).unwrap_or_default());
        self.chunks.drain(..end + 2);
        self.is_over |= length == 0;
        Ok(length > 0)
    }

    async fn receive(&mut self) -> Result<(), Status> {
        match self.connection.read_buf(&mut self.chunks).await.map_err(lost)? {
            0 => Err(Status::unavailable("the connection was closed")),
            _ if self.chunks.len() + self.body.len() > 2 * MAX_EVENT => {
                Err(Status::unavailable("an event is too long"))
            }
            _ => Ok(()),
        }
    }
}

fn lost(error: std::io::Error) -> Status {
    Status::unavailable(error.to_string())
}

/// Takes bytes up to a mark, and the mark itself.
fn until(bytes: &mut Vec<u8>, mark: &[u8]) -> Option<Vec<u8>> {
    let at = bytes.windows(mark.len()).position(|window| window == mark)?;
    Some(bytes.drain(..at + mark.len()).collect())
}

/// Reads an event; a comment has no name.
fn parse(text: &str) -> Event {
    let mut event = Event::default();
    for (field, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match field {
            "event" => event.name = value,
            "id" => event.id = Some(value),
            "data" => event.data = value,
            _ => {}
        }
    }
    event
}

fn message(event: &Event, mode: Mode) -> Message {
    let data: Value = serde_json::from_str(&event.data).unwrap_or(Value::Null);
    let state = || http::state(&data);
    let change = match event.name.as_str() {
        "upsert" => Some(Change::Upsert(state())),
        "delete" => {
            let state = state();
            let version = Some(state.version).filter(|_| mode == Mode::List);
            let incarnation = mortise_proof::record::Incarnation { key: state.key, uid: state.uid };
            Some(Change::Gone { incarnation, version })
        }
        _ => None,
    };
    Message {
        received: 0,
        changes: change.into_iter().collect(),
        // The id of an event of a query stands for everything before.
        is_current: event.name == "end-of-snapshot" || (mode == Mode::Stateless && event.id.is_some()),
        is_soft_reset: false,
        is_hard_reset: event.name == "reset",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_name_an_id_and_data() {
        let event = parse("event: upsert\nid: 7\ndata: {\"a\":\"b: c\"}\n\n");
        assert_eq!((event.name.as_str(), event.id.as_deref()), ("upsert", Some("7")));
        assert_eq!(event.data, "{\"a\":\"b: c\"}");
        assert_eq!(parse(": alive\n\n").name, "");
    }
}
