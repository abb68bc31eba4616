//! Calls about resources that refer to each other: writes of references, moves to another kind, imports.
//!
//! References lead into the namespace of the resource or into `default`: so no resource that stays refers to one of a
//! namespace that goes.

use fastrand::Rng;
use mortise_proof::record::{Answer, Call, DEFAULT_NAMESPACE, DRAFT, Key, NODE, OnDelete, Reference, Scope};
use mortise_resource::{
    data::{ImportRequest, MoveRequest},
    grpc::ChangeServiceClient,
    pb,
};

use super::{
    client::{Client, stored},
    convert::{self, id, place, type_of},
};

/// Most references of a resource.
const MAX_REFERENCES: usize = 2;

impl Client {
    /// Writes a node or a draft.
    pub(crate) async fn write_node(
        &mut self,
        key: &Key,
        (uid, version): (&str, Option<u64>),
        references: Vec<Reference>,
    ) -> Answer {
        let content = self.world.text();
        let request = convert::referring(key, uid, version, &content, &references);
        let (key, uid) = (key.clone(), uid.to_owned());
        let call = Call::Write { key, uid, version, content, owner: None, releases: false, references };
        let mut client = self.resources();
        self.record(call, async move {
            let answer = client.write(pb::WriteRequest { resource: Some(request) }).await?.into_inner();
            Ok(stored(answer.resource.as_ref()))
        })
        .await
    }

    /// Makes a draft of a node, or a node of a draft.
    async fn move_node(&mut self, from: &Key, version: Option<u64>) -> Answer {
        let kind = if from.kind == NODE { DRAFT } else { NODE };
        let to = Key { kind: kind.to_owned(), ..from.clone() };
        let request = MoveRequest {
            id: Some(id(from, "")),
            version: version.map(|version| version.to_string()).unwrap_or_default(),
            to: Some(type_of(kind)),
            ..MoveRequest::default()
        };
        let mut client = ChangeServiceClient::new(self.channel());
        let answer = self
            .record(Call::Move { from: from.clone(), version, to }, async move {
                Ok(stored(client.r#move(request).await?.into_inner().resource.as_ref()))
            })
            .await;
        if let Answer::Stored(_) | Answer::Absent = answer {
            self.world.missed(from);
        }
        answer
    }

    async fn import_node(&mut self, key: &Key) -> Answer {
        let content = self.world.text();
        let request = ImportRequest {
            r#type: Some(type_of(&key.kind)),
            tenancy: Some(place(&key.namespace)),
            external_id: content.clone(),
            name: key.name.clone(),
            ..ImportRequest::default()
        };
        let mut client = ChangeServiceClient::new(self.channel());
        self.record(Call::Import { key: key.clone(), content }, async move {
            Ok(stored(client.import(request).await?.into_inner().resource.as_ref()))
        })
        .await
    }
}

/// Does a random call about a node or a draft.
pub(crate) async fn step(client: &mut Client, random: &mut Rng) {
    let key = any_key(client, random);
    let known = client.world.known(&key);
    let version = known.as_ref().map(|known| known.version).filter(|_| random.bool());
    match (random.u8(..100), known) {
        (0..36, known) => {
            let references = match known {
                Some(known) if random.bool() => known.references,
                _ => new_references(client, random, &key),
            };
            client.write_node(&key, ("", None), references).await;
        }
        (36..48, Some(known)) => {
            let references = new_references(client, random, &key);
            let uid = if random.bool() { known.uid.clone() } else { String::new() };
            client.write_node(&key, (&uid, Some(known.version)), references).await;
        }
        (48..54, known) => {
            let expected = known.map(|known| known.content).filter(|_| random.u8(..3) == 0);
            client.update(&key, expected).await;
        }
        (54..60, Some(known)) => {
            client.status(&known, version, "one").await;
        }
        (60..74, _) => {
            client.delete(&key, "", version).await;
        }
        (74..84, _) => {
            client.move_node(&key, version).await;
        }
        (84..90, _) if key.kind == NODE => {
            client.import_node(&key).await;
        }
        (90..94, _) => {
            let scope = Scope { kind: key.kind.clone(), namespace: None, name: None };
            client.list(scope, random.bool()).await;
        }
        _ => {
            client.read(&key, "", random.bool()).await;
        }
    }
}

fn any_key(client: &Client, random: &mut Rng) -> Key {
    let world = &client.world;
    let namespace = if random.u8(..4) > 0 { 0 } else { random.usize(..world.namespaces.len()) };
    Key {
        kind: if random.u8(..3) > 0 { NODE } else { DRAFT }.to_owned(),
        namespace: world.namespaces.get(namespace).cloned().unwrap_or_default(),
        name: format!("{}k{}", world.prefix, random.usize(..world.names)),
    }
}

/// Returns references to nodes that clients have seen.
fn new_references(client: &Client, random: &mut Rng, from: &Key) -> Vec<Reference> {
    let world = &client.world;
    let mut references = Vec::new();
    for _ in 0..random.usize(..=MAX_REFERENCES) {
        let namespace = if random.bool() { from.namespace.clone() } else { DEFAULT_NAMESPACE.to_owned() };
        let name = format!("{}k{}", world.prefix, random.usize(..world.names));
        let target = Key { kind: NODE.to_owned(), namespace, name };
        let on_delete = match random.u8(..8) {
            0..2 => OnDelete::Block,
            2..4 => OnDelete::Unset,
            4..6 => OnDelete::Cascade,
            6 => OnDelete::LaterUnset,
            _ => OnDelete::LaterCascade,
        };
        // Some refer to a node that may not be there.
        if world.known(&target).is_some() || random.u8(..8) == 0 {
            references.push(Reference { on_delete, target });
        }
    }
    references.sort();
    references.dedup();
    references
}
