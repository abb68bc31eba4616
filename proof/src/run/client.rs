//! Calls: each sends a request and records its answer.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_proof::record::{Answer, Call, DEFAULT_NAMESPACE, Entry, Incarnation, Key, NEVER, Operation, Scope, State};
use mortise_resource::{
    data::{BatchGetRequest, SearchRequest, UpdateRequest, update_request::Cas},
    grpc::{QueryServiceClient, ResourceServiceClient},
    pb,
};
use prost_types::FieldMask;
use tonic::{Code, Request, Status};

use super::{
    convert::{self, hold, id, place, resource, scope_place, state, type_of},
    http,
    world::{CALL_LIMIT, Connection, World, is_open},
};

/// Rows of a page of a search.
const PAGE_ROWS: i32 = 7;

/// Pause after a call without an answer: a server that refuses everything must not use up the calls.
const OPEN_PAUSE: Duration = Duration::from_millis(5);

/// A client with a connection of its own.
pub(crate) struct Client {
    pub(crate) world: Arc<World>,
    number: usize,
    connection: Connection,
}

/// Additions to a write that the record does not need.
#[derive(Default)]
pub(crate) struct Extras {
    /// The state on which the write is based.
    pub(crate) base: Option<State>,
    /// Deletion mark of the stored resource.
    pub(crate) metadata: Option<std::collections::BTreeMap<String, String>>,
}

type Answered = Result<Answer, Status>;

impl Client {
    pub(crate) async fn new(world: Arc<World>, number: usize) -> Self {
        let connection = world.connect(number).await;
        Self { world, number, connection }
    }

    pub(super) fn resources(&self) -> ResourceServiceClient<tonic::transport::Channel> {
        ResourceServiceClient::new(self.connection.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    /// The connection's channel.
    pub(super) fn channel(&self) -> tonic::transport::Channel {
        self.connection.channel.clone()
    }

    fn queries(&self) -> QueryServiceClient<tonic::transport::Channel> {
        QueryServiceClient::new(self.connection.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    /// Sends a call, and records it. Connects again after an answer that leaves its effect open.
    pub(super) async fn record(&mut self, call: Call, answer: impl Future<Output = Answered>) -> Answer {
        let begun = self.world.now();
        let answered = match tokio::time::timeout(CALL_LIMIT, answer).await {
            Ok(answered) => answered,
            Err(_) => Err(Status::deadline_exceeded("no answer in time")),
        };
        let mut ended = self.world.now();
        let answer = match answered {
            Ok(answer) => answer,
            Err(status) => {
                self.world.refused(status.code());
                match status.code() {
                    Code::NotFound => Answer::Absent,
                    code if is_open(&status) => {
                        ended = NEVER;
                        if self.world.lives(&self.connection) && code != Code::Unavailable {
                            eprintln!("{:?} was answered with {status}", call.key());
                        }
                        Answer::Unknown
                    }
                    code => Answer::Refused { code: format!("{code:?}"), text: status.message().to_owned() },
                }
            }
        };
        let operation = Operation { client: self.number, begun, ended, call, answer: answer.clone() };
        match (&operation.answer, operation.call.key()) {
            (Answer::Absent | Answer::Done, Some(key)) => self.world.missed(key),
            (Answer::Stored(state), _) if operation.is_removal() => self.world.missed(&state.key),
            _ => operation.stored().for_each(|state| self.world.saw(state)),
        }
        self.world.add(Entry::Operation(operation));
        if answer == Answer::Unknown {
            tokio::time::sleep(OPEN_PAUSE).await;
            self.connection = self.world.connect(self.number).await;
        }
        answer
    }

    pub(crate) async fn write(
        &mut self,
        key: &Key,
        (uid, version): (&str, Option<u64>),
        content: String,
        extras: Extras,
        releases: bool,
    ) -> Answer {
        let mut request = resource(key, uid, version, &content);
        let base = extras.base.as_ref();
        let owner = base.and_then(|base| base.owner.clone());
        request.owner = owner.as_ref().map(|owner| id(&owner.key, &owner.uid));
        request.metadata = extras.metadata.unwrap_or_default();
        if releases || base.is_some_and(|base| base.has_finalizers) {
            hold(&mut request.metadata, !releases);
        }
        let (key, uid) = (key.clone(), uid.to_owned());
        let call = Call::Write { key, uid, version, content, owner, releases, references: Vec::new() };
        let mut client = self.resources();
        self.record(call, async move {
            let answer = client.write(pb::WriteRequest { resource: Some(request) }).await?.into_inner();
            Ok(stored(answer.resource.as_ref()))
        })
        .await
    }

    pub(crate) async fn status(&mut self, seen: &State, version: Option<u64>, entry: &str) -> Answer {
        let content = self.world.text();
        let request = pb::WriteStatusRequest {
            id: Some(id(&seen.key, &seen.uid)),
            version: version.map(|version| version.to_string()).unwrap_or_default(),
            key: entry.to_owned(),
            status: Some(convert::status(&seen.generation, &content)),
        };
        let (key, uid) = (seen.key.clone(), seen.uid.clone());
        let call = Call::Status { key, uid, version, entry: entry.to_owned(), content };
        let mut client = self.resources();
        self.record(call, async move { Ok(stored(client.write_status(request).await?.into_inner().resource.as_ref())) })
            .await
    }

    pub(crate) async fn update(&mut self, key: &Key, expected: Option<String>) -> Answer {
        let content = self.world.text();
        let mask = || Some(FieldMask { paths: vec![convert::content_path(&key.kind).to_owned()] });
        let cas = expected
            .as_ref()
            .map(|expected| Cas { conditional_state: Some(resource(key, "", None, expected)), field_mask: mask() });
        let request = UpdateRequest {
            resource: Some(resource(key, "", None, &content)),
            update_mask: mask(),
            cas,
            ..UpdateRequest::default()
        };
        let mut client = self.queries();
        self.record(Call::Update { key: key.clone(), expected, content }, async move {
            Ok(stored(client.update(request).await?.into_inner().resource.as_ref()))
        })
        .await
    }

    pub(crate) async fn delete(&mut self, key: &Key, uid: &str, version: Option<u64>) -> Answer {
        let version_text = version.map(|version| version.to_string()).unwrap_or_default();
        let request = pb::DeleteRequest { id: Some(id(key, uid)), version: version_text };
        let mut client = self.resources();
        self.record(Call::Delete { key: key.clone(), uid: uid.to_owned(), version }, async move {
            client.delete(request).await?;
            Ok(Answer::Done)
        })
        .await
    }

    pub(crate) async fn read(&mut self, key: &Key, uid: &str, is_consistent: bool) -> Answer {
        let request = consistently(pb::ReadRequest { id: Some(id(key, uid)) }, is_consistent);
        let mut client = self.resources();
        self.record(Call::Read { key: key.clone(), uid: uid.to_owned(), is_consistent }, async move {
            Ok(stored(client.read(request).await?.into_inner().resource.as_ref()))
        })
        .await
    }

    pub(crate) async fn list(&mut self, scope: Scope, is_consistent: bool) -> Answer {
        let message = pb::ListRequest {
            r#type: Some(type_of(&scope.kind)),
            tenancy: Some(scope_place(&scope)),
            name_prefix: self.world.prefix.clone(),
        };
        let request = consistently(message, is_consistent);
        let mut client = self.resources();
        self.record(Call::List { scope, is_consistent }, async move {
            Ok(Answer::Found(client.list(request).await?.into_inner().resources.iter().map(state).collect()))
        })
        .await
    }

    /// Whether the server has a known address of HTTP.
    pub(crate) fn has_http(&self) -> bool {
        self.connection.http.is_some()
    }

    /// Reads over HTTP.
    pub(crate) async fn read_over_http(&mut self, key: &Key, is_consistent: bool) -> Answer {
        let path = http::path(key, None) + if is_consistent { "&consistent" } else { "" };
        let addr = self.connection.http;
        self.record(Call::Read { key: key.clone(), uid: String::new(), is_consistent }, async move {
            Ok(Answer::Stored(http::state(&http::ask(web(addr)?, "GET", &path, None).await?)))
        })
        .await
    }

    /// Writes over HTTP.
    pub(crate) async fn write_over_http(
        &mut self,
        key: &Key,
        version: Option<u64>,
        content: String,
        base: Option<State>,
    ) -> Answer {
        let owner = base.as_ref().and_then(|base| base.owner.clone());
        let mut metadata = std::collections::BTreeMap::new();
        if base.is_some_and(|base| base.has_finalizers) {
            hold(&mut metadata, true);
        }
        let (path, body) = (http::path(key, version), http::body(key, &content, owner.as_ref(), &metadata));
        let addr = self.connection.http;
        let (key, uid) = (key.clone(), String::new());
        let call = Call::Write { key, uid, version, content, owner, releases: false, references: Vec::new() };
        self.record(call, async move {
            Ok(Answer::Stored(http::state(&http::ask(web(addr)?, "PUT", &path, Some(body)).await?)))
        })
        .await
    }

    /// Deletes over HTTP.
    pub(crate) async fn delete_over_http(&mut self, key: &Key, version: Option<u64>) -> Answer {
        let (path, addr) = (http::path(key, version), self.connection.http);
        self.record(Call::Delete { key: key.clone(), uid: String::new(), version }, async move {
            http::ask(web(addr)?, "DELETE", &path, None).await?;
            Ok(Answer::Done)
        })
        .await
    }

    /// Lists over HTTP.
    pub(crate) async fn list_over_http(&mut self, scope: Scope) -> Answer {
        let path = format!("{}&name_prefix={}", http::list_path(&scope), self.world.prefix);
        let addr = self.connection.http;
        self.record(Call::List { scope, is_consistent: false }, async move {
            let answer = http::ask(web(addr)?, "GET", &path, None).await?;
            Ok(Answer::Found(http::states(&answer)))
        })
        .await
    }

    /// Lists by pages, as of the version of the first.
    pub(crate) async fn search(&mut self, scope: Scope) -> Answer {
        let mut request = SearchRequest {
            parent: self.world.prefix.clone(),
            page_size: PAGE_ROWS,
            r#type: Some(type_of(&scope.kind)),
            tenancy: Some(scope_place(&scope)),
            at: "now".to_owned(),
            ..SearchRequest::default()
        };
        let mut client = self.queries();
        self.record(Call::List { scope, is_consistent: false }, async move {
            let mut states = Vec::new();
            loop {
                let page = client.search(request.clone()).await?.into_inner();
                states.extend(page.resources.iter().map(state));
                if page.next_page_token.is_empty() {
                    return Ok(Answer::Found(states));
                }
                (request.page_token, request.at) = (page.next_page_token, page.at);
            }
        })
        .await
    }

    pub(crate) async fn owned(&mut self, owner: &Incarnation) -> Answer {
        let request = pb::ListByOwnerRequest { owner: Some(id(&owner.key, &owner.uid)) };
        let mut client = self.resources();
        self.record(Call::Owned { owner: owner.clone() }, async move {
            Ok(Answer::Found(client.list_by_owner(request).await?.into_inner().resources.iter().map(state).collect()))
        })
        .await
    }

    pub(crate) async fn batch(&mut self, keys: Vec<Key>) -> Answer {
        let ids = keys.iter().map(|key| id(key, "")).collect();
        let request = BatchGetRequest { ids, ..BatchGetRequest::default() };
        let mut client = self.queries();
        self.record(Call::Batch { keys }, async move {
            Ok(Answer::Found(client.batch_get(request).await?.into_inner().resources.iter().map(state).collect()))
        })
        .await
    }

    /// Ends the finalizers of a resource as it is stored; returns whether there was one to end.
    pub(crate) async fn release(&mut self, key: &Key) -> bool {
        let mut client = self.resources();
        let read = client.read(pb::ReadRequest { id: Some(id(key, "")) }).await;
        let Some(found) = read.ok().and_then(|answer| answer.into_inner().resource) else { return false };
        let seen = state(&found);
        if !seen.has_finalizers {
            return false;
        }
        let (uid, version, content) = (seen.uid.clone(), Some(seen.version), seen.content.clone());
        let extras = Extras { metadata: Some(found.metadata), base: Some(seen) };
        self.write(key, (&uid, version), content, extras, true).await;
        true
    }

    /// Whether the server serves a type.
    pub(crate) async fn serves(&mut self, kind: &str) -> bool {
        let request = pb::ListRequest {
            r#type: Some(type_of(kind)),
            tenancy: Some(place(DEFAULT_NAMESPACE)),
            name_prefix: "none".to_owned(),
        };
        self.resources().list(request).await.is_ok()
    }

    /// Waits until the server serves a type of the workload.
    pub(crate) async fn wait_for_type(&mut self, kind: &str, limit: Duration) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if self.serves(kind).await {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.connection = self.world.connect(self.number).await;
        }
        false
    }
}

/// The address of HTTP; servers of others may have none.
fn web(addr: Option<SocketAddr>) -> Result<SocketAddr, Status> {
    addr.ok_or_else(|| Status::failed_precondition("no address of HTTP is known"))
}

pub(super) fn stored(resource: Option<&pb::Resource>) -> Answer {
    resource.map_or(Answer::Unknown, |resource| Answer::Stored(state(resource)))
}

/// Makes a request for the newest state, or one for a recent state.
pub(crate) fn consistently<T>(message: T, is_consistent: bool) -> Request<T> {
    let mut request = Request::new(message);
    if is_consistent && let Ok(mode) = "consistent".parse() {
        request.metadata_mut().insert("x-consul-consistency-mode", mode);
    }
    request
}
