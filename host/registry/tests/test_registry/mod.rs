//! A registry of OCI artifacts within the test: with or without the referrers API, with or without a login, and with
//! answers that no honest registry gives.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Frame, Incoming},
    header::{AUTHORIZATION, CONTENT_TYPE, LINK, LOCATION, WWW_AUTHENTICATE},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{net::TcpListener, task::JoinHandle};

type Body = BoxBody<Bytes, Infallible>;

/// An answer that no honest registry gives.
#[derive(Clone)]
pub enum Mischief {
    /// Other content.
    Body(Vec<u8>),
    /// Content without an end.
    Endless,
    /// The beginning of content, and nothing more.
    Stuck,
    /// A redirect.
    Redirect(String),
    /// A status with a text.
    Status(u16, &'static str),
}

/// Login that a registry wants.
#[derive(Clone, Default)]
pub enum Login {
    #[default]
    None,
    /// The header with name and password.
    Basic(String),
    /// A token, for which the registry itself is the authority: the header with name and password for it.
    Token(String),
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: Method,
    pub path: String,
    pub authorization: Option<String>,
}

#[derive(Default)]
struct State {
    blobs: BTreeMap<String, Vec<u8>>,
    /// By name and tag or digest: media type and content.
    manifests: BTreeMap<(String, String), (String, Vec<u8>)>,
    has_referrers: bool,
    login: Login,
    /// By a part of the path.
    mischief: Vec<(String, Mischief)>,
    asked: Vec<Asked>,
}

/// A registry on a port of this machine.
pub struct TestRegistry {
    pub addr: SocketAddr,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl Drop for TestRegistry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TestRegistry {
    pub async fn start(has_referrers: bool) -> Self {
        Self::on("127.0.0.1:0".parse().unwrap(), has_referrers).await
    }

    async fn on(addr: SocketAddr, has_referrers: bool) -> Self {
        let listener = TcpListener::bind(addr).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State { has_referrers, ..State::default() }));
        let task = tokio::spawn(serve(listener, state.clone()));
        Self { addr, state, task }
    }

    /// Stops to answer; the content stays.
    pub fn stop(&self) {
        self.task.abort();
    }

    /// `oci://127.0.0.1:PORT/NAME`.
    pub fn reference(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.addr)
    }

    pub fn want(&self, login: Login) {
        self.state.lock().unwrap().login = login;
    }

    /// Answers requests whose path has this part so.
    pub fn misbehave(&self, part: &str, mischief: Mischief) {
        self.state.lock().unwrap().mischief.push((part.to_owned(), mischief));
    }

    pub fn behave(&self) {
        self.state.lock().unwrap().mischief.clear();
    }

    /// Requests since the last call.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.lock().unwrap().asked)
    }

    pub fn put_blob(&self, content: &[u8]) -> String {
        let digest = digest(content);
        self.state.lock().unwrap().blobs.insert(digest.clone(), content.to_vec());
        digest
    }

    pub fn put_manifest(&self, name: &str, tag: &str, media_type: &str, content: &[u8]) -> String {
        let digest = digest(content);
        for target in [tag, &digest] {
            let value = (media_type.to_owned(), content.to_vec());
            self.state.lock().unwrap().manifests.insert((name.to_owned(), target.to_owned()), value);
        }
        digest
    }

    pub fn manifest(&self, name: &str, target: &str) -> Option<Value> {
        self.raw_manifest(name, target).map(|content| serde_json::from_slice(&content).unwrap())
    }

    /// The bytes of a manifest.
    pub fn raw_manifest(&self, name: &str, target: &str) -> Option<Vec<u8>> {
        let state = self.state.lock().unwrap();
        state.manifests.get(&(name.to_owned(), target.to_owned())).map(|(_, content)| content.clone())
    }
}

/// `sha256:…` of content.
pub fn digest(content: &[u8]) -> String {
    format!("sha256:{:x}", Sha256::digest(content))
}

async fn serve(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let state = state.clone();
        connections.spawn(async move {
            let answer = service_fn(move |request| answer(state.clone(), request));
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

fn full(status: u16, content: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(content.into()).boxed());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

fn fault(status: u16, text: &str) -> Response<Body> {
    full(status, json!({"errors": [{"code": "DENIED", "message": text}]}).to_string())
}

fn with(mut response: Response<Body>, name: hyper::header::HeaderName, value: &str) -> Response<Body> {
    response.headers_mut().insert(name, value.parse().unwrap());
    response
}

fn mischievous(mischief: Mischief) -> Response<Body> {
    let piece = || Ok(Frame::data(Bytes::from(vec![b'x'; 16 << 10])));
    match mischief {
        Mischief::Body(content) => full(200, content),
        Mischief::Endless => Response::new(BodyExt::boxed(StreamBody::new(stream::repeat_with(piece)))),
        Mischief::Stuck => {
            let stuck = stream::iter([piece()]).chain(stream::pending());
            Response::new(BodyExt::boxed(StreamBody::new(stuck)))
        }
        Mischief::Redirect(to) => with(full(307, ""), LOCATION, &to),
        Mischief::Status(status, text) => fault(status, text),
    }
}

async fn answer(state: Arc<Mutex<State>>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let content = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let (path, query) = (head.uri.path().to_owned(), head.uri.query().unwrap_or_default().to_owned());
    let header = |name| head.headers.get(name).and_then(|value: &hyper::header::HeaderValue| value.to_str().ok());
    let authorization = header(AUTHORIZATION).map(str::to_owned);
    let mut state = state.lock().unwrap();
    let whole = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
    state.asked.push(Asked { method: head.method.clone(), path: whole, authorization: authorization.clone() });
    let found = state.mischief.iter().find(|(part, _)| path.contains(part.as_str()));
    if let Some((_, mischief)) = found {
        return Ok(mischievous(mischief.clone()));
    }
    let host = header(hyper::header::HOST).unwrap_or_default().to_owned();
    match &state.login {
        Login::Basic(wanted) if authorization.as_ref() != Some(wanted) => {
            return Ok(with(fault(401, "authentication required"), WWW_AUTHENTICATE, "Basic realm=\"test\""));
        }
        Login::Token(wanted) if path == "/token" => {
            return Ok(match authorization.as_ref() == Some(wanted) {
                true => full(200, json!({"token": "a-token"}).to_string()),
                false => fault(401, "wrong password"),
            });
        }
        Login::Token(_) if authorization.as_deref() != Some("Bearer a-token") => {
            let challenge =
                format!("Bearer realm=\"http://{host}/token\",service=\"test\",scope=\"repository:x:pull,push\"");
            return Ok(with(fault(401, "authentication required"), WWW_AUTHENTICATE, &challenge));
        }
        _ => {}
    }
    let media_type = header(CONTENT_TYPE).unwrap_or_default().to_owned();
    Ok(state.honest(&head.method, &path, &query, &media_type, &content))
}

impl State {
    fn honest(&mut self, method: &Method, path: &str, query: &str, media: &str, content: &[u8]) -> Response<Body> {
        if path == "/v2/_catalog" {
            let names: std::collections::BTreeSet<_> = self.manifests.keys().map(|(name, _)| name).collect();
            return page(&names.into_iter().cloned().collect::<Vec<_>>(), "repositories", path, query);
        }
        let Some(rest) = path.strip_prefix("/v2/") else { return fault(404, "no such page") };
        if let Some(name) = rest.strip_suffix("/tags/list") {
            let tags = self.manifests.keys().filter(|(own, tag)| own == name && !tag.contains(':'));
            let tags: Vec<_> = tags.map(|(_, tag)| tag.clone()).collect();
            return if tags.is_empty() { fault(404, "no such name") } else { page(&tags, "tags", path, query) };
        }
        if let Some((name, target)) = rest.split_once("/manifests/") {
            return self.manifests_at(method, name, target, media, content);
        }
        if let Some((name, digest)) = rest.split_once("/referrers/").filter(|_| self.has_referrers) {
            return self.referrers(name, digest);
        }
        if let Some((name, rest)) = rest.split_once("/blobs/uploads/") {
            return match (method, query.strip_prefix("digest=")) {
                (&Method::POST, _) => with(full(202, ""), LOCATION, &format!("/v2/{name}/blobs/uploads/1")),
                (&Method::PUT, Some(wanted)) if rest == "1" => {
                    let digest = digest(content);
                    if wanted.replace("%3A", ":") != digest {
                        return fault(400, "digest invalid");
                    }
                    self.blobs.insert(digest, content.to_vec());
                    full(201, "")
                }
                _ => fault(404, "no such upload"),
            };
        }
        let blob = rest.split_once("/blobs/").and_then(|(_, digest)| self.blobs.get(digest));
        blob.map_or_else(|| fault(404, "blob unknown"), |blob| full(200, blob.clone()))
    }

    fn manifests_at(
        &mut self,
        method: &Method,
        name: &str,
        target: &str,
        media: &str,
        content: &[u8],
    ) -> Response<Body> {
        let key = (name.to_owned(), target.to_owned());
        if *method != Method::PUT {
            let found = self.manifests.get(&key);
            return found.map_or_else(
                || fault(404, "manifest unknown"),
                |(media, content)| with(full(200, content.clone()), CONTENT_TYPE, media),
            );
        }
        let value: Value = serde_json::from_slice(content).unwrap();
        for target in [target.to_owned(), digest(content)] {
            self.manifests.insert((name.to_owned(), target), (media.to_owned(), content.to_vec()));
        }
        match value["subject"]["digest"].as_str().filter(|_| self.has_referrers) {
            Some(subject) => with(full(201, ""), hyper::header::HeaderName::from_static("oci-subject"), subject),
            None => full(201, ""),
        }
    }

    fn referrers(&self, name: &str, subject: &str) -> Response<Body> {
        let manifests = self.manifests.iter().filter(|((own, target), _)| own == name && target.contains(':'));
        let refers = manifests.filter_map(|((_, digest), (media, content))| {
            let value: Value = serde_json::from_slice(content).ok()?;
            (value["subject"]["digest"] == subject).then(|| {
                json!({"mediaType": media, "digest": digest, "size": content.len(),
                       "artifactType": value["artifactType"]})
            })
        });
        let manifests: Vec<_> = refers.collect();
        // Registries in Go write an empty list so.
        let manifests = if manifests.is_empty() { Value::Null } else { Value::Array(manifests) };
        let index = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                           "manifests": manifests});
        with(full(200, index.to_string()), CONTENT_TYPE, "application/vnd.oci.image.index.v1+json")
    }
}

/// A page of two names, with a link to the next.
fn page(names: &[String], key: &str, path: &str, query: &str) -> Response<Body> {
    let last = query.split('&').find_map(|part| part.strip_prefix("last=")).unwrap_or_default();
    let shown: Vec<_> = names.iter().filter(|name| name.as_str() > last).take(2).collect();
    let page = full(200, json!({ key: shown }).to_string());
    match shown.last().filter(|end| names.last() != Some(end)) {
        Some(end) => with(page, LINK, &format!("<{path}?n=2&last={end}>; rel=\"next\"")),
        None => page,
    }
}
