//! A small HTTP client, and common steps of tests of the HTTP port.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Request, StatusCode, body::Incoming};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};

use crate::support::{PATIENCE, Server};

/// Path of the demo artists.
pub const ARTISTS: &str = "/api/demo/v2/artist";

/// Content type of a problem.
pub const PROBLEM: &str = "application/problem+json";

/// A complete answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
    /// The text of the answer: the body, or the code and the detail of a problem as Consul's text.
    text: String,
}

impl Answer {
    /// The status code.
    pub fn code(&self) -> u16 {
        self.status.as_u16()
    }

    /// A header's text; empty if absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The body as JSON; the answer must be a success.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.code(), 200, "{self:?}");
        assert_eq!(self.header("content-type"), "application/json", "{self:?}");
        self.json()
    }

    /// Code and text.
    pub fn said(&self) -> (u16, &str) {
        (self.code(), &self.text)
    }

    fn new(status: StatusCode, headers: HeaderMap, body: String) -> Self {
        let mut answer = Self { status, headers, text: body.clone(), body };
        if answer.header("content-type") == PROBLEM && !answer.body.is_empty() {
            let problem = answer.json();
            assert_eq!(problem["status"], answer.code(), "{answer:?}");
            let detail = problem["detail"].as_str().unwrap();
            answer.text = match problem["code"].as_str() {
                Some(code) => format!("rpc error: code = {code} desc = {detail}"),
                None => detail.to_owned(),
            };
        }
        answer
    }

    /// The problem object of the answer, which must have this code and name, with the fields that every problem has.
    #[track_caller]
    pub fn problem(&self, code: u16, name: &str) -> Value {
        assert_eq!(self.code(), code, "{self:?}");
        assert_eq!(self.header("content-type"), PROBLEM, "{self:?}");
        let problem = self.json();
        assert_eq!(problem["type"], format!("urn:mortise:problem:{name}"), "{self:?}");
        assert_eq!(problem["status"], code, "{self:?}");
        for text in ["title", "detail", "instance"] {
            assert!(problem[text].as_str().is_some_and(|text| !text.is_empty()), "{text}: {self:?}");
        }
        problem
    }
}

/// A request under construction.
pub struct Asking<'a> {
    server: &'a Server,
    request: hyper::http::request::Builder,
    body: Bytes,
}

impl Server {
    /// A request to the HTTP port.
    pub fn ask(&self, method: &str, path: &str) -> Asking<'_> {
        let request = Request::builder().method(method).uri(path).header("host", self.http.to_string());
        Asking { server: self, request, body: Bytes::new() }
    }

    /// The answer to a PUT of data.
    pub async fn put(&self, path: &str, data: Value) -> Answer {
        self.ask("PUT", path).json(&json!({ "data": data })).await_answer().await
    }

    /// The answer to a GET.
    pub async fn fetch(&self, path: &str) -> Answer {
        self.ask("GET", path).await_answer().await
    }
}

impl Asking<'_> {
    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a body of JSON.
    pub fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json").body(body.to_string())
    }

    /// Sends the request; returns the head of the answer, and the rest as a stream.
    pub async fn open(self) -> (hyper::http::response::Parts, Incoming) {
        let stream = TcpStream::connect(self.server.http).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = self.request.body(Full::new(self.body)).unwrap();
        timeout(PATIENCE, sender.send_request(request)).await.expect("an answer in time").unwrap().into_parts()
    }

    /// Sends the request; returns the answer.
    pub async fn await_answer(self) -> Answer {
        let (head, body) = self.open().await;
        let body = timeout(PATIENCE, body.collect()).await.expect("a body in time").unwrap().to_bytes();
        Answer::new(head.status, head.headers, String::from_utf8(body.to_vec()).unwrap())
    }
}

/// A server-sent event.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Sent {
    pub event: String,
    pub id: String,
    pub data: String,
}

impl Sent {
    /// The data as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }

    /// The event's kind and the resource's name.
    pub fn about(&self) -> (&str, String) {
        (&self.event, self.json()["id"]["name"].as_str().unwrap_or_default().to_owned())
    }
}

/// An open stream of events.
pub struct Events {
    body: Incoming,
    text: String,
    /// Comments so far.
    pub comments: usize,
}

impl Events {
    /// Opens a stream.
    pub async fn open(server: &Server, path: &str) -> Self {
        Self::of(server.ask("GET", path)).await
    }

    /// Opens a stream as a client that has seen an event.
    pub async fn again(server: &Server, path: &str, last: &str) -> Self {
        Self::of(server.ask("GET", path).header("last-event-id", last)).await
    }

    /// Opens the stream of a request.
    pub async fn of(asking: Asking<'_>) -> Self {
        let (head, body) = asking.header("accept", "text/event-stream").open().await;
        assert_eq!(head.status, 200, "{head:?}");
        assert_eq!(head.headers["content-type"], "text/event-stream");
        Self::new(body)
    }

    /// Reads the stream of an answer.
    pub fn new(body: Incoming) -> Self {
        Self { body, text: String::new(), comments: 0 }
    }

    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Sent> {
        timeout(PATIENCE, self.block()).await.expect("an event in time")
    }

    /// Whether only comments come for a while.
    pub async fn is_quiet(&mut self) -> bool {
        timeout(std::time::Duration::from_millis(300), self.block()).await.is_err()
    }

    async fn block(&mut self) -> Option<Sent> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let mut sent = Sent::default();
                for line in block.lines() {
                    let (field, value) = line.split_once(':').unwrap_or((line, ""));
                    let value = value.strip_prefix(' ').unwrap_or(value);
                    match field {
                        "" => self.comments += 1,
                        "event" => sent.event = value.to_owned(),
                        "id" => sent.id = value.to_owned(),
                        "data" => sent.data.push_str(value),
                        other => panic!("unknown field {other}"),
                    }
                }
                self.text = rest.to_owned();
                if sent != Sent::default() {
                    return Some(sent);
                }
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.text.push_str(std::str::from_utf8(&data).unwrap());
            }
        }
    }

    /// Kinds and names of the events up to the end of the snapshot.
    pub async fn snapshot(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            let sent = self.next().await.expect("the snapshot ends");
            match sent.event.as_str() {
                "upsert" => names.push(sent.about().1),
                "end-of-snapshot" => return names,
                _ => panic!("{sent:?}"),
            }
        }
    }
}
