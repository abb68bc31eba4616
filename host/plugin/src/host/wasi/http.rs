//! `wasi:http` for reconcilers: requests to granted hosts only.
//!
//! # Contract
//! For controllers of a component that imports `wasi:http/outgoing-handler`, wasmtime's implementation of it is linked,
//! and with it wasmtime's `wasi:io`, whose streams and pollables it hands out. Everything else of WASI stays the inert
//! one of the parent module, and hands out stubs in the types of that `wasi:io`: a stdin at its end, a stdout that is
//! the log, pollables that are ready. So wasmtime's files, sockets, clocks and variables are linked nowhere, and the
//! only way out is [`Outgoing::send_request`]. In the engine for hooks `wasi:http` is inert, and every request is
//! denied.
//!
//! Each request is compared with `grants.http` by scheme, host and port (`http_hosts`), and sent to exactly the
//! compared form. Redirects are answers like any other: the guest may ask for the next hop, which is compared too. A
//! request outside of a controller's call is denied. A granted host may have a rate ([`crate::grants::granted_host`]).
//!
//! # Cost
//! Nothing for components that do not import it. A request opens a connection of its own, HTTP/1.1, with TLS by rustls
//! and the built-in roots of the Mozilla programme; connections are not reused.
//!
//! # Limits
//! A request has `controllers.host_call_ms` from its beginning to the last byte of its answer, and never more than the
//! remaining time of the call; a guest may ask for less for connecting, for the first byte, and between bytes. Bodies
//! of all answers of a call together are bounded by `sandbox.reply_bytes`, those of requests likewise. An instance has
//! at most [`MAX_OPEN_REQUESTS`] open requests. The host's memory for a guest is bounded by [`MAX_HTTP_HANDLES`],
//! headers of 128 KiB each, and [`SEND_BUFFER_BYTES`]. Each call of the guest here counts towards
//! `controllers.host_calls`; past that, requests fail.

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use http_body::Body as _;
use http_body_util::BodyExt as _;
use mortise_resource::Code;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout_at,
};
use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpHooks, p2::bindings::http::types::ErrorCode,
};

use super::{metered::MeasuredBody, printed::PrintedLines};
use crate::{
    failure::Failure,
    grants::{Permit, http_hosts::Target},
    health::{log_level::LogLevel, logs::Logs},
    host::reconciler_host::ReconcilerHost,
    limits::Limits,
};

/// Open requests of one instance, including answers that are being read.
const MAX_OPEN_REQUESTS: usize = 16;

/// Most requests, headers, bodies and the like of one instance; `Limits::handles` may lower it.
const MAX_HTTP_HANDLES: usize = 256;

/// Buffered part of a request's body, bytes.
const SEND_BUFFER_BYTES: usize = 16 << 10;

/// Head and body of an answer, and the work that drives its connection.
type SentRequest = (http::Response<WasiBody>, Work);
type Work = Box<dyn Future<Output = Result<(), Error>> + Send>;

/// State of an instance's HTTP.
pub(crate) struct Http {
    pub(super) ctx: WasiHttpCtx,
    pub(super) table: ResourceTable,
    pub(super) outgoing: Outgoing,
    /// Output to stdout and stderr since the last call ended.
    pub(crate) printed: PrintedLines,
}

/// Sender of requests.
pub(super) struct Outgoing {
    /// The running call; `None` between calls.
    call: Option<Call>,
    turns: Arc<Semaphore>,
    /// Whether the call has used up its host calls.
    pub(super) exhausted: bool,
}

/// A request that may be sent, in canonical form.
pub(super) struct Admitted {
    request: http::Request<WasiBody>,
    target: Target,
    /// Its place among the open requests.
    turn: OwnedSemaphorePermit,
}

/// The call that requests are sent for, with its limits.
#[derive(Clone)]
pub(crate) struct Call {
    /// Host that answers requests itself instead of sending them: offline tests.
    pub(crate) host: Option<Arc<dyn ReconcilerHost>>,
    pub(crate) permit: Arc<Permit>,
    /// Names of the plugin in the log and in metrics.
    pub(crate) plugin: Arc<str>,
    pub(crate) label: String,
    pub(crate) hook: &'static str,
    pub(crate) logs: Arc<Logs>,
    /// Time limit of one request.
    pub(crate) host_call: Duration,
    /// Deadline of the call.
    pub(crate) until: Instant,
    /// Most bytes of all bodies in each direction, and the bytes used so far.
    pub(crate) limit: usize,
    pub(crate) sent: Arc<AtomicUsize>,
    pub(crate) received: Arc<AtomicUsize>,
}

impl Http {
    pub(crate) fn new(limits: &Limits) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles.min(MAX_HTTP_HANDLES));
        Self {
            ctx: WasiHttpCtx::new(),
            table,
            outgoing: Outgoing { call: None, turns: Arc::new(Semaphore::new(MAX_OPEN_REQUESTS)), exhausted: false },
            printed: PrintedLines::new(limits.log_bytes),
        }
    }

    /// Begins a call.
    pub(crate) fn begin(&mut self, call: Call) {
        self.outgoing.call = Some(call);
    }

    /// Ends the call: open requests end by their own time limit, or with the instance.
    pub(crate) fn end(&mut self) {
        self.outgoing.call = None;
    }
}

impl WasiHttpHooks for Outgoing {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _read: Work,
    ) -> Box<dyn Future<Output = Result<SentRequest, Error>> + Send> {
        let admitted = self.admit(request);
        Box::new(async move {
            let (call, admitted) = admitted?;
            let sent = send(&call, admitted, options.unwrap_or_default()).await;
            match &sent {
                Ok((head, _)) => call.count(&format!("{}xx", head.status().as_u16() / 100)),
                Err(_) => call.count("failed"),
            }
            sent
        })
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        SEND_BUFFER_BYTES
    }

    fn p2_error_from_hyper(&mut self, fault: &hyper::Error) -> ErrorCode {
        ErrorCode::InternalError(Some(format!("the connection failed: {fault}")))
    }

    fn p2_error_from_connect(&mut self, fault: &std::io::Error) -> ErrorCode {
        match fault.kind() {
            std::io::ErrorKind::ConnectionRefused => ErrorCode::ConnectionRefused,
            std::io::ErrorKind::TimedOut => ErrorCode::ConnectionTimeout,
            _ => ErrorCode::InternalError(Some(format!("cannot connect: {fault}"))),
        }
    }

    fn p2_error_from_tls(&mut self, fault: &std::io::Error) -> ErrorCode {
        ErrorCode::InternalError(Some(format!("TLS: {fault}")))
    }
}

impl Outgoing {
    /// Checks whether a request may be sent. Answers it with its authority in canonical form.
    fn admit(&mut self, mut request: http::Request<WasiBody>) -> Result<(Call, Admitted), Error> {
        let call = self.call.clone().ok_or(Error::HttpRequestDenied)?;
        if self.exhausted {
            call.count("denied");
            return Err(Error::InternalError(Some("too many host calls (limit controllers.host_calls)".into())));
        }
        // CONNECT would make a tunnel, whose destination cannot be checked.
        if request.method() == http::Method::CONNECT {
            call.count("denied");
            return Err(Error::HttpRequestMethodInvalid);
        }
        let Some(target) = call.granted(request.uri()) else {
            call.count("denied");
            return Err(Error::HttpRequestDenied);
        };
        let Ok(turn) = self.turns.clone().try_acquire_owned() else {
            call.count("denied");
            return Err(Error::ConnectionLimitReached);
        };
        let authority = target.authority();
        let host = http::HeaderValue::from_str(&authority).map_err(|_| Error::HttpRequestUriInvalid)?;
        let mut parts = request.uri().clone().into_parts();
        parts.authority = Some(authority.parse().map_err(|_| Error::HttpRequestUriInvalid)?);
        *request.uri_mut() = http::Uri::from_parts(parts).map_err(|_| Error::HttpRequestUriInvalid)?;
        request.headers_mut().insert(http::header::HOST, host);
        Ok((call, Admitted { request, target, turn }))
    }
}

impl Call {
    /// Target of a request, if it is granted. The guest gets only an error code, so the log names the setting.
    fn granted(&self, uri: &http::Uri) -> Option<Target> {
        let (scheme, authority) = (uri.scheme_str().unwrap_or_default(), uri.authority()?.as_str());
        let key = self.permit.key("http");
        let text = match Target::read(scheme, authority) {
            Some(target) if self.permit.sends_to(&target) => return Some(target),
            Some(target) => format!("HTTP request denied; {}", self.permit.http_remedy(&target)),
            // A password may precede the last @.
            None => format!(
                "HTTP request to {scheme}://{} denied: {key} cannot grant a host in this form",
                authority.rsplit('@').next().unwrap_or_default()
            ),
        };
        self.logs.write(&self.plugin, self.hook, LogLevel::Warn, text, Vec::new());
        None
    }

    /// Waits for the turn of a request under the rates of the grants. The guest gets the text of a refusal, and so does
    /// the log.
    async fn turn(&self, target: &Target, until: tokio::time::Instant) -> Result<(), Error> {
        let Err(used_up) = self.permit.http_turn(target, until).await else {
            return Ok(());
        };
        let text = format!("HTTP request not sent: {}: {used_up}", self.permit.key("http"));
        self.logs.write(&self.plugin, self.hook, LogLevel::Warn, text.clone(), Vec::new());
        Err(Error::InternalError(Some(text)))
    }

    fn count(&self, outcome: &str) {
        metrics::counter!(
            "mortise_plugin_http_requests_total", "plugin" => self.label.clone(), "outcome" => outcome.to_owned()
        )
        .increment(1);
    }
}

/// Sends an admitted request.
async fn send(
    call: &Call,
    Admitted { request, target, turn }: Admitted,
    options: RequestOptions,
) -> Result<SentRequest, Error> {
    let now = Instant::now();
    let within = call.host_call.min(call.until.saturating_duration_since(now));
    let until = tokio::time::Instant::from_std(now + within);
    let at_most = |asked: Option<Duration>| Some(asked.map_or(within, |asked| asked.min(within)));
    let options = RequestOptions {
        connect_timeout: at_most(options.connect_timeout),
        first_byte_timeout: at_most(options.first_byte_timeout),
        between_bytes_timeout: at_most(options.between_bytes_timeout),
    };
    let mut request = request.map(|body| MeasuredBody::request(body, call.sent.clone(), call.limit));
    if let Some(host) = &call.host {
        let (head, body) = request.into_parts();
        let body = timeout_at(until, body.collect()).await.map_err(|_| Error::ConnectionReadTimeout)??;
        let whole = http::Request::from_parts(head, body.to_bytes().to_vec());
        let answer = timeout_at(until, host.http(whole)).await.map_err(|_| Error::HttpResponseTimeout)?;
        let answer = answer.unwrap_or(Err(Failure::new(Code::Unavailable, "the host has no answer for it")));
        let answer = answer.map_err(|failure| Error::InternalError(Some(failure.message)))?;
        let answer = answer.map(|body| {
            let body = http_body_util::Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
            MeasuredBody::response(body, call.received.clone(), call.limit, until, turn).boxed_unsync()
        });
        return Ok((answer, Box::new(async { Ok(()) })));
    }
    call.turn(&target, until).await?;
    let headers = request.headers();
    // With `expect`, a guest may wait for an interim answer before it writes.
    if !headers.contains_key(http::header::CONTENT_LENGTH) && !headers.contains_key(http::header::EXPECT) {
        timeout_at(until, request.body_mut().begin()).await.map_err(|_| Error::HttpResponseTimeout)??;
        let expects_body = matches!(*request.method(), http::Method::POST | http::Method::PUT | http::Method::PATCH);
        if expects_body && request.body().is_end_stream() {
            request.headers_mut().insert(http::header::CONTENT_LENGTH, http::HeaderValue::from_static("0"));
        }
    }
    let sent = timeout_at(until, wasmtime_wasi_http::default_send_request(request, Some(options))).await;
    let (head, work) = sent.map_err(|_| Error::HttpResponseTimeout)??;
    let answer = head.map(|body| {
        MeasuredBody::response(body.boxed_unsync(), call.received.clone(), call.limit, until, turn).boxed_unsync()
    });
    Ok((answer, Box::new(async move { timeout_at(until, work).await.unwrap_or(Ok(())) })))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        grants::{Grants, http_hosts::HttpHost},
        health::logs::{LogSettings, Logs},
    };

    /// A sender within a call that may send to these hosts.
    fn granted(hosts: &[&str]) -> Outgoing {
        let http = hosts.iter().map(|host| HttpHost::try_from((*host).to_owned()).unwrap().into()).collect();
        let permit = Permit::of("p", Grants { http, ..Grants::default() });
        let mut http = Http::new(&Limits::default());
        http.begin(Call {
            host: None,
            permit: Arc::new(permit),
            plugin: "p".into(),
            label: "p".into(),
            hook: "reconcile",
            logs: Arc::new(Logs::new(LogSettings::default(), BTreeMap::new())),
            host_call: Duration::from_secs(1),
            until: Instant::now() + Duration::from_secs(1),
            limit: 1_000,
            sent: Arc::default(),
            received: Arc::default(),
        });
        http.outgoing
    }

    fn request(method: &str, uri: &str) -> http::Request<WasiBody> {
        let body = http_body_util::Empty::new().map_err(|never| match never {}).boxed_unsync();
        http::Request::builder().method(method).uri(uri).header("host", "allowed.org").body(body).unwrap()
    }

    #[test]
    fn what_is_sent_goes_where_it_was_granted() {
        let mut outgoing = granted(&["allowed.org", "http://allowed.org:8080"]);
        let (_, Admitted { request: sent, .. }) = outgoing.admit(request("GET", "HTTPS://Allowed.ORG/a?b")).unwrap();
        assert_eq!(sent.uri(), "https://allowed.org:443/a?b");
        assert_eq!(sent.headers()["host"], "allowed.org:443");
        let (_, Admitted { request: sent, .. }) = outgoing.admit(request("GET", "http://allowed.org:8080")).unwrap();
        assert_eq!(sent.uri(), "http://allowed.org:8080/");
    }

    #[test]
    fn all_else_is_denied() {
        let mut outgoing = granted(&["allowed.org", "http://127.0.0.1:8080"]);
        for uri in [
            "http://allowed.org/",
            "https://allowed.org:8443/",
            "https://allowed.org./",
            "https://allowed.org@evil.org/",
            "https://allowed.org:443@evil.org/",
            "https://user@allowed.org/",
            "https://evil.org/allowed.org",
            "https://sub.allowed.org/",
            "http://127.0.0.1/",
            "http://127.1:8080/",
            "http://[::ffff:127.0.0.1]:8080/",
            "/allowed.org",
        ] {
            assert!(matches!(outgoing.admit(request("GET", uri)), Err(Error::HttpRequestDenied)), "{uri}");
        }
        let tunnel = outgoing.admit(request("CONNECT", "https://allowed.org/"));
        assert!(matches!(tunnel, Err(Error::HttpRequestMethodInvalid)));
        assert!(matches!(granted(&[]).admit(request("GET", "https://allowed.org/")), Err(Error::HttpRequestDenied)));
    }

    #[test]
    fn only_so_many_are_in_flight_and_none_between_calls() {
        let mut outgoing = granted(&["allowed.org"]);
        let mut ask = || outgoing.admit(request("GET", "https://allowed.org/"));
        let turns: Vec<_> = (0..MAX_OPEN_REQUESTS).map(|_| ask().unwrap()).collect();
        assert!(matches!(ask(), Err(Error::ConnectionLimitReached)));
        drop(turns);
        assert!(ask().is_ok());
        outgoing.exhausted = true;
        let fault = outgoing.admit(request("GET", "https://allowed.org/")).map(drop).unwrap_err();
        assert!(fault.to_string().contains("controllers.host_calls"), "{fault}");
        outgoing.call = None;
        assert!(matches!(outgoing.admit(request("GET", "https://allowed.org/")), Err(Error::HttpRequestDenied)));
    }
}
