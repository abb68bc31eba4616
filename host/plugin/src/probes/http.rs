//! The request of a probe over a connection: HTTP/1.1, or HTTP/2 for gRPC.

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::AbortHandle,
};

use super::{fault::Fault, specification::HttpCheck};

/// Most bytes of a body in which a text is looked for.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Most bytes of an answer about health: it has two.
const MAX_HEALTH_BYTES: usize = 4 << 10;

/// The answer to a request.
pub(super) enum Answer {
    Passes(StatusCode),
    /// Reason of the condition, and the part of its message after the request.
    Fails(&'static str, String),
    Redirect(StatusCode, String),
}

/// Ends a connection's task with the attempt.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn broken(error: &hyper::Error) -> Fault {
    let what = match () {
        () if error.is_parse() => "the answer is not HTTP",
        () if error.is_incomplete_message() || error.is_closed() => "the connection was closed before the answer",
        () => "the connection broke",
    };
    Fault("Unreachable", format!("{what}: {error}"))
}

/// Sends the request of a check.
pub(super) async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    check: &HttpCheck,
    method: &Method,
    headers: &HeaderMap,
    url: &Uri,
) -> Result<Answer, Fault> {
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|e| broken(&e))?;
    let _connection = Connection(tokio::spawn(connection).abort_handle());
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::builder().method(method).uri(path).body(Empty::<Bytes>::new()).map_err(malformed)?;
    request.headers_mut().clone_from(headers);
    let headers = request.headers_mut();
    if !headers.contains_key(header::HOST) {
        let authority = url.authority().map(|authority| authority.as_str()).unwrap_or_default();
        headers.insert(header::HOST, HeaderValue::from_str(authority).map_err(malformed)?);
    }
    if !headers.contains_key(header::USER_AGENT) {
        headers.insert(header::USER_AGENT, HeaderValue::from_static("mortise-check"));
    }
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let answer = sender.send_request(request).await.map_err(|e| broken(&e))?;
    judge(check, answer).await
}

async fn judge(check: &HttpCheck, answer: Response<Incoming>) -> Result<Answer, Fault> {
    let status = answer.status();
    let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = answer.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
    if let (true, true, Some(location)) = (is_redirect, check.redirects > 0, location) {
        return Ok(Answer::Redirect(status, location.to_owned()));
    }
    let code = u32::from(status.as_u16());
    let is_expected = match check.statuses.as_slice() {
        [] => status.is_success(),
        ranges => ranges.iter().any(|range| (range.from..=range.to).contains(&code)),
    };
    if !is_expected {
        return Ok(Answer::Fails("Status", format!("was answered {status}")));
    }
    if check.body.is_empty() || contains(answer.into_body(), check.body.as_bytes()).await? {
        return Ok(Answer::Passes(status));
    }
    let text =
        format!("was answered {status} without {:?} in the first {MAX_BODY_BYTES} bytes of the body", check.body);
    Ok(Answer::Fails("Body", text))
}

/// Whether the beginning of a body contains a text. It is read up to there, and no further than [`MAX_BODY_BYTES`].
async fn contains(mut body: Incoming, text: &[u8]) -> Result<bool, Fault> {
    let mut seen = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|e| broken(&e))?.into_data() else { continue };
        let from = seen.len().saturating_sub(text.len());
        let room = MAX_BODY_BYTES.saturating_sub(seen.len());
        seen.extend_from_slice(data.get(..room).unwrap_or(&data));
        if seen.get(from..).unwrap_or_default().windows(text.len()).any(|window| window == text) {
            return Ok(true);
        }
        if seen.len() >= MAX_BODY_BYTES {
            return Ok(false);
        }
    }
    Ok(false)
}

/// The method after a redirect, as clients of today choose it.
pub(super) fn method_after(status: StatusCode, method: Method) -> Method {
    match status.as_u16() {
        303 if method != Method::HEAD => Method::GET,
        301 | 302 if method == Method::POST => Method::GET,
        _ => method,
    }
}

/// The URL of a redirect.
pub(super) fn join(from: &Uri, location: &str) -> Option<Uri> {
    let location = location.split('#').next().unwrap_or_default();
    let is_scheme = |scheme: &str| scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if location.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme)) {
        return location.parse().ok();
    }
    let (scheme, authority) = (from.scheme_str()?, from.authority()?);
    if let Some(elsewhere) = location.strip_prefix("//") {
        return format!("{scheme}://{elsewhere}").parse().ok();
    }
    let path = match location.strip_prefix('/') {
        Some(_) => location.to_owned(),
        None if location.is_empty() || location.starts_with('?') => format!("{}{location}", from.path()),
        None => {
            let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{location}")
        }
    };
    format!("{scheme}://{authority}{path}").parse().ok()
}

/// Asks a server for the health of a service.
pub(super) async fn grpc_health(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    scheme: &str,
    authority: &str,
    service: &str,
) -> Result<String, Fault> {
    #[derive(Clone, PartialEq, prost::Message)]
    struct HealthRequest {
        #[prost(string, tag = "1")]
        service: String,
    }
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .map_err(|e| broken(&e))?;
    let _connection = Connection(tokio::spawn(connection).abort_handle());
    let message = prost::Message::encode_to_vec(&HealthRequest { service: service.to_owned() });
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    let body = [&[0], length.as_slice(), &message].concat();
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("{scheme}://{authority}/grpc.health.v1.Health/Check"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(Full::new(Bytes::from(body)))
        .map_err(malformed)?;
    let (head, body) = sender.send_request(request).await.map_err(|e| broken(&e))?.into_parts();
    if !head.status.is_success() {
        return Err(Fault("Status", format!("was answered {}", head.status)));
    }
    let collected = Limited::new(body, MAX_HEALTH_BYTES).collect().await;
    let collected = collected.map_err(|e| Fault("Unreachable", format!("the answer broke off: {e}")))?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let text = |name: &str| trailers.get(name).or_else(|| head.headers.get(name)).and_then(|value| value.to_str().ok());
    match text("grpc-status") {
        Some("0") => {}
        Some(code) => {
            let message = text("grpc-message").unwrap_or_default().to_owned();
            return Err(Fault("Status", format!("was answered the gRPC status {code} {message:?}")));
        }
        None => return Err(Fault("Status", "was answered without a gRPC status".to_owned())),
    }
    health(&collected.to_bytes())
}

/// Judges the message of a health service, behind its prefix.
fn health(message: &[u8]) -> Result<String, Fault> {
    #[derive(Clone, PartialEq, prost::Message)]
    struct HealthAnswer {
        #[prost(int32, tag = "1")]
        status: i32,
    }
    let answer: Option<HealthAnswer> = message.get(5..).and_then(|bytes| prost::Message::decode(bytes).ok());
    match answer.map(|answer| answer.status) {
        Some(1) => Ok("was answered SERVING".to_owned()),
        Some(2) => Err(Fault("NotServing", "was answered NOT_SERVING".to_owned())),
        Some(3) => Err(Fault("NotServing", "was answered SERVICE_UNKNOWN".to_owned())),
        Some(other) => Err(Fault("NotServing", format!("was answered the status {other}"))),
        None => Err(Fault("Status", "was answered something else than a HealthCheckResponse".to_owned())),
    }
}

fn malformed(error: impl std::fmt::Display) -> Fault {
    Fault("Unreachable", format!("the request cannot be made: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_passes_while_it_serves_alone() {
        let says = |status: u8| health(&[0, 0, 0, 0, 2, 8, status]).map_err(|fault| (fault.0, fault.1));
        assert_eq!(says(1).unwrap(), "was answered SERVING");
        for (status, text) in [(0, "the status 0"), (2, "NOT_SERVING"), (3, "SERVICE_UNKNOWN"), (7, "the status 7")] {
            assert_eq!(says(status).unwrap_err(), ("NotServing", format!("was answered {text}")));
        }
        let (reason, _) = health(b"").map_err(|fault| (fault.0, fault.1)).unwrap_err();
        assert_eq!(reason, "Status");
    }

    #[test]
    fn a_location_is_joined_with_the_url_that_answered() {
        let from: Uri = "http://a.example:81/one/two?q=1".parse().unwrap();
        for (location, expected) in [
            ("https://b.example/x", "https://b.example/x"),
            ("//b.example/x", "http://b.example/x"),
            ("/login?next=http://c/", "http://a.example:81/login?next=http://c/"),
            ("three?u=http://c/#part", "http://a.example:81/one/three?u=http://c/"),
            ("?page=2", "http://a.example:81/one/two?page=2"),
            ("", "http://a.example:81/one/two"),
        ] {
            assert_eq!(join(&from, location).unwrap(), expected, "{location:?}");
        }
    }
}
