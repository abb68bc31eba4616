//! Watches by content: pages with positions, all matching resources with resume tokens, and one resource.

use std::{collections::BTreeMap, time::Duration};

use mortise_api::{QueryServiceClient, WatchServiceClient};
use mortise_resource::{
    data::{
        self, ResourceChange, SearchRequest, WatchResourceRequest, WatchResourcesRequest, WatchResourcesResponse,
        resource_change::ChangeType,
    },
    goten::{LabelSelector, Meta, View, WatchType},
    pb,
};
use prost_types::{FieldMask, Timestamp};
use tokio::time::timeout;
use tonic::{Code, Status, Streaming, transport::Channel};

use crate::support::{Server, Setup, any, demo, gvk, id, id_of, names, noted, refusal, resource, tokens::Guarded};

const CONCEPT: &str = "demo.v1.Concept";
/// Time limit for expected messages.
const LONG: Duration = Duration::from_secs(30);
/// Time without a message after which none is expected.
const SHORT: Duration = Duration::from_millis(300);

async fn watches(server: &Server) -> WatchServiceClient<Channel> {
    WatchServiceClient::new(server.channel().await)
}

fn stateless(filter: &str) -> WatchResourcesRequest {
    WatchResourcesRequest {
        r#type: WatchType::Stateless.into(),
        resource_type: Some(gvk(CONCEPT)),
        filter: filter.into(),
        ..WatchResourcesRequest::default()
    }
}

/// A concept, whose data is a message without fields; queries use its meta and metadata.
fn concept(name: &str, labels: &[(&str, &str)], metadata: &[(&str, &str)]) -> pb::Resource {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let meta = Meta { labels, ..Meta::default() };
    noted(pb::Resource { meta: Some(Box::new(meta)), ..crate::support::concept(name) }, metadata)
}

/// A watch of all matching resources, and its client's state.
struct Client {
    stream: Streaming<WatchResourcesResponse>,
    has: BTreeMap<String, pb::Resource>,
    token: String,
    /// Names in messages since the last current one; removed names with a minus.
    came: Vec<String>,
    /// Messages since then.
    messages: usize,
}

impl Client {
    async fn open(server: &Server, request: WatchResourcesRequest) -> Result<Self, Status> {
        let stream = watches(server).await.watch_resources(request).await?.into_inner();
        Ok(Self { stream, has: BTreeMap::new(), token: String::new(), came: Vec::new(), messages: 0 })
    }

    async fn message(&mut self) -> WatchResourcesResponse {
        let message = timeout(LONG, self.stream.message()).await.expect("a message comes").unwrap().unwrap();
        assert_eq!(message.snapshot_size, -1, "{message:?}");
        assert_eq!(message.page_token_change, None);
        assert_eq!(message.is_current, !message.resume_token.is_empty(), "{message:?}");
        let kinds = [message.is_current, message.is_soft_reset, message.is_hard_reset];
        assert!(kinds.iter().filter(|is| **is).count() <= 1, "{message:?}");
        message
    }

    /// Reads up to a message that is current and not a reset.
    async fn current(&mut self) -> Vec<String> {
        self.came.clear();
        self.messages = 0;
        loop {
            let message = self.message().await;
            assert!(!message.is_hard_reset && !message.is_soft_reset);
            self.messages += 1;
            for change in &message.changes {
                match change.change_type.as_ref().unwrap() {
                    ChangeType::Current(current) => {
                        let resource = current.resource.clone().unwrap();
                        let name = resource.id.as_ref().unwrap().name.clone();
                        self.came.push(name.clone());
                        self.has.insert(name, resource);
                    }
                    ChangeType::Removed(removed) => {
                        let name = removed.name.as_ref().unwrap().name.clone();
                        assert_eq!(removed.view_index, 0);
                        self.came.push(format!("-{name}"));
                        self.has.remove(&name);
                    }
                    other => panic!("{other:?} in STATELESS"),
                }
            }
            if message.is_current {
                self.token = message.resume_token;
                return self.came.clone();
            }
        }
    }

    async fn is_quiet(&mut self) -> bool {
        timeout(SHORT, self.stream.message()).await.is_err()
    }
}

async fn searched(server: &Server, filter: &str) -> Vec<pb::Resource> {
    let request = SearchRequest {
        r#type: Some(gvk(CONCEPT)),
        filter: filter.into(),
        page_size: 1_000,
        ..SearchRequest::default()
    };
    QueryServiceClient::new(server.channel().await).search(request).await.unwrap().into_inner().resources
}

#[tokio::test]
async fn a_snapshot_comes_in_chunks_and_changes_follow() {
    let server = Server::start().await;
    let mut empty = Client::open(&server, stateless("")).await.unwrap();
    assert_eq!((empty.current().await, empty.messages), (vec![], 1), "also of nothing");
    for n in 0..10 {
        let env = if n % 2 == 0 { "even" } else { "odd" };
        server.write(concept(&format!("c{n}"), &[("env", env)], &[])).await.unwrap();
    }
    for (chunk, messages) in [(0, 1), (1, 10), (3, 4), (5, 2), (10, 1), (11, 1)] {
        let request = WatchResourcesRequest { max_chunk_size: chunk, ..stateless("") };
        let mut client = Client::open(&server, request).await.unwrap();
        assert_eq!(client.current().await.len(), 10);
        assert_eq!(client.messages, messages, "of {chunk}");
    }
    let mut client = Client::open(&server, stateless(r#"meta.labels.env = "even""#)).await.unwrap();
    let selector =
        LabelSelector { match_labels: BTreeMap::from([("env".into(), "even".into())]), ..Default::default() };
    let mut selecting =
        Client::open(&server, WatchResourcesRequest { selector: Some(selector), ..stateless("") }).await.unwrap();
    let mut negating = Client::open(&server, stateless(r#"NOT meta.labels.env = "odd""#)).await.unwrap();
    let between = r#"name != "nobody" AND meta.labels.env >= "even" AND meta.labels.env <= "even""#;
    let mut between = Client::open(&server, stateless(between)).await.unwrap();
    for client in [&mut client, &mut selecting, &mut negating, &mut between] {
        assert_eq!(client.current().await, ["c0", "c2", "c4", "c6", "c8"]);
    }
    // The resource leaves, comes back, is changed, is deleted, and is created again; another one never matches.
    server.write(concept("c0", &[("env", "odd")], &[])).await.unwrap();
    server.write(concept("c1", &[("env", "odd")], &[("other", "thing")])).await.unwrap();
    let back = server.write(concept("c0", &[("env", "even")], &[])).await.unwrap();
    let changed = server.write(concept("c0", &[("env", "even")], &[("k", "v")])).await.unwrap();
    server.delete(&id_of(&changed), "").await.unwrap();
    server.write(concept("c0", &[("env", "even")], &[])).await.unwrap();
    for client in [&mut client, &mut selecting, &mut negating, &mut between] {
        let mut came = Vec::new();
        while came.len() < 5 {
            came.extend(client.current().await);
        }
        assert_eq!(came, ["-c0", "c0", "c0", "-c0", "c0"]);
        assert_ne!(client.has["c0"].id.as_ref().unwrap().uid, back.id.as_ref().unwrap().uid);
    }
    server.write(concept("last", &[("env", "even")], &[])).await.unwrap();
    for client in [&mut client, &mut selecting, &mut negating, &mut between] {
        assert_eq!(client.current().await, ["last"]);
    }
    assert_eq!(client.has.into_values().collect::<Vec<_>>(), searched(&server, r#"meta.labels.env = "even""#).await);
}

#[tokio::test]
async fn changes_outside_mask_and_view_are_not_sent() {
    let server = Server::start().await;
    let paths = vec!["metadata.shown".to_owned()];
    let request = WatchResourcesRequest { field_mask: Some(FieldMask { paths }), ..stateless("") };
    server.write(concept("c", &[], &[("shown", "1")])).await.unwrap();
    let mut client = Client::open(&server, request).await.unwrap();
    assert_eq!(client.current().await, ["c"]);
    server.write(concept("c", &[], &[("shown", "1"), ("hidden", "2")])).await.unwrap();
    server.write(concept("c", &[], &[("shown", "2"), ("hidden", "2")])).await.unwrap();
    assert_eq!(client.current().await, ["c"]);
    let shown = &client.has["c"];
    assert_eq!(shown.metadata, crate::support::metadata(&[("shown", "2")]));
    assert!(shown.version.is_empty() && shown.meta.is_none() && shown.id.is_some());
}

/// A killed server returns with the same history: a client that resumes misses and repeats nothing.
#[tokio::test]
async fn a_resumed_watch_loses_and_repeats_nothing_over_kills() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Setup::new().data_dir(dir.path()).start().await;
    let filter = r#"meta.labels.env = "prod" AND metadata.n < "5""#;
    let mut random = fastrand::Rng::with_seed(7);
    let mut client = Client::open(&server, stateless(filter)).await.unwrap();
    client.current().await;
    let (mut kills, mut told) = (0, 0);
    for round in 0..8 {
        let mut has = client.has;
        let token = client.token;
        // Ends the watch.
        drop(client.stream);
        let mut expected = Vec::new();
        let mut state: BTreeMap<String, bool> = has.keys().map(|name| (name.clone(), true)).collect();
        for _ in 0..random.usize(0..40) {
            let name = format!("c{}", random.u8(..10));
            let was = state.get(&name).copied();
            if random.u8(..4) == 0 {
                let found = server.read(&id(CONCEPT, &name)).await;
                let Ok(found) = found else { continue };
                server.delete(&id_of(&found), "").await.unwrap();
                if was == Some(true) {
                    expected.push(format!("-{name}"));
                }
                state.remove(&name);
                continue;
            }
            let env = ["prod", "test"][random.usize(..2)];
            let n = random.u8(..10);
            server.write(concept(&name, &[("env", env)], &[("n", &n.to_string())])).await.unwrap();
            let is = env == "prod" && n < 5;
            if is {
                expected.push(name.clone());
            } else if was == Some(true) {
                expected.push(format!("-{name}"));
            }
            state.insert(name, is);
        }
        if round % 2 == 0 {
            server.signal("KILL");
            server.ended().await;
            server = Setup::new().data_dir(dir.path()).start().await;
            kills += 1;
        }
        let request = WatchResourcesRequest { resume_token: token, ..stateless(filter) };
        client = Client::open(&server, request).await.unwrap();
        std::mem::swap(&mut client.has, &mut has);
        assert_eq!(client.current().await, expected, "round {round}");
        assert!(client.is_quiet().await);
        told += expected.len();
        let now = searched(&server, filter).await;
        assert_eq!(client.has.values().cloned().collect::<Vec<_>>(), now);
    }
    assert!(kills == 4 && told > 30, "{kills} kills, {told} changes");
}

#[tokio::test]
async fn foreign_tokens_reset_and_invalid_ones_are_refused() {
    let server = Setup::new().env("MORTISE_STORE_HISTORY_EVENTS", 20).start().await;
    server.write(concept("c", &[], &[])).await.unwrap();
    let mut client = Client::open(&server, stateless("")).await.unwrap();
    client.current().await;
    let token = client.token.clone();
    let other =
        Client::open(&server, WatchResourcesRequest { resume_token: token.clone(), ..stateless("name = \"x\"") });
    let mut other = other.await.unwrap();
    assert!(other.message().await.is_hard_reset);
    assert_eq!(other.current().await, [""; 0]);
    // Nothing was written meanwhile.
    let mut same =
        Client::open(&server, WatchResourcesRequest { resume_token: token.clone(), ..stateless("") }).await.unwrap();
    assert_eq!((same.current().await, &same.token), (vec![], &token));
    for n in 0..21 {
        server.write(concept("c", &[], &[("n", &n.to_string())])).await.unwrap();
    }
    let mut late =
        Client::open(&server, WatchResourcesRequest { resume_token: token.clone(), ..stateless("") }).await.unwrap();
    let first = late.message().await;
    assert!(first.is_hard_reset && first.changes.is_empty());
    assert_eq!(late.current().await, ["c"]);

    for (request, part) in [
        (
            WatchResourcesRequest { resume_token: "nonsense".into(), ..stateless("") },
            "resume_token: it is not a resume token",
        ),
        (
            WatchResourcesRequest { resume_token: token[..20].into(), ..stateless("") },
            "resume_token: it is not a resume token",
        ),
        (WatchResourcesRequest { page_size: 1, ..stateless("") }, "page_size is not for a STATELESS watch"),
        (WatchResourcesRequest { order_by: "name".into(), ..stateless("") }, "order_by is not for a STATELESS watch"),
        (WatchResourcesRequest { page_token: "x".into(), ..stateless("") }, "page_token is not for a STATELESS watch"),
        (WatchResourcesRequest { max_chunk_size: -1, ..stateless("") }, "max_chunk_size: -1 is negative"),
        (WatchResourcesRequest { r#type: 7, ..stateless("") }, "type: 7 is not a type of watch"),
        (
            WatchResourcesRequest { resume_token: token.clone(), ..stateful("", "", 0) },
            "resume_token is not for a STATEFUL",
        ),
        (
            WatchResourcesRequest { starting_time: Some(Timestamp::default()), ..stateful("", "", 0) },
            "starting_time is not for a STATEFUL",
        ),
        (
            WatchResourcesRequest {
                starting_time: Some(Timestamp { seconds: 9_999_999_999, nanos: 0 }),
                ..stateless("")
            },
            "starting_time: in the future",
        ),
        (
            WatchResourcesRequest { starting_time: Some(Timestamp { seconds: i64::MIN, nanos: -1 }), ..stateless("") },
            "starting_time: not a valid time",
        ),
        (
            WatchResourcesRequest {
                starting_time: Some(Timestamp::default()),
                resume_token: token.clone(),
                ..stateless("")
            },
            "starting_time is not for a watch with a resume_token",
        ),
        (stateless("nothing = 1"), "path \"nothing\""),
        (stateless("("), "filter, at character"),
        (WatchResourcesRequest { resource_type: None, ..stateless("") }, "type is required"),
    ] {
        let refused = watches(&server).await.watch_resources(request).await;
        let (code, text) = refusal(refused.map(drop));
        assert!(code == Code::InvalidArgument && text.contains(part), "{code:?} {text}, not {part}");
    }
    let (code, _) = refusal(watches(&server).await.watch_resources(stateless("name LIKE \"x\"")).await.map(drop));
    assert_eq!(code, Code::Unimplemented);
}

#[tokio::test]
async fn a_time_is_a_beginning() {
    let server = Setup::new().env("MORTISE_STORE_HISTORY_EVENTS", 50).start().await;
    let old = server.write(concept("old", &[], &[])).await.unwrap();
    let time = server.write(concept("first", &[], &[])).await.unwrap().meta.unwrap().update_time;
    server.write(concept("second", &[], &[])).await.unwrap();
    server.delete(&id_of(&old), "").await.unwrap();
    let since = |time| WatchResourcesRequest { starting_time: time, ..stateless("") };
    let mut client = Client::open(&server, since(time)).await.unwrap();
    assert_eq!(client.current().await, ["first", "second", "-old"]);
    let mut all = Client::open(&server, since(Some(Timestamp::default()))).await.unwrap();
    // Everything since the beginning, which the history still has, and nothing that the server itself stored.
    assert_eq!(all.current().await, ["old", "first", "second", "-old"]);
    // A token continues from its position.
    server.write(concept("third", &[], &[])).await.unwrap();
    let resumed = WatchResourcesRequest { resume_token: client.token.clone(), ..stateless("") };
    assert_eq!(Client::open(&server, resumed).await.unwrap().current().await, ["third"]);
    for n in 0..60 {
        server.write(concept("third", &[], &[("n", &n.to_string())])).await.unwrap();
    }
    let mut late = Client::open(&server, since(time)).await.unwrap();
    assert!(late.message().await.is_hard_reset);
    assert_eq!(late.current().await, ["first", "second", "third"]);
}

/// A client that reads nothing while more is written than the history keeps either catches up or gets a hard reset; in
/// the end its state is current.
#[tokio::test]
async fn a_slow_reader_ends_with_the_stored_state() {
    for (history, resets) in [(100_000, false), (20, true)] {
        let server = Setup::new().limit("watch_buffer", 16).env("MORTISE_STORE_HISTORY_EVENTS", history).start().await;
        let filter = r#"meta.labels.env = "prod""#;
        let mut client = Client::open(&server, stateless(filter)).await.unwrap();
        client.current().await;
        let text = "x".repeat(60_000);
        // More than connections buffer.
        for n in 0..400 {
            let env = if n % 7 == 0 { "test" } else { "prod" };
            server.write(concept(&format!("c{}", n % 10), &[("env", env)], &[("text", &text)])).await.unwrap();
        }
        server.write(concept("last", &[("env", "prod")], &[])).await.unwrap();
        let mut seen = 0;
        while !client.has.contains_key("last") {
            let message = client.message().await;
            if message.is_hard_reset || message.is_soft_reset {
                seen += 1;
                client.has.clear();
            }
            apply_stateless(&mut client.has, message.changes);
        }
        assert_eq!(seen > 0, resets, "{seen} resets with a history of {history}");
        while !client.is_quiet().await {}
        let has: Vec<_> = client.has.into_values().collect();
        assert_eq!(names(&has), names(&searched(&server, filter).await));
    }
}

fn apply_stateless(has: &mut BTreeMap<String, pb::Resource>, changes: Vec<ResourceChange>) {
    for change in changes {
        match change.change_type.unwrap() {
            ChangeType::Current(current) => {
                let resource = current.resource.unwrap();
                has.insert(id_of(&resource).name, resource);
            }
            ChangeType::Removed(removed) => drop(has.remove(&removed.name.unwrap().name)),
            other => panic!("{other:?}"),
        }
    }
}

fn stateful(filter: &str, order_by: &str, page_size: i32) -> WatchResourcesRequest {
    WatchResourcesRequest {
        r#type: WatchType::Stateful.into(),
        resource_type: Some(gvk(CONCEPT)),
        filter: filter.into(),
        order_by: order_by.into(),
        page_size,
        ..WatchResourcesRequest::default()
    }
}

/// A watch of a page, and its client's state.
struct PageClient {
    stream: Streaming<WatchResourcesResponse>,
    request: WatchResourcesRequest,
    rows: Vec<pb::Resource>,
    tokens: (String, String),
}

impl PageClient {
    async fn open(server: &Server, request: WatchResourcesRequest) -> Self {
        let stream = watches(server).await.watch_resources(request.clone()).await.unwrap().into_inner();
        Self { stream, request, rows: Vec::new(), tokens: Default::default() }
    }

    /// Reads up to a message that is current. Returns the number of messages.
    async fn current(&mut self) -> usize {
        for messages in 1.. {
            let message = timeout(LONG, self.stream.message()).await.expect("a message comes").unwrap().unwrap();
            assert!(message.snapshot_size == -1 && message.resume_token.is_empty());
            assert!(!message.is_hard_reset && !message.is_soft_reset);
            for change in message.changes {
                self.apply(change);
            }
            if let Some(tokens) = message.page_token_change {
                assert!(message.is_current);
                self.tokens = (tokens.prev_page_token, tokens.next_page_token);
            }
            if message.is_current {
                return messages;
            }
        }
        unreachable!()
    }

    fn apply(&mut self, change: ResourceChange) {
        let at = |index: i32| usize::try_from(index).unwrap();
        match change.change_type.unwrap() {
            ChangeType::Added(added) => self.rows.insert(at(added.view_index), added.resource.unwrap()),
            ChangeType::Removed(removed) => {
                let gone = self.rows.remove(at(removed.view_index));
                assert_eq!(gone.id, removed.name);
            }
            ChangeType::Modified(modified) => {
                let old = self.rows.remove(at(modified.previous_view_index));
                assert_eq!(old.id, modified.name);
                self.rows.insert(at(modified.view_index), modified.resource.unwrap());
            }
            ChangeType::Current(current) => panic!("{current:?} in STATEFUL"),
        }
    }

    /// The page of a search, with its tokens.
    async fn page(&self, server: &Server) -> (Vec<pb::Resource>, (String, String)) {
        let request = SearchRequest {
            r#type: self.request.resource_type.clone(),
            filter: self.request.filter.clone(),
            order_by: self.request.order_by.clone(),
            page_size: self.request.page_size,
            page_token: self.request.page_token.clone(),
            field_mask: self.request.field_mask.clone(),
            view: self.request.view,
            ..SearchRequest::default()
        };
        let answer = QueryServiceClient::new(server.channel().await).search(request).await.unwrap().into_inner();
        (answer.resources, (answer.prev_page_token, answer.next_page_token))
    }
}

const ARTIST: &str = "demo.v2.Artist";

/// Filters without a required value, with required labels and fields, and with several of these.
const FILTERS: [&str; 10] = [
    "",
    r#"meta.labels.env = "prod""#,
    r#"metadata.n >= "3""#,
    r#"metadata.n = "3""#,
    r#"data.groupMembers.lead = "l1""#,
    r#"data.groupMembers.lead IN ("l1", "l2") meta.labels.env = "prod""#,
    r#"meta.labels.env IN ("prod", "none")"#,
    r#"name IN ("c01", "c02", "c03", "c04", "c05")"#,
    r#"metadata.n IN ("1", "2", "4") data.genre = "GENRE_JAZZ" data.groupMembers.lead = "l0""#,
    r#"data.groupMembers.lead = "l1" OR (metadata.n = "2" data.groupMembers.lead = "l2")"#,
];

fn artist(name: &str, lead: &str, env: &str, n: &str) -> pb::Resource {
    let group_members = [("lead".to_owned(), lead.to_owned())].into_iter().collect();
    let data = demo::v2::Artist { name: name.into(), genre: demo::v2::Genre::Jazz.into(), group_members };
    let artist = resource(id(ARTIST, name), Some(any("hashicorp.consul.internal.demo.v2.Artist", &data)));
    let meta = Meta { labels: [("env".to_owned(), env.to_owned())].into(), ..Meta::default() };
    noted(pb::Resource { meta: Some(Box::new(meta)), ..artist }, &[("n", n)])
}

/// The page built from the changes equals that of a search after each write and its messages.
/// `MORTISE_WATCH_HISTORIES` sets the number of histories, `MORTISE_WATCH_SEED` selects them.
#[tokio::test]
async fn a_watched_page_is_that_of_a_search_after_each_message() {
    let of = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let histories: u64 = of("MORTISE_WATCH_HISTORIES", 40);
    let mut random = fastrand::Rng::with_seed(of("MORTISE_WATCH_SEED", 20));
    let server = Server::start().await;
    let (mut compared, mut told, mut tokens) = (0, 0, 0);
    for history in 0..histories {
        let filter = FILTERS[random.usize(..FILTERS.len())];
        let order =
            ["", "name desc", "metadata.n", "metadata.n desc, name", "meta.update_time desc"][random.usize(..5)];
        let mut request = WatchResourcesRequest {
            resource_type: Some(gvk(ARTIST)),
            max_chunk_size: random.i32(0..3),
            ..stateful(filter, order, random.i32(1..7))
        };
        if random.u8(..4) == 0 {
            request.field_mask = Some(FieldMask { paths: vec!["metadata.n".into()] });
        }
        let mut client = PageClient::open(&server, request.clone()).await;
        // Some watch a later page, and some of these the one before it.
        for _ in 0..random.usize(..3) {
            let (_, (prev, next)) = client.page(&server).await;
            let token = if random.u8(..3) == 0 { prev } else { next };
            if !token.is_empty() {
                request.page_token = token;
                client = PageClient::open(&server, request.clone()).await;
                tokens += 1;
            }
        }
        client.current().await;
        let (rows, page_tokens) = client.page(&server).await;
        assert_eq!((&client.rows, &client.tokens), (&rows, &page_tokens), "history {history}: {request:?}");
        for _ in 0..12 {
            let name = format!("c{:02}", random.u8(..16));
            let found = server.read(&id(ARTIST, &name)).await;
            match found {
                Ok(found) if random.u8(..3) == 0 => server.delete(&id_of(&found), "").await.unwrap(),
                _ => {
                    let env = ["prod", "test"][random.usize(..2)];
                    let n = random.u8(..6).to_string();
                    server.write(artist(&name, ["l0", "l1", "l2"][random.usize(..3)], env, &n)).await.unwrap();
                }
            }
            let (rows, page_tokens) = client.page(&server).await;
            if (&client.rows, &client.tokens) != (&rows, &page_tokens) {
                client.current().await;
                told += 1;
            }
            assert_eq!(client.rows, rows, "history {history}: {request:?}");
            assert_eq!(client.tokens, page_tokens, "history {history}: {request:?}");
            compared += 1;
        }
        assert!(timeout(Duration::from_millis(5), client.stream.message()).await.is_err(), "nothing more");
    }
    println!("{histories} histories, {compared} pages compared, {told} messages, {tokens} later pages");
    assert!(compared == histories * 12 && told > histories && tokens > histories / 4);
}

#[tokio::test]
async fn one_resource_is_watched_over_its_ends() {
    let server = Server::start().await;
    let request = |name: &str| WatchResourceRequest { id: Some(id(CONCEPT, name)), ..WatchResourceRequest::default() };
    let absent = watches(&server).await.watch_resource(request("c")).await;
    assert_eq!(refusal(absent.map(drop)).0, Code::NotFound);
    let first = server.write(concept("c", &[], &[])).await.unwrap();
    server.write(concept("c2", &[], &[])).await.unwrap();
    let mut whole = watches(&server).await.watch_resource(request("c")).await.unwrap().into_inner();
    let with_uid = WatchResourceRequest { id: first.id.clone(), ..WatchResourceRequest::default() };
    let mut this = watches(&server).await.watch_resource(with_uid).await.unwrap().into_inner();
    let masked = WatchResourceRequest { view: View::Name.into(), ..request("c") };
    let mut masked = watches(&server).await.watch_resource(masked).await.unwrap().into_inner();

    let changed = server.write(concept("c", &[], &[("k", "v")])).await.unwrap();
    server.write(concept("c2", &[], &[("k", "v")])).await.unwrap();
    server.delete(&id_of(&changed), "").await.unwrap();
    let again = server.write(concept("c", &[], &[])).await.unwrap();
    let uid = |resource: Option<pb::Resource>| resource.unwrap().id.unwrap().uid;
    let (old, new) = (first.id.clone().unwrap().uid, again.id.clone().unwrap().uid);
    for (stream, expected) in [
        (&mut whole, vec![format!("+{old}"), format!("~{old}"), format!("-{old}"), format!("+{new}")]),
        (&mut this, vec![format!("+{old}"), format!("~{old}"), format!("-{old}")]),
        (&mut masked, vec![format!("+{old}"), format!("-{old}"), format!("+{new}")]),
    ] {
        let mut told = Vec::new();
        for _ in &expected {
            let message = timeout(LONG, stream.message()).await.expect("a message in time");
            told.push(match message.unwrap().unwrap().change.unwrap().change_type.unwrap() {
                ChangeType::Added(added) => format!("+{}", uid(added.resource)),
                ChangeType::Modified(modified) => format!("~{}", uid(modified.resource)),
                ChangeType::Removed(removed) => format!("-{}", removed.name.unwrap().uid),
                ChangeType::Current(current) => panic!("{current:?}"),
            });
        }
        assert_eq!(told, expected);
        assert!(timeout(SHORT, stream.message()).await.is_err(), "that is all");
    }
}

/// A watch sends no resource that the caller may not read, and starts again when the caller's rights change.
#[tokio::test]
async fn unreadable_resources_are_not_sent() {
    let guarded = Guarded::start(Setup::new()).await;
    let refused = watches(&guarded.server).await.watch_resources(stateless("")).await;
    assert_eq!(refusal(refused.map(drop)).0, Code::PermissionDenied);
    let watches = async |secret: &str| WatchServiceClient::new(guarded.channel(secret).await);
    let refused = watches("nobody").await.watch_resources(stateless("")).await;
    assert_eq!(refusal(refused.map(drop)).0, Code::Unauthenticated);

    let rule = |verbs: &[&str], prefix: &str| data::TypeRule {
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        types: vec!["demo/*".into()],
        name_prefixes: [prefix].into_iter().filter(|prefix| !prefix.is_empty()).map(str::to_owned).collect(),
        ..data::TypeRule::default()
    };
    guarded.policy("mine", "", vec![rule(&["list"], ""), rule(&["read"], "mine")]).await;
    let secret = guarded.token("reader", &["mine"], |_| {}).await;
    for name in ["mine-1", "other-1"] {
        guarded.write(concept(name, &[("env", "prod")], &[])).await;
    }
    let open = async |request| {
        let stream = watches(&secret).await.watch_resources(request).await.unwrap().into_inner();
        Client { stream, has: BTreeMap::new(), token: String::new(), came: Vec::new(), messages: 0 }
    };
    let filter = r#"meta.labels.env = "prod""#;
    let mut client = open(stateless(filter)).await;
    assert_eq!(client.current().await, ["mine-1"]);
    let stream = watches(&secret).await.watch_resources(stateful(filter, "", 10)).await.unwrap().into_inner();
    let mut page =
        PageClient { stream, request: stateful(filter, "", 10), rows: Vec::new(), tokens: Default::default() };
    page.current().await;
    assert_eq!(names(&page.rows), ["mine-1"]);
    // A resource comes, is changed, leaves the filter, and goes, without any message.
    let other = concept("other-2", &[("env", "prod")], &[]);
    guarded.write(other.clone()).await;
    guarded.write(noted(other, &[("k", "v")])).await;
    guarded.write(concept("other-2", &[("env", "test")], &[])).await;
    guarded.delete(id(CONCEPT, "other-1")).await;
    guarded.write(concept("mine-2", &[("env", "prod")], &[])).await;
    assert_eq!(client.current().await, ["mine-2"]);
    page.current().await;
    assert_eq!(names(&page.rows), ["mine-1", "mine-2"]);
    // A replay sends none either.
    let token = client.token.clone();
    guarded.delete(id(CONCEPT, "other-2")).await;
    guarded.write(concept("mine-1", &[("env", "test")], &[])).await;
    assert_eq!(client.current().await, ["-mine-1"]);
    let resumed = WatchResourcesRequest { resume_token: token.clone(), ..stateless(filter) };
    assert_eq!(open(resumed.clone()).await.current().await, ["-mine-1"]);
    // A token of another caller is useless.
    let mut client = WatchServiceClient::new(guarded.channel(&guarded.management).await);
    let mut stream = client.watch_resources(resumed.clone()).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().unwrap().is_hard_reset);
    let single = WatchResourceRequest { id: Some(id(CONCEPT, "other-2")), ..WatchResourceRequest::default() };
    let refused = watches(&secret).await.watch_resource(single).await;
    assert_eq!(refusal(refused.map(drop)).0, Code::PermissionDenied);

    // After a change of rights, the sent state may contain too much or too little.
    let mut client = open(stateless(filter)).await;
    client.current().await;
    guarded.policy("mine", "", vec![rule(&["list"], ""), rule(&["read"], "mine"), rule(&["read"], "other")]).await;
    let ended = timeout(LONG, client.stream.message()).await.unwrap();
    assert_eq!(refusal(ended).0, Code::Aborted);
    let mut again = open(resumed).await;
    assert!(again.message().await.is_hard_reset);
    assert_eq!(again.current().await, ["mine-2"]);
}

/// Without an index, each change is checked against the filter.
#[tokio::test]
async fn a_filter_without_an_index_goes_into_the_data() {
    let server = Server::start().await;
    let filter = r#"data.name != "" AND meta.labels.shard >= "5" AND meta.labels.shard <= "5""#;
    let request = WatchResourcesRequest { resource_type: Some(gvk("demo.v2.Artist")), ..stateless(filter) };
    let mut client = Client::open(&server, request).await.unwrap();
    client.current().await;
    for shard in ["4", "5", "6"] {
        let labels = [("shard".to_owned(), shard.to_owned())].into();
        let meta = Some(Box::new(Meta { labels, ..Meta::default() }));
        server.write(pb::Resource { meta, ..crate::support::artist(&format!("artist-{shard}")) }).await.unwrap();
    }
    assert_eq!(client.current().await, ["artist-5"]);
}
