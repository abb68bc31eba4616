//! Tokens whose rights change while calls and watches use them.
//!
//! Each token has one writer, which gives and takes its rights in three ways: by its policy, by its list of policies,
//! and by its existence. A change without an answer is repeated until it has one. At the end each token has no rights,
//! and its watch must have ended.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use mortise_proof::record::{DEFAULT_NAMESPACE, Entry, Key, NEVER, RightsChange, TokenUse, TokenWatch};
use mortise_resource::{data, grpc::ResourceServiceClient, pb, pb::watch_event::Event};
use sha2::{Digest as _, Sha256};
use tokio::{sync::watch, task::JoinSet, time::timeout};
use tonic::{Code, Request, Status, transport::Channel};

use super::{
    convert::{ARTIST, id, place, state, type_of},
    world::{CALL_LIMIT, Connection, World},
};

/// Tokens of a history.
const TOKENS: usize = 2;
/// Callers with each token.
const CALLERS: usize = 2;
/// Longest pause between two changes, and between two calls, ms.
const PAUSE_MS: (u64, u64) = (40, 8);
/// Time limit for the end of a watch whose rights have gone.
const END_LIMIT: Duration = Duration::from_secs(20);
/// Rules that allow to read and list artists.
const RULES: &str = r#"key_prefix "resource/demo.v2.Artist" { policy = "list" }"#;

/// Starts the tasks of all tokens. They end by themselves after the last call of the history.
pub(crate) fn spawn(tasks: &mut JoinSet<()>, world: &Arc<World>, random: &mut Rng) {
    for number in 0..TOKENS {
        let token = Arc::new(Token { name: format!("{}token{number}", world.prefix), world: world.clone() });
        let (over, seen) = watch::channel(false);
        tasks.spawn(changes(token.clone(), random.fork(), over));
        for _ in 0..CALLERS {
            tasks.spawn(calls(token.clone(), random.fork(), seen.clone()));
        }
        tasks.spawn(watches(token, seen));
    }
}

struct Token {
    name: String,
    world: Arc<World>,
}

/// The parts of the rights; a call needs all of them.
#[derive(Clone, Copy)]
struct Rights {
    policy_allows: bool,
    has_policy: bool,
    exists: bool,
}

impl Rights {
    fn allow(self) -> bool {
        self.policy_allows && self.has_policy && self.exists
    }
}

impl Token {
    /// The secret is the hash of the name, as text.
    fn secret(&self) -> String {
        format!("{:x}", Sha256::digest(self.name.as_bytes()))
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Ok(secret) = self.secret().parse() {
            request.metadata_mut().insert("x-consul-token", secret);
        }
        request
    }

    fn stored_id(&self, kind: &str) -> pb::Id {
        let kind = pb::Type { group: "mortise".into(), group_version: "v1".into(), kind: kind.into() };
        let tenancy = Some(pb::Tenancy::default());
        pb::Id { name: self.name.clone(), r#type: Some(kind), tenancy, ..pb::Id::default() }
    }

    async fn put(&self, connection: &Connection, kind: &str, message: &impl prost::Message) -> Result<(), Status> {
        let data = prost_types::Any {
            type_url: format!("type.googleapis.com/mortise.v1.{kind}"),
            value: message.encode_to_vec(),
        };
        let resource = pb::Resource { id: Some(self.stored_id(kind)), data: Some(data), ..pb::Resource::default() };
        client(connection).write(pb::WriteRequest { resource: Some(resource) }).await.map(drop)
    }

    async fn store_policy(&self, connection: &Connection, rights: Rights) -> Result<(), Status> {
        let rules = if rights.policy_allows { RULES.to_owned() } else { String::new() };
        self.put(connection, "Policy", &data::Policy { rules, ..data::Policy::default() }).await
    }

    async fn store_token(&self, connection: &Connection, rights: Rights) -> Result<(), Status> {
        if !rights.exists {
            let request = pb::DeleteRequest { id: Some(self.stored_id("Token")), version: String::new() };
            return client(connection).delete(request).await.map(drop);
        }
        let token = data::Token {
            secret_sha256: Sha256::digest(self.secret().as_bytes()).to_vec(),
            policies: rights.has_policy.then(|| self.name.clone()).into_iter().collect(),
            ..data::Token::default()
        };
        self.put(connection, "Token", &token).await
    }

    /// Makes a change, and records it; repeats it until it is answered.
    async fn change(&self, connection: &mut Connection, rights: Rights, is_of_policy: bool) {
        loop {
            let begun = self.world.now();
            let change = async {
                match is_of_policy {
                    true => self.store_policy(connection, rights).await,
                    false => self.store_token(connection, rights).await,
                }
            };
            let is_done = matches!(timeout(CALL_LIMIT, change).await, Ok(Ok(())));
            let ended = if is_done { self.world.now() } else { NEVER };
            let change = RightsChange { token: self.name.clone(), begun, ended, allows: rights.allow() };
            self.world.add(Entry::Rights(change));
            if is_done {
                return;
            }
            *connection = self.world.connect(0).await;
        }
    }
}

fn client(connection: &Connection) -> ResourceServiceClient<Channel> {
    ResourceServiceClient::new(connection.channel.clone()).max_decoding_message_size(usize::MAX)
}

async fn pause(random: &mut Rng, most: u64) {
    tokio::time::sleep(Duration::from_millis(random.u64(..most))).await;
}

/// Gives and takes the rights of a token until the calls of the history are done; then takes them.
async fn changes(token: Arc<Token>, mut random: Rng, over: watch::Sender<bool>) {
    let mut connection = token.world.connect(0).await;
    let mut rights = Rights { policy_allows: true, has_policy: true, exists: false };
    token.change(&mut connection, rights, true).await;
    while token.world.left() > 0 {
        let of_policy = match (rights.policy_allows, rights.has_policy, rights.exists) {
            (true, true, true) => {
                let part = random.u8(..3);
                match part {
                    0 => rights.policy_allows = false,
                    1 => rights.has_policy = false,
                    _ => rights.exists = false,
                }
                part == 0
            }
            (is_allowing, ..) => {
                rights = Rights { policy_allows: true, has_policy: true, exists: true };
                !is_allowing
            }
        };
        token.change(&mut connection, rights, of_policy).await;
        pause(&mut random, PAUSE_MS.0).await;
    }
    rights.exists = false;
    token.change(&mut connection, rights, false).await;
    over.send_replace(true);
}

/// Calls with the token until its rights are gone for good.
async fn calls(token: Arc<Token>, mut random: Rng, over: watch::Receiver<bool>) {
    let mut connection = token.world.connect(1).await;
    let name = format!("{}k0", token.world.prefix);
    let key = Key { kind: ARTIST.to_owned(), namespace: DEFAULT_NAMESPACE.to_owned(), name };
    loop {
        let is_last = *over.borrow();
        let begun = token.world.now();
        let request = token.request(pb::ReadRequest { id: Some(id(&key, "")) });
        let answer = timeout(CALL_LIMIT, client(&connection).read(request)).await;
        let ended = token.world.now();
        let is_allowed = match answer {
            Ok(Ok(_)) => Some(true),
            Ok(Err(status)) => match status.code() {
                Code::NotFound => Some(true),
                Code::PermissionDenied | Code::Unauthenticated => Some(false),
                _ => None,
            },
            Err(_) => None,
        };
        match is_allowed {
            Some(is_allowed) => {
                token.world.add(Entry::Use(TokenUse { token: token.name.clone(), begun, ended, is_allowed }));
            }
            None => connection = token.world.connect(1).await,
        }
        if is_last {
            return;
        }
        pause(&mut random, PAUSE_MS.1).await;
    }
}

/// Watches with the token, again after each end, until its rights are gone for good.
async fn watches(token: Arc<Token>, mut over: watch::Receiver<bool>) {
    let world = &token.world;
    while !*over.borrow() {
        let connection = world.connect(2).await;
        let request = pb::WatchListRequest {
            r#type: Some(type_of(ARTIST)),
            tenancy: Some(place(DEFAULT_NAMESPACE)),
            name_prefix: world.prefix.clone(),
            after: None,
        };
        let Ok(Ok(answer)) = timeout(CALL_LIMIT, client(&connection).watch_list(token.request(request))).await else {
            tokio::time::sleep(Duration::from_millis(PAUSE_MS.1)).await;
            continue;
        };
        let mut events = answer.into_inner();
        let mut held = TokenWatch { token: token.name.clone(), opened: NEVER, states: Vec::new(), ended: NEVER };
        loop {
            let message = tokio::select! {
                message = events.message() => message,
                // The rights have gone: the end must come.
                () = late(&mut over) => break,
            };
            let Ok(Some(event)) = message else {
                held.ended = world.now();
                break;
            };
            match event.event {
                Some(Event::EndOfSnapshot(_)) => held.opened = world.now(),
                Some(Event::Upsert(upsert)) if held.opened != NEVER => {
                    held.states.extend(upsert.resource.iter().map(state));
                }
                _ => {}
            }
        }
        if held.opened != NEVER {
            world.add(Entry::Held(held));
        }
    }
}

/// Waits until the rights have been gone for the time limit.
async fn late(over: &mut watch::Receiver<bool>) {
    if over.wait_for(|over| *over).await.is_ok() {
        tokio::time::sleep(END_LIMIT).await;
    }
}
