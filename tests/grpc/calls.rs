//! Calls by the book: deadlines, messages, content types, and what a client of another protocol is answered.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Method, Request, StatusCode, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mortise_resource::pb;
use mortise_test_guests::Thing;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tonic::Code;

use super::frames;
use crate::support::{PATIENCE, Server, Setup, artist, id, id_of, list_artists, thing, tokens::Guarded, watch_artists};

const READ: &str = "/hashicorp.consul.resource.ResourceService/Read";
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// A whole answer.
#[derive(Debug)]
pub(super) struct Answer {
    http: StatusCode,
    headers: HeaderMap,
    trailers: HeaderMap,
    body: Bytes,
}

impl Answer {
    pub(super) fn text(&self, name: &str) -> &str {
        let value = self.trailers.get(name).or_else(|| self.headers.get(name));
        value.map_or("", |value| value.to_str().unwrap())
    }

    pub(super) fn code(&self) -> Code {
        Code::from_bytes(self.text("grpc-status").as_bytes())
    }
}

/// A client of HTTP/2 without habits of its own.
pub(super) struct Client(http2::SendRequest<Full<Bytes>>);

impl Client {
    pub(super) async fn open(server: &Server) -> Self {
        let stream = TcpStream::connect(server.grpc).await.unwrap();
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("http://localhost{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body.to_vec())).unwrap();
        let answering = async {
            let (head, body) = self.0.clone().send_request(request).await.unwrap().into_parts();
            let body = body.collect().await.unwrap();
            let trailers = body.trailers().cloned().unwrap_or_default();
            Answer { http: head.status, headers: head.headers, trailers, body: body.to_bytes() }
        };
        timeout(PATIENCE, answering).await.expect("an answer in time")
    }

    pub(super) async fn call(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let headers = [&[("content-type", "application/grpc"), ("te", "trailers")], headers].concat();
        self.send(Method::POST, path, &headers, body).await
    }
}

fn read(name: &str) -> Vec<u8> {
    frames::message(&pb::ReadRequest { id: Some(id("demo.v2.Artist", name)) })
}

#[tokio::test]
async fn a_watch_ends_at_its_deadline_with_what_it_showed_before_and_gives_back_its_place() {
    let server = Setup::new().env("MORTISE_SERVICE_MAX_WATCHES", 1).start().await;
    server.write(artist("korn")).await.unwrap();
    let client = Client::open(&server).await;
    let health = frames::message(&mortise_api::health::HealthCheckRequest::default());
    for (path, request) in
        [(frames::WATCH_LIST, frames::message(&watch_artists())), ("/grpc.health.v1.Health/Watch", health)]
    {
        let answer = client.call(path, &[("grpc-timeout", "300m")], &request).await;
        assert_eq!(answer.code(), Code::DeadlineExceeded, "{answer:?}");
        assert!(answer.text("grpc-message").contains("grpc-timeout%20300m"), "{answer:?}");
        assert!(!answer.text("x-request-id").is_empty(), "{answer:?}");
    }
    let shown = client.call(frames::WATCH_LIST, &[("grpc-timeout", "2S")], &frames::message(&watch_artists())).await;
    assert_eq!(shown.code(), Code::DeadlineExceeded, "{shown:?}");
    assert!(!shown.body.is_empty(), "the snapshot came in time");
}

#[tokio::test]
async fn a_passed_deadline_has_its_own_code_and_the_number_of_the_request() {
    let server = Setup::new().guest("infinite-loop").start().await;
    let client = Client::open(&server).await;
    let slow = frames::message(&pb::WriteRequest { resource: Some(thing("infinite_loop", "boom", &Thing::default())) });
    for (path, body) in [("/hashicorp.consul.resource.ResourceService/Write", &slow), (frames::WATCH_LIST, &Vec::new())]
    {
        for given in ["1n", "1m", "0S"] {
            let headers = [("grpc-timeout", given), ("x-request-id", "number-7")];
            let answer = client.call(path, &headers, body).await;
            // A request without a message may be refused before its deadline.
            assert!(matches!(answer.code(), Code::DeadlineExceeded | Code::Unimplemented), "{given}: {answer:?}");
            assert_eq!(answer.text("x-request-id"), "number-7", "{given}: {answer:?}");
        }
    }
    // Near the deadline an answer is either whole, or says that the deadline passed.
    let mut late = 0;
    for micros in (50..4_000).step_by(50) {
        let answer = client.call(READ, &[("grpc-timeout", &format!("{micros}u"))], &read("absent")).await;
        match answer.code() {
            Code::DeadlineExceeded => late += 1,
            // tonic's own timer ends a call if the machine stopped this thread between the looks at the two timers.
            Code::Cancelled if answer.text("grpc-message") == "Timeout%20expired" => late += 1,
            code => assert_eq!(code, Code::NotFound, "{micros}: {answer:?}"),
        }
    }
    println!("{late} of 79 were late");
}

#[tokio::test]
async fn a_malformed_timeout_is_refused_on_every_service() {
    let server = Server::start().await;
    let client = Client::open(&server).await;
    let nothing = frames::message(&());
    for wrong in ["5x", "123456789n", "S", "5", "-1S", "+1S", "1.5S", "1 S", "99999999999999999999S"] {
        for path in [READ, HEALTH, "/mortise.v1.ServerService/Status", "/nothing.v1.Nothing/Nothing"] {
            let answer = client.call(path, &[("grpc-timeout", wrong)], &nothing).await;
            assert_eq!(answer.code(), Code::InvalidArgument, "{wrong} {path}: {answer:?}");
            assert!(answer.text("grpc-message").contains("grpc-timeout"), "{answer:?}");
            assert!(!answer.text("x-request-id").is_empty(), "{answer:?}");
        }
    }
    for right in ["1H", "99999999H", "10M", "60S", "60000m", "60000000u"] {
        let answer = client.call(HEALTH, &[("grpc-timeout", right)], &nothing).await;
        assert_eq!(answer.code(), Code::Ok, "{right}: {answer:?}");
    }
}

#[tokio::test]
async fn a_unary_method_takes_exactly_one_message_within_its_limit() {
    let server = Setup::new().env("MORTISE_SERVICE_MAX_REQUEST_BYTES", "1MiB").start().await;
    let korn = id_of(&server.write(artist("korn")).await.unwrap());
    let client = Client::open(&server).await;
    let one = frames::message(&pb::ReadRequest { id: Some(korn.clone()) });
    assert_eq!(client.call(READ, &[], &one).await.code(), Code::Ok);
    let delete = frames::message(&pb::DeleteRequest { id: Some(korn.clone()), version: String::new() });
    let delete = [delete.clone(), delete].concat();
    let nothing = frames::message(&());
    for (path, body, code) in [
        (READ, one.repeat(2), Code::Unimplemented),
        ("/hashicorp.consul.resource.ResourceService/Delete", delete, Code::Unimplemented),
        (READ, Vec::new(), Code::Unimplemented),
        (READ, one[..one.len() - 1].to_vec(), Code::InvalidArgument),
        (READ, one[..3].to_vec(), Code::InvalidArgument),
        (HEALTH, nothing.repeat(2), Code::Unimplemented),
        (HEALTH, Vec::new(), Code::Unimplemented),
        ("/mortise.v1.TypeService/ListTypes", nothing.repeat(2), Code::Unimplemented),
        (READ, [&[0, 0, 16, 0, 1], [0; 100].as_slice()].concat(), Code::ResourceExhausted),
        (HEALTH, [&[0, 0, 16, 0, 1], [0; 100].as_slice()].concat(), Code::ResourceExhausted),
        ("/mortise.v1.QueryService/Search", vec![0, 0xff, 0xff, 0xff, 0xff], Code::ResourceExhausted),
    ] {
        let answer = client.call(path, &[], &body).await;
        assert_eq!(answer.code(), code, "{path} {} bytes: {answer:?}", body.len());
    }
    assert_eq!(server.read(&korn).await.unwrap().id.unwrap(), korn, "the deletion was not begun");
}

#[tokio::test]
async fn other_methods_and_content_types_are_answered_in_http() {
    let server = Server::start().await;
    let client = Client::open(&server).await;
    for (method, content_type, expected) in [
        (Method::GET, None, 405),
        (Method::GET, Some("application/grpc"), 405),
        (Method::PUT, Some("application/grpc"), 405),
        (Method::OPTIONS, None, 405),
        (Method::POST, None, 415),
        (Method::POST, Some("application/grpc-web"), 415),
        (Method::POST, Some("application/grpc-web+proto"), 415),
        (Method::POST, Some("application/grpc+json"), 415),
        (Method::POST, Some("application/grpc+proto"), 200),
    ] {
        let headers: Vec<_> = content_type.into_iter().map(|value| ("content-type", value)).collect();
        let answer = client.send(method.clone(), HEALTH, &headers, &frames::message(&())).await;
        assert_eq!(answer.http.as_u16(), expected, "{method} {content_type:?}: {answer:?}");
        assert_eq!(
            answer.headers.get("allow").map(|value| value.as_bytes()),
            (expected == 405).then_some(&b"POST"[..])
        );
        if expected != 200 {
            assert!(answer.body.starts_with(b"this port speaks gRPC"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_client_of_another_protocol_is_answered_in_words() {
    let server = Server::start().await;
    let body = "x".repeat(10_000);
    for request in [
        "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
        format!("POST {READ} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10000\r\n\r\n{body}"),
        "PRI * HTTP/1.1\r\n\r\n".to_owned(),
        // A client of TLS.
        "\x16\x03\x01\x02".to_owned(),
    ] {
        let mut stream = TcpStream::connect(server.grpc).await.unwrap();
        // In two pieces, since the first bytes may come one by one.
        stream.write_all(&request.as_bytes()[..1]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        stream.write_all(&request.as_bytes()[1..]).await.unwrap();
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("it ends in time").unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{request:.20}: {answer:?}");
        assert!(answer.contains("http_addr"), "{answer:?}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "one answer: {answer:?}");
    }
    server.write(artist("korn")).await.unwrap();
    assert_eq!(server.client().list(list_artists()).await.unwrap().into_inner().resources.len(), 1);
}

#[tokio::test]
async fn health_knows_every_service_that_reflection_lists() {
    use mortise_api::health::{
        HealthCheckRequest, HealthListRequest, health_check_response::ServingStatus, health_client::HealthClient,
    };
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    for with_destination in [true, false] {
        let server = Setup::new().env("MORTISE_DESTINATION_ENABLED", with_destination).start().await;
        let channel = server.channel().await;
        let question = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let mut answers = ServerReflectionClient::new(channel.clone())
            .server_reflection_info(tokio_stream::once(question))
            .await
            .unwrap()
            .into_inner();
        let Some(MessageResponse::ListServicesResponse(list)) =
            answers.message().await.unwrap().unwrap().message_response
        else {
            panic!("no list");
        };
        let mut names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
        assert_eq!(names.len(), if with_destination { 19 } else { 15 }, "{names:?}");
        names.push(String::new());
        let mut health = HealthClient::new(channel);
        let statuses = health.list(HealthListRequest {}).await.unwrap().into_inner().statuses;
        assert_eq!(statuses.len(), names.len());
        let raw = Client::open(&server).await;
        for name in names {
            assert_eq!(statuses[&name].status(), ServingStatus::Serving, "{name}");
            let asked = HealthCheckRequest { service: name.clone() };
            let checked = health.check(asked.clone()).await.unwrap().into_inner();
            assert_eq!(checked.status(), ServingStatus::Serving, "{name}");
            let mut watch = health.watch(asked).await.unwrap().into_inner();
            assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving, "{name}");
            if name.is_empty() {
                continue;
            }
            // The service is there: only its methods are unknown.
            let unknown = raw.call(&format!("/{name}/NoSuchMethod"), &[], &frames::message(&())).await;
            assert_eq!(unknown.code(), Code::Unimplemented, "{name}: {unknown:?}");
        }
        let unknown = HealthCheckRequest { service: "nothing.v1.Nothing".into() };
        assert_eq!(health.check(unknown.clone()).await.unwrap_err().code(), Code::NotFound);
        let mut watch = health.watch(unknown).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::ServiceUnknown);
    }
}

/// Proxies that try a newer method go on without it after Unimplemented, and ask for ever after any other code.
#[tokio::test]
async fn a_method_that_the_server_lacks_is_unimplemented_for_every_caller() {
    let guarded = Guarded::start(Setup::new()).await;
    let bare = guarded.token("bare", &[], |_| {}).await;
    let manager = guarded.token("manager", &["global-management"], |_| {}).await;
    let raw = Client::open(&guarded.server).await;
    for secret in ["", "unknown", &*bare, &*manager] {
        let token = [("x-consul-token", secret)];
        for path in [
            "/io.linkerd.proxy.outbound.OutboundPolicies/NoSuch",
            "/io.linkerd.proxy.destination.Destination/NoSuch",
            "/hashicorp.consul.resource.ResourceService/NoSuch",
            "/mortise.v1.PluginService/NoSuch",
            "/grpc.health.v1.Health/NoSuch",
            "/nothing",
        ] {
            let answer = raw.call(path, &token, &frames::message(&())).await;
            assert_eq!(answer.code(), Code::Unimplemented, "{path} as {secret:?}: {answer:?}");
        }
        let refused = raw.call("/mortise.v1.ServerService/Status", &token, &frames::message(&())).await.code();
        assert_eq!(refused == Code::Ok, secret == manager, "{secret:?}: {refused:?}");
    }
}

#[tokio::test]
async fn a_refusal_by_rate_names_its_wait_to_clients_with_a_retry_policy() {
    let server = Setup::new().env("MORTISE_SERVICE_READS_PER_SECOND", 1).start().await;
    let client = Client::open(&server).await;
    let mut refused = None;
    for _ in 0..200 {
        let answer = client.call(READ, &[], &read("absent")).await;
        if answer.code() == Code::ResourceExhausted {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("a refusal");
    let wait: u64 = refused.text("grpc-retry-pushback-ms").parse().unwrap();
    assert!(wait <= 60_000, "{refused:?}");
}
