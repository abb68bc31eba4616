//! Watches: each is opened, read and recorded until the end of the history, and opened again after each end. Some end
//! by themselves after a random number of messages, and resume.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use mortise_proof::record::{Change, End, Entry, Incarnation, Key, Message, Mode, Scope, State, Stream};
use mortise_resource::{
    data::{
        WatchResourceRequest, WatchResourceResponse, WatchResourcesRequest, WatchResourcesResponse,
        resource_change::ChangeType,
    },
    goten::WatchType,
    grpc::{ResourceServiceClient, WatchServiceClient},
    pb::{self, watch_event::Event},
};
use tonic::Status;

use super::{
    client::Client,
    convert::{id, named, scope_place, state, type_of},
    sse,
    world::{CALL_LIMIT, Connection, World},
};

/// Pause before a watch is opened again.
const PAUSE: Duration = Duration::from_millis(10);

/// End of the last text of a resource that is watched by itself.
pub(crate) const LAST_TEXT: &str = "-last";

/// A watch to keep open.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) scope: Scope,
    /// Whether it ends by itself now and then.
    pub(crate) is_restless: bool,
    /// Whether it reads each resource at once after its event.
    pub(crate) reads: bool,
    /// Whether it is a watch over HTTP.
    pub(crate) is_http: bool,
}

enum Open {
    Events(tonic::Streaming<pb::WatchEvent>),
    Changes(tonic::Streaming<WatchResourcesResponse>),
    Single(tonic::Streaming<WatchResourceResponse>),
    Http(sse::Events),
}

impl Open {
    /// The end, as far as the watch says it.
    fn end(&self) -> End {
        match self {
            Self::Http(events) => events.end,
            Self::Events(_) | Self::Changes(_) | Self::Single(_) => End::Open,
        }
    }
}

/// Keeps a watch open until it has seen `mark`, after the beginning of the finish.
pub(crate) async fn keep(world: Arc<World>, number: usize, plan: Plan, mark: Key, mut random: Rng) {
    let mut finish = world.finish.subscribe();
    let mut reader = Client::new(world.clone(), number).await;
    let (mut token, mut chain, mut attempt) = (String::new(), 0_usize, 0);
    loop {
        // With several servers, a watch resumes at another one.
        let connection = world.connect(number + attempt).await;
        attempt += 1;
        if token.is_empty() {
            chain += 1;
        }
        let mut stream = Stream {
            watch: format!("{} {chain}", plan.name),
            mode: plan.mode,
            scope: plan.scope.clone(),
            begun: world.now(),
            is_resumed: !token.is_empty(),
            is_complete: false,
            messages: Vec::new(),
            end: End::Open,
        };
        let Ok(mut open) = open(&world, &connection, &plan, &token, &mut random).await else {
            if *finish.borrow() && !world.lives(&connection) {
                return;
            }
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let most = if plan.is_restless { random.usize(1..400) } else { usize::MAX };
        let (mut count, mut is_behind_snapshot, mut saw_mark) = (0, false, false);
        let is_marked = loop {
            let is_finishing = *finish.borrow();
            if count >= most && !is_finishing {
                break false;
            }
            let next = async {
                match is_finishing {
                    true => tokio::time::timeout(world.patience, next(plan.mode, &mut open)).await.ok(),
                    false => Some(next(plan.mode, &mut open).await),
                }
            };
            let message = tokio::select! {
                message = next => message,
                _ = finish.changed() => continue,
            };
            // At the end, a watch that shows nothing more is judged by what it has.
            let Some(message) = message else { break true };
            let Ok(Some((mut message, resume))) = message else { break false };
            message.received = world.now();
            // The mark of a single resource is its last text.
            let is_mark =
                |state: &State| state.key == mark && (plan.mode != Mode::Single || state.content.ends_with(LAST_TEXT));
            let has_mark = message.changes.iter().filter_map(Change::state).any(is_mark);
            count += 1;
            if let Some(resume) = resume {
                token = resume;
            }
            if message.is_hard_reset {
                token.clear();
            }
            // WatchList has a mark at the end of its snapshot alone.
            message.is_current |= is_behind_snapshot && plan.mode == Mode::List;
            is_behind_snapshot |= message.is_current;
            saw_mark |= has_mark;
            let is_over = saw_mark && message.is_current;
            let event = message.changes.iter().filter_map(Change::state).next().map(|state| state.key.clone());
            let event = event.filter(|_| plan.reads && message.is_current);
            stream.messages.push(message);
            if let Some(key) = event {
                reader.read(&key, "", false).await;
            }
            if is_over {
                break true;
            }
        };
        (stream.is_complete, stream.end) = (is_marked, open.end());
        world.add(Entry::Stream(stream));
        if is_marked {
            return;
        }
        let may_resume = plan.mode == Mode::Stateless || plan.is_http;
        if !may_resume || random.u8(..8) == 0 {
            token.clear();
        }
    }
}

async fn open(
    world: &World,
    connection: &Connection,
    plan: &Plan,
    token: &str,
    random: &mut Rng,
) -> Result<Open, Status> {
    if plan.is_http {
        let addr = connection.http.ok_or_else(|| Status::failed_precondition("no address of HTTP is known"))?;
        let path = sse::path(&plan.scope, plan.mode, &world.prefix);
        let opening = sse::Events::open(addr, &path, plan.mode, token);
        let opened = tokio::time::timeout(CALL_LIMIT, opening).await;
        return opened.map_err(|_| Status::deadline_exceeded("no answer in time"))?.map(Open::Http);
    }
    let tenancy = Some(scope_place(&plan.scope));
    let resource_type = Some(type_of(&plan.scope.kind));
    if plan.mode == Mode::List {
        let request =
            pb::WatchListRequest { r#type: resource_type, tenancy, name_prefix: world.prefix.clone(), after: None };
        let mut client = ResourceServiceClient::new(connection.channel.clone()).max_decoding_message_size(usize::MAX);
        return Ok(Open::Events(client.watch_list(request).await?.into_inner()));
    }
    if let (Mode::Single, Some(name)) = (plan.mode, &plan.scope.name) {
        let namespace = plan.scope.namespace.clone().unwrap_or_default();
        let key = Key { kind: plan.scope.kind.clone(), namespace, name: name.clone() };
        let request = WatchResourceRequest { id: Some(id(&key, "")), ..WatchResourceRequest::default() };
        let mut client = WatchServiceClient::new(connection.channel.clone()).max_decoding_message_size(usize::MAX);
        return Ok(Open::Single(client.watch_resource(request).await?.into_inner()));
    }
    let (kind, page_size) = match plan.mode {
        Mode::Stateful(rows) => (WatchType::Stateful, i32::try_from(rows).unwrap_or(i32::MAX)),
        _ => (WatchType::Stateless, 0),
    };
    let request = WatchResourcesRequest {
        parent: world.prefix.clone(),
        r#type: kind.into(),
        resource_type,
        tenancy,
        page_size,
        resume_token: token.to_owned(),
        max_chunk_size: random.i32(0..6),
        ..WatchResourcesRequest::default()
    };
    let mut client = WatchServiceClient::new(connection.channel.clone()).max_decoding_message_size(usize::MAX);
    Ok(Open::Changes(client.watch_resources(request).await?.into_inner()))
}

/// Returns the next message, with the token that it has.
async fn next(mode: Mode, open: &mut Open) -> Result<Option<(Message, Option<String>)>, Status> {
    let empty =
        Message { received: 0, changes: Vec::new(), is_current: false, is_soft_reset: false, is_hard_reset: false };
    match open {
        Open::Http(events) => events.next().await,
        Open::Events(events) => {
            let Some(event) = events.message().await?.and_then(|event| event.event) else { return Ok(None) };
            let message = match event {
                Event::EndOfSnapshot(_) => Message { is_current: true, ..empty },
                Event::Upsert(upsert) => {
                    let changes = upsert.resource.iter().map(|resource| Change::Upsert(state(resource))).collect();
                    Message { changes, ..empty }
                }
                Event::Delete(delete) => {
                    let gone = |resource: &pb::Resource| Change::Gone {
                        incarnation: named(resource.id.as_ref()),
                        version: resource.version.parse().ok(),
                    };
                    Message { changes: delete.resource.iter().map(gone).collect(), ..empty }
                }
            };
            Ok(Some((message, None)))
        }
        Open::Single(changes) => {
            let Some(answer) = changes.message().await? else { return Ok(None) };
            let change = answer.change.and_then(|change| change_of(mode, change.change_type?));
            Ok(Some((Message { changes: change.into_iter().collect(), is_current: true, ..empty }, None)))
        }
        Open::Changes(changes) => {
            let Some(answer) = changes.message().await? else { return Ok(None) };
            let token = Some(answer.resume_token).filter(|token| !token.is_empty());
            let changes = answer.changes.into_iter().filter_map(|change| change_of(mode, change.change_type?));
            let changes = changes.collect();
            let (is_current, is_soft_reset, is_hard_reset) =
                (answer.is_current, answer.is_soft_reset, answer.is_hard_reset);
            Ok(Some((Message { changes, is_current, is_soft_reset, is_hard_reset, ..empty }, token)))
        }
    }
}

fn change_of(mode: Mode, change: ChangeType) -> Option<Change> {
    let index = |index: i32| usize::try_from(index).unwrap_or(usize::MAX);
    Some(match change {
        ChangeType::Current(current) => Change::Upsert(state(current.resource.as_ref()?)),
        ChangeType::Added(added) if mode == Mode::Single => Change::Upsert(state(added.resource.as_ref()?)),
        ChangeType::Modified(modified) if mode == Mode::Single => Change::Upsert(state(modified.resource.as_ref()?)),
        ChangeType::Added(added) => {
            Change::Row { state: state(added.resource.as_ref()?), previous: None, index: index(added.view_index) }
        }
        ChangeType::Modified(modified) => Change::Row {
            state: state(modified.resource.as_ref()?),
            previous: Some(index(modified.previous_view_index)),
            index: index(modified.view_index),
        },
        ChangeType::Removed(removed) => {
            let incarnation: Incarnation = named(removed.name.as_ref());
            match mode {
                Mode::Stateful(_) => Change::RowGone { incarnation, index: index(removed.view_index) },
                _ => Change::Gone { incarnation, version: None },
            }
        }
    })
}
