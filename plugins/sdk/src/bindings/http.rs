//! `wasi:http`: one request from its beginning to the end of its answer.

pub mod uses_http {
    wit_bindgen::generate!({
        path: "wit",
        world: "uses-http",
        generate_all,
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
    });
}

use uses_http::wasi::{
    http::{
        outgoing_handler,
        types::{
            ErrorCode, Fields, IncomingBody, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme,
            http_error_code,
        },
    },
    io::streams::StreamError,
};

use crate::{
    Failure,
    http_message::{HttpRequest, HttpResponse, Parts},
};

/// Most bytes that a stream takes at once.
const WRITE_CHUNK_BYTES: usize = 4096;

/// Most bytes that are read from a stream at once.
const READ_CHUNK_BYTES: u64 = 64 << 10;

pub fn send(request: &HttpRequest) -> Result<HttpResponse, Failure> {
    let parts = request.parts()?;
    let failed = |code: ErrorCode| failure(&parts, code);
    let outgoing = head(request, &parts)?;
    let body = outgoing.body().map_err(|()| invalid("its content-length header is malformed"))?;
    let options = request.timeout.map(request_options);
    // The body is taken while the request is sent, so sending comes first.
    let answer = outgoing_handler::handle(outgoing, options).map_err(failed)?;
    write(body, &request.body);
    let pollable = answer.subscribe();
    let incoming = loop {
        match answer.get() {
            Some(Ok(Ok(incoming))) => break incoming,
            Some(Ok(Err(code))) => return Err(failed(code)),
            Some(Err(())) => return Err(Failure::new(Failure::INTERNAL, "the answer was taken twice")),
            None => pollable.block(),
        }
    };
    drop(pollable);
    let (status, headers) = (incoming.status(), incoming.headers().entries());
    let body = incoming.consume().map_err(|()| Failure::new(Failure::INTERNAL, "the answer has no body"))?;
    Ok(HttpResponse { status, headers, body: read(&body).map_err(failed)? })
}

/// Head of a request: all but the body.
fn head(request: &HttpRequest, parts: &Parts<'_>) -> Result<OutgoingRequest, Failure> {
    let headers = Fields::new();
    for (name, value) in &request.headers {
        headers.append(name, value).map_err(|fault| invalid(&format!("header {name:?}: {fault}")))?;
    }
    if !request.body.is_empty() && !headers.has("content-length") {
        let length = request.body.len().to_string();
        headers.append("content-length", length.as_bytes()).map_err(|fault| invalid(&fault.to_string()))?;
    }
    let outgoing = OutgoingRequest::new(headers);
    let method = method(&request.method);
    outgoing.set_method(&method).map_err(|()| invalid(&format!("{:?} is not a method", request.method)))?;
    let scheme = match parts.scheme.as_str() {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        other => return Err(invalid(&format!("the scheme is http or https, got: {other:?}"))),
    };
    outgoing.set_scheme(Some(&scheme)).map_err(|()| invalid("the scheme is not supported"))?;
    // An invalid authority cannot be granted either.
    outgoing.set_authority(Some(parts.authority)).map_err(|()| parts.denied())?;
    let path = Some(&*parts.path);
    outgoing.set_path_with_query(path).map_err(|()| invalid(&format!("{:?} is not a path", parts.path)))?;
    Ok(outgoing)
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

fn request_options(timeout: std::time::Duration) -> RequestOptions {
    let options = RequestOptions::new();
    let timeout = Some(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
    // A host that does not support them has limits of its own.
    let _ = options.set_connect_timeout(timeout);
    let _ = options.set_first_byte_timeout(timeout);
    let _ = options.set_between_bytes_timeout(timeout);
    options
}

/// Writes a request's body. A failure shows in the answer.
fn write(body: OutgoingBody, bytes: &[u8]) {
    if let Ok(stream) = body.write() {
        for piece in bytes.chunks(WRITE_CHUNK_BYTES) {
            if stream.blocking_write_and_flush(piece).is_err() {
                return;
            }
        }
        drop(stream);
    }
    let _ = OutgoingBody::finish(body, None);
}

fn read(body: &IncomingBody) -> Result<Vec<u8>, ErrorCode> {
    let lost = || ErrorCode::InternalError(Some("the body of the answer is incomplete".to_owned()));
    let stream = body.stream().map_err(|()| lost())?;
    let mut bytes = Vec::new();
    loop {
        match stream.blocking_read(READ_CHUNK_BYTES) {
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(StreamError::Closed) => return Ok(bytes),
            Err(StreamError::LastOperationFailed(fault)) => return Err(http_error_code(&fault).unwrap_or_else(lost)),
        }
    }
}

fn invalid(what: &str) -> Failure {
    Failure::new(Failure::INVALID, format!("not an HTTP request: {what}"))
}

/// Failure for an error code, for which `wasi:http` has no text.
fn failure(parts: &Parts<'_>, code: ErrorCode) -> Failure {
    let at = format!("{}://{}", parts.scheme, parts.authority);
    let size = |size: Option<u64>| size.map_or_else(String::new, |size| format!(" of {size} bytes"));
    let (code, text) = match code {
        ErrorCode::HttpRequestDenied => return parts.denied(),
        ErrorCode::HttpResponseTimeout
        | ErrorCode::ConnectionTimeout
        | ErrorCode::ConnectionReadTimeout
        | ErrorCode::ConnectionWriteTimeout
        | ErrorCode::DnsTimeout => {
            (Failure::LATE, format!("{at} did not answer in time (limit controllers.host_call_ms)"))
        }
        ErrorCode::HttpResponseBodySize(limit) => {
            (Failure::EXHAUSTED, format!("{at} answers with more than the limit{} (sandbox.reply_bytes)", size(limit)))
        }
        ErrorCode::HttpRequestBodySize(limit) => (
            Failure::EXHAUSTED,
            format!("the request to {at} has more than the limit{} (sandbox.reply_bytes)", size(limit)),
        ),
        ErrorCode::ConnectionLimitReached => (Failure::EXHAUSTED, "too many HTTP requests at once; wait".to_owned()),
        ErrorCode::HttpRequestMethodInvalid => (Failure::INVALID, "the method is not allowed".to_owned()),
        ErrorCode::InternalError(Some(text)) => (Failure::UNAVAILABLE, format!("{at}: {text}")),
        other => (Failure::UNAVAILABLE, format!("{at}: {other}")),
    };
    Failure::new(code, text)
}
