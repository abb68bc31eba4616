//! The random calls of a client. All clients use the same few resources, so that they get into each other's way.

use std::sync::atomic::Ordering;

use fastrand::Rng;
use mortise_proof::record::{Answer, Incarnation, Key, NAMESPACE, PARTITION, Scope, State};

use super::{
    client::{Client, Extras},
    convert::{ALBUM, ARTIST},
    ties,
};

/// Share of writes that hold a resource by a finalizer, of 100.
const HELD: u8 = 6;
/// Share of calls about resources that refer to each other: so many of so many.
const NODES: (u8, u8) = (1, 5);
/// Names of a read of several.
const BATCH: usize = 5;

/// Does the client's part of the operations.
pub(crate) async fn run(mut client: Client, mut random: Rng) {
    while client.world.take() {
        step(&mut client, &mut random).await;
    }
}

fn any_key(client: &Client, random: &mut Rng) -> Key {
    let world = &client.world;
    let kind = if random.bool() { ARTIST } else { ALBUM };
    // Two of three in the namespace that stays.
    let namespace = if random.u8(..3) < 2 { 0 } else { random.usize(..world.namespaces.len()) };
    Key {
        kind: kind.to_owned(),
        namespace: world.namespaces.get(namespace).cloned().unwrap_or_default(),
        name: format!("{}k{}", world.prefix, random.usize(..world.names)),
    }
}

async fn step(client: &mut Client, random: &mut Rng) {
    if client.world.has_nodes.load(Ordering::Relaxed) && random.u8(..NODES.1) < NODES.0 {
        return ties::step(client, random).await;
    }
    let key = any_key(client, random);
    let known = client.world.known(&key);
    match (random.u16(..1_000), known) {
        (0..280, known) => drop(blanket(client, random, &key, known).await),
        (280..420, Some(known)) => {
            let (content, version) = (client.world.text(), Some(known.version));
            let uid = if random.bool() { known.uid.clone() } else { String::new() };
            let extras = Extras { base: Some(known), metadata: None };
            client.write(&key, (&uid, version), content, extras, false).await;
        }
        (420..530, Some(known)) => {
            let version = Some(known.version).filter(|_| random.bool());
            let entry = if random.bool() { "one" } else { "two" };
            client.status(&known, version, entry).await;
        }
        (530..600, known) => {
            let expected = known.map(|known| known.content).filter(|_| random.u8(..3) == 0);
            client.update(&key, expected).await;
        }
        (600..700, known) => {
            let (uid, version) = match (random.u8(..3), known) {
                (0, Some(known)) => (known.uid, Some(known.version)),
                (1, Some(known)) => (known.uid, None),
                _ => (String::new(), None),
            };
            match uid.is_empty() && random.bool() && client.has_http() {
                true => client.delete_over_http(&key, version).await,
                false => client.delete(&key, &uid, version).await,
            };
        }
        (700..730, Some(known)) if known.has_finalizers => {
            client.release(&key).await;
        }
        (900..930, _) => {
            let kind = key.kind.clone();
            let scope = Scope { kind, namespace: Some(key.namespace.clone()).filter(|_| random.bool()), name: None };
            match random.u8(..4) {
                0 => client.search(scope).await,
                1 if client.has_http() => client.list_over_http(scope).await,
                other => client.list(scope, other == 2).await,
            };
        }
        (930..950, Some(known)) => {
            let owner = known.owner.unwrap_or(Incarnation { key: known.key, uid: known.uid });
            client.owned(&owner).await;
        }
        (950..985, _) => {
            let mut keys: Vec<_> = (0..BATCH).map(|_| any_key(client, random)).collect();
            keys.sort();
            keys.dedup();
            client.batch(keys).await;
        }
        (985..990, _) => namespace(client, random).await,
        (_, known) => {
            let uid = known.map(|known| known.uid).filter(|_| random.u8(..5) == 0).unwrap_or_default();
            match uid.is_empty() && random.u8(..3) == 0 && client.has_http() {
                true => client.read_over_http(&key, random.bool()).await,
                false => client.read(&key, &uid, random.u8(..3) == 0).await,
            };
        }
    }
}

async fn blanket(client: &mut Client, random: &mut Rng, key: &Key, known: Option<State>) -> Answer {
    let content = client.world.text();
    let base = match known {
        Some(known) => Some(known),
        None => new_base(client, random, key),
    };
    if random.u8(..4) == 0 && client.has_http() {
        return client.write_over_http(key, None, content, base).await;
    }
    // A blanket write without finalizers keeps them; here it sends those that it has seen.
    client.write(key, ("", None), content, Extras { base, metadata: None }, false).await
}

/// Owner and finalizer of a new resource: an album may belong to an artist of any namespace.
fn new_base(client: &Client, random: &mut Rng, key: &Key) -> Option<State> {
    let owner = (key.kind == ALBUM && random.u8(..3) > 0).then(|| any_key(client, random));
    let owner = owner.filter(|owner| owner.kind == ARTIST).and_then(|owner| client.world.known(&owner));
    let owner = owner.map(|owner| Incarnation { key: owner.key, uid: owner.uid });
    Some(State {
        key: key.clone(),
        uid: String::new(),
        version: 0,
        generation: String::new(),
        edition: 0,
        content: String::new(),
        owner,
        is_marked: false,
        has_finalizers: random.u8(..100) < HELD,
        statuses: Default::default(),
        references: Vec::new(),
        digest: 0,
    })
}

/// Creates or deletes a namespace.
async fn namespace(client: &mut Client, random: &mut Rng) {
    // The first and the last stay.
    let index = random.usize(1..client.world.namespaces.len() - 1);
    let name = client.world.namespaces.get(index).cloned().unwrap_or_default();
    let key = Key { kind: NAMESPACE.to_owned(), namespace: String::new(), name };
    if random.u8(..4) == 0 {
        client.delete(&key, "", None).await;
    } else {
        client.write(&key, ("", None), String::new(), Extras::default(), false).await;
    }
}

/// Creates the namespaces and the partition of the history.
pub(crate) async fn prepare(client: &mut Client) {
    for name in client.world.namespaces.clone().into_iter().skip(1) {
        // A partition has a namespace `default` from its beginning.
        let (kind, name) = match name.split_once('/') {
            Some((partition, _)) => (PARTITION, partition.to_owned()),
            None => (NAMESPACE, name),
        };
        let key = Key { kind: kind.to_owned(), namespace: String::new(), name };
        client.write(&key, ("", None), String::new(), Extras::default(), false).await;
    }
}
