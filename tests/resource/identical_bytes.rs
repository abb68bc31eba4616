//! A resource is returned in the bytes in which it was stored, and data in the bytes in which it was sent, whatever the
//! content: Read, List, ListByOwner and WatchList return the bytes of the answer to Write or WriteStatus, before and
//! after a restart. Unknown fields of a resource are dropped; those of its data are kept.
//!
//! The calls use raw bytes, since a decoding client loses unknown fields. `MORTISE_BYTES_RESOURCES` sets the number of
//! resources, `MORTISE_BYTES_SEED` selects them.

use std::{collections::BTreeMap, path::Path};

use bytes::{Buf as _, BufMut as _, Bytes};
use fastrand::Rng;
use mortise_resource::pb;
use prost::{
    Message,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, encode_varint, skip_field},
};
use tokio::time::timeout;
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::Channel,
};

use crate::support::{PATIENCE, Server, Setup, gvk, id, make_place, tenancy, with_metadata};

const RESOURCES: u64 = 300;

/// A codec of messages as raw bytes.
#[derive(Debug, Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}

struct Client(Grpc<Channel>);

impl Client {
    async fn of(server: &Server) -> Self {
        Self(Grpc::new(server.channel().await).max_decoding_message_size(usize::MAX))
    }

    fn path(method: &str) -> PathAndQuery {
        format!("/hashicorp.consul.resource.ResourceService/{method}").parse().unwrap()
    }

    async fn call(&self, method: &str, request: Request<Vec<u8>>) -> Bytes {
        let mut grpc = self.0.clone();
        grpc.ready().await.unwrap();
        let answer = timeout(PATIENCE, grpc.unary(request, Self::path(method), Raw)).await.expect("an answer in time");
        answer.unwrap_or_else(|status| panic!("{method}: {status}")).into_inner()
    }

    /// The only resource of an answer.
    async fn resource(&self, method: &str, request: Request<Vec<u8>>) -> Bytes {
        let mut found = parts(&self.call(method, request).await, 1);
        assert_eq!(found.len(), 1, "{method} answers one resource");
        found.remove(0)
    }

    /// The resources of an answer, by their ids.
    async fn resources(&self, method: &str, request: impl Message) -> BTreeMap<Key, Bytes> {
        let found = parts(&self.call(method, Request::new(request.encode_to_vec())).await, 1);
        let count = found.len();
        let by_key: BTreeMap<_, _> = found.into_iter().map(|bytes| (key(&bytes), bytes)).collect();
        assert_eq!(by_key.len(), count, "{method} answers each resource once");
        by_key
    }

    async fn watch(&self, kind: &Kind) -> Watch {
        let request = pb::WatchListRequest { r#type: Some(gvk(kind.gvk)), ..Default::default() }.encode_to_vec();
        let mut grpc = self.0.clone();
        grpc.ready().await.unwrap();
        let answer = grpc.server_streaming(Request::new(request), Self::path("WatchList"), Raw).await;
        Watch(answer.unwrap().into_inner())
    }
}

/// An open watch.
struct Watch(Streaming<Bytes>);

const UPSERT: u32 = 1;
const DELETE: u32 = 2;
const END_OF_SNAPSHOT: u32 = 3;

impl Watch {
    /// The kind of the next event, and its resource, which is empty at the end of the snapshot.
    async fn next(&mut self) -> (u32, Bytes) {
        let event = timeout(PATIENCE, self.0.message()).await.expect("an event comes in time").unwrap();
        let event = event.expect("a watch never ends without a status");
        let mut found = [UPSERT, DELETE, END_OF_SNAPSHOT].into_iter().filter_map(|number| {
            let inner = parts(&event, number).pop()?;
            Some((number, parts(&inner, 1).pop().unwrap_or_default()))
        });
        found.next().expect("an event is never empty")
    }

    async fn snapshot(&mut self) -> BTreeMap<Key, Bytes> {
        let mut all = BTreeMap::new();
        loop {
            match self.next().await {
                (UPSERT, bytes) => assert!(all.insert(key(&bytes), bytes).is_none(), "each resource once"),
                (number, _) => {
                    assert_eq!(number, END_OF_SNAPSHOT);
                    return all;
                }
            }
        }
    }
}

/// The values of a length-delimited field.
fn parts(message: &Bytes, number: u32) -> Vec<Bytes> {
    let (mut rest, mut found) = (message.clone(), Vec::new());
    while rest.has_remaining() {
        let (tag, wire_type) = decode_key(&mut rest).unwrap();
        if (tag, wire_type) == (number, WireType::LengthDelimited) {
            let length = decode_varint(&mut rest).unwrap();
            found.push(rest.split_to(length.try_into().unwrap()));
        } else {
            skip_field(wire_type, tag, &mut rest, DecodeContext::default()).unwrap();
        }
    }
    found
}

/// Type, partition, namespace, name.
type Key = [String; 4];

fn key(resource: &Bytes) -> Key {
    let id = pb::Resource::decode(resource.clone()).unwrap().id.unwrap();
    let (kind, place) = (id.r#type.unwrap(), id.tenancy.unwrap());
    [format!("{}.{}.{}", kind.group, kind.group_version, kind.kind), place.partition, place.namespace, id.name]
}

/// Fields of a message: their numbers and shapes.
struct Fields(&'static [(u32, Shape)]);

enum Shape {
    Varint,
    Packed,
    Fixed32,
    Fixed64,
    Text,
    Blob,
    Message(&'static Fields),
}

use Shape::{Blob, Fixed32, Fixed64, Packed, Text, Varint};

static NOTHING: Fields = Fields(&[]);
static EXECUTIVE: Fields = Fields(&[(1, Text)]);
static LABEL: Fields = Fields(&[(1, Text), (2, Text)]);
static ALBUM: Fields = Fields(&[(1, Text), (2, Varint), (3, Varint), (4, Text)]);
static ARTIST: Fields = Fields(&[(1, Text), (2, Varint), (3, Shape::Message(&TEXT_ENTRY))]);
static REFERENCE: Fields = Fields(&[(1, Shape::Message(&LABEL)), (2, Shape::Message(&LABEL)), (3, Text)]);
static FESTIVAL: Fields =
    Fields(&[(1, Text), (2, Packed), (2, Varint), (3, Shape::Message(&ARTIST)), (4, Shape::Message(&REFERENCE))]);
static TEXT_ENTRY: Fields = Fields(&[(1, Text), (2, Text)]);
static INNER: Fields = Fields(&[(1, Text)]);
static INNER_ENTRY: Fields = Fields(&[(1, Text), (2, Shape::Message(&INNER))]);
static THING: Fields = Fields(&[(1, Text), (2, Varint), (3, Text), (4, Shape::Message(&INNER))]);
static SAFE: Fields = Fields(&[(1, Text), (2, Text), (3, Shape::Message(&INNER_ENTRY)), (4, Packed)]);
static PART: Fields = Fields(&[(1, Text), (2, Varint)]);
static PART_ENTRY: Fields = Fields(&[(1, Text), (2, Shape::Message(&PART))]);
static TREE: Fields = Fields(&[(1, Text), (2, Shape::Message(&TREE))]);
static EVERYTHING: Fields = Fields(&[
    (1, Text),
    (3, Varint),
    (7, Varint),
    (8, Fixed64),
    (9, Fixed32),
    (10, Fixed64),
    (11, Blob),
    (13, Text),
    (15, Shape::Message(&INNER)),
    (17, Shape::Message(&PART)),
    (19, Packed),
    (20, Shape::Message(&PART)),
    (21, Shape::Message(&TEXT_ENTRY)),
    (22, Shape::Message(&PART_ENTRY)),
    (25, Text),
    (26, Shape::Message(&PART)),
    (30, Shape::Message(&NOTHING)),
    (34, Shape::Message(&TREE)),
    (37, Text),
]);

/// A resource type.
struct Kind {
    gvk: &'static str,
    message: &'static str,
    fields: &'static Fields,
    /// Number of tenancy units of its scope.
    units: usize,
    /// Whether a hook may change the data.
    has_mutate: bool,
    /// Whether a hook reads the data, which must then be present.
    needs_data: bool,
}

const fn kind(gvk: &'static str, message: &'static str, fields: &'static Fields, units: usize) -> Kind {
    Kind { gvk, message, fields, units, has_mutate: false, needs_data: false }
}

/// The demo's types, with hooks and rules for keys, and some types without hooks.
static KINDS: &[Kind] = &[
    kind("demo.v1.Executive", "hashicorp.consul.internal.demo.v1.Executive", &EXECUTIVE, 0),
    Kind {
        needs_data: true,
        ..kind("demo.v1.RecordLabel", "hashicorp.consul.internal.demo.v1.RecordLabel", &LABEL, 1)
    },
    kind("demo.v1.Album", "hashicorp.consul.internal.demo.v1.Album", &ALBUM, 2),
    kind("demo.v1.Concept", "hashicorp.consul.internal.demo.v1.Concept", &NOTHING, 2),
    kind("demo.v2.Album", "hashicorp.consul.internal.demo.v2.Album", &ALBUM, 2),
    kind("demo.v2.Festival", "hashicorp.consul.internal.demo.v2.Festival", &FESTIVAL, 2),
    Kind {
        has_mutate: true,
        needs_data: true,
        ..kind("demo.v2.Artist", "hashicorp.consul.internal.demo.v2.Artist", &ARTIST, 2)
    },
    kind("raw.v1.Thing", "mortise.test.v1.Thing", &THING, 2),
    kind("raw.v1.Safe", "mortise.test.v1.Safe", &SAFE, 2),
    kind("raw.v1.Everything", "mortise.test.v1.Everything", &EVERYTHING, 2),
];

/// A plugin that serves the types of the group `raw` without any hook.
fn raw_types() -> Vec<u8> {
    let mut manifest = mortise_test_guests::good_manifest();
    manifest.name = "raw".to_owned();
    let template = manifest.types.remove(0);
    for kind in KINDS.iter().filter(|kind| kind.gvk.starts_with("raw.")) {
        let mut one = template.clone();
        (one.group, one.kind, one.message) = ("raw".to_owned(), gvk(kind.gvk).kind, kind.message.to_owned());
        manifest.types.push(one);
    }
    mortise_test_guests::manifest_only(&manifest.encode_to_vec())
}

/// Writes a varint, sometimes with more bytes than necessary.
fn put_varint(rng: &mut Rng, out: &mut Vec<u8>, value: u64) {
    encode_varint(value, out);
    if value < 1 << 14 && rng.u32(..20) == 0 {
        *out.last_mut().unwrap() |= 0x80;
        out.extend([0x80, 0]);
    }
}

fn put_key(rng: &mut Rng, out: &mut Vec<u8>, number: u32, wire_type: u64) {
    put_varint(rng, out, u64::from(number) << 3 | wire_type);
}

fn delimited(rng: &mut Rng, number: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_key(rng, &mut out, number, 2);
    put_varint(rng, &mut out, value.len() as u64);
    out.extend(value);
    out
}

fn blob(rng: &mut Rng, most: usize) -> Vec<u8> {
    (0..rng.usize(..=most)).map(|_| rng.u8(..)).collect()
}

/// Text of every UTF-8 length, including characters that are easily confused.
fn text(rng: &mut Rng, most: usize) -> String {
    let one = |rng: &mut Rng| match rng.u32(..8) {
        0 => rng.char('\0'..='\u{1f}'),
        1 => rng.char('\u{80}'..='\u{7ff}'),
        2 => rng.char('\u{800}'..='\u{ffff}'),
        3 => rng.char('\u{1f300}'..='\u{1faff}'),
        _ => rng.char(' '..='~'),
    };
    (0..rng.usize(..=most)).map(|_| one(rng)).collect()
}

/// A number of any size.
fn integer(rng: &mut Rng) -> u64 {
    rng.u64(..) >> rng.u32(..64)
}

fn field(rng: &mut Rng, number: u32, shape: &Shape, depth: u32) -> Vec<u8> {
    let mut out = Vec::new();
    match shape {
        Varint => {
            put_key(rng, &mut out, number, 0);
            let value = integer(rng);
            put_varint(rng, &mut out, value);
        }
        Fixed64 => {
            put_key(rng, &mut out, number, 1);
            out.extend(rng.u64(..).to_le_bytes());
        }
        Fixed32 => {
            put_key(rng, &mut out, number, 5);
            out.extend(rng.u32(..).to_le_bytes());
        }
        Packed => {
            let mut values = Vec::new();
            for _ in 0..rng.u32(..5) {
                let value = integer(rng);
                put_varint(rng, &mut values, value);
            }
            out = delimited(rng, number, &values);
        }
        Text => {
            let value = text(rng, 40);
            out = delimited(rng, number, value.as_bytes());
        }
        Blob => {
            let value = blob(rng, 60);
            out = delimited(rng, number, &value);
        }
        Shape::Message(fields) => {
            let value = message(rng, fields, depth.saturating_sub(1));
            out = delimited(rng, number, &value);
        }
    }
    out
}

/// An unknown field: a value of any kind, or such fields in a message or a group.
fn unknown(rng: &mut Rng, depth: u32) -> Vec<u8> {
    let number = match rng.u32(..3) {
        0 => rng.u32(2_000..2_010),
        1 => (1 << 29) - 1,
        _ => rng.u32(2_000..1 << 29),
    };
    match rng.u32(..if depth == 0 { 4 } else { 6 }) {
        0 => field(rng, number, &Varint, 0),
        1 => field(rng, number, &Fixed32, 0),
        2 => field(rng, number, &Fixed64, 0),
        3 => field(rng, number, &Blob, 0),
        4 => field(rng, number, &Shape::Message(&NOTHING), depth),
        _ => {
            let mut group = Vec::new();
            put_key(rng, &mut group, number, 3);
            group.extend(message(rng, &NOTHING, depth - 1));
            put_key(rng, &mut group, number, 4);
            group
        }
    }
}

/// Fields in any order, repeated or absent, mixed with unknown ones.
fn message(rng: &mut Rng, fields: &Fields, depth: u32) -> Vec<u8> {
    let mut all = Vec::new();
    for (number, shape) in fields.0 {
        if depth > 0 || !matches!(shape, Shape::Message(_)) {
            all.extend((0..rng.u32(..3)).map(|_| field(rng, *number, shape, depth)));
        }
    }
    all.extend((0..rng.u32(..3)).map(|_| unknown(rng, depth)));
    rng.shuffle(&mut all);
    all.concat()
}

fn data(rng: &mut Rng, kind: &Kind) -> Option<prost_types::Any> {
    let mut value = match rng.u32(..10) {
        0 if !kind.needs_data => return None,
        1 => Vec::new(),
        _ => message(rng, kind.fields, 4),
    };
    if kind.has_mutate {
        value.extend(delimited(rng, 1, b"a name"));
    }
    // A large value: in a known field, or in an unknown one.
    if rng.u32(..12) == 0 {
        let size = rng.usize(20 << 10..96 << 10);
        let number = kind.fields.0.iter().find_map(|(number, shape)| matches!(shape, Text).then_some(*number));
        let (number, content) = match number.filter(|_| rng.bool()) {
            Some(number) => (number, text(rng, size / 2).into_bytes()),
            None => (3_000, blob(rng, size)),
        };
        value.extend(delimited(rng, number, &content));
    }
    let host = ["", "type.googleapis.com/", "example.com/types/"][rng.usize(..3)];
    Some(prost_types::Any { type_url: format!("{host}{}", kind.message), value })
}

/// Metadata without a meaning for the server.
fn metadata(rng: &mut Rng) -> BTreeMap<String, String> {
    (0..rng.u32(..5)).map(|n| (format!("{n}{}", text(rng, 20)), text(rng, 60))).collect()
}

fn status(rng: &mut Rng, generation: &str) -> pb::Status {
    let reference = |rng: &mut Rng| pb::Reference {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: Some(tenancy("default", "default")),
        name: "korn".to_owned(),
        section: text(rng, 20),
    };
    let condition = |rng: &mut Rng| pb::Condition {
        r#type: format!("T{}", text(rng, 10)),
        state: rng.i32(0..3),
        reason: text(rng, 20),
        message: text(rng, 200),
        resource: rng.bool().then(|| reference(rng)),
    };
    let conditions = (0..rng.u32(..4)).map(|_| condition(rng)).collect();
    pb::Status { observed_generation: generation.to_owned(), conditions, updated_at: None }
}

/// Numbers of compared resources.
#[derive(Debug, Default)]
struct Compared {
    data: usize,
    data_bytes: usize,
    written: usize,
    with_status: usize,
    upserts: usize,
    deletes: usize,
    reads: usize,
    listed: usize,
    owned: usize,
    in_snapshots: usize,
}

/// A server, its expected content, and the number of resources made so far.
struct Run {
    seed: u64,
    rng: Rng,
    /// Bytes of the last answer about each resource.
    stored: BTreeMap<Key, Bytes>,
    /// Ids of possible owners, which are never deleted.
    owners: Vec<pb::Id>,
    made: u64,
    compared: Compared,
}

impl Run {
    #[track_caller]
    fn same(&self, what: &str, key: &Key, found: Option<&Bytes>, expected: &Bytes) {
        let seed = self.seed;
        let found = found.unwrap_or_else(|| panic!("seed {seed}: {what}: {key:?} is missing"));
        if found != expected {
            let at = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
            let (found, expected) = (found.len(), expected.len());
            panic!("seed {seed}: {what}: {key:?} differs from byte {at}; it has {found} bytes instead of {expected}");
        }
    }

    /// Compares a whole answer with the stored resources that `belongs` selects.
    #[track_caller]
    fn all_same(&self, what: &str, found: &BTreeMap<Key, Bytes>, belongs: impl Fn(&Key, &Bytes) -> bool) -> usize {
        let expected: Vec<_> = self.stored.iter().filter(|(key, bytes)| belongs(key, bytes)).collect();
        for (key, bytes) in &expected {
            self.same(what, key, found.get(*key), bytes);
        }
        assert_eq!(found.len(), expected.len(), "seed {}: {what}: and no others", self.seed);
        expected.len()
    }

    fn pick(&mut self) -> (Key, pb::Resource) {
        let (key, bytes) = self.stored.iter().nth(self.rng.usize(..self.stored.len())).unwrap();
        (key.clone(), pb::Resource::decode(bytes.clone()).unwrap())
    }

    /// Makes a random change, and checks its events.
    async fn step(&mut self, client: &Client, watches: &mut [Watch]) {
        let choice = if self.stored.len() < 20 { 0 } else { self.rng.u32(..20) };
        let (key, number, bytes) = match choice {
            0..=9 => {
                let resource = self.new_resource();
                self.write(client, resource).await
            }
            10..=13 => {
                let (key, mut resource) = self.pick();
                let kind = KINDS.iter().find(|kind| kind.gvk == key[0]).unwrap();
                (resource.data, resource.metadata) = (data(&mut self.rng, kind), metadata(&mut self.rng));
                (resource.version, resource.generation) = (String::new(), String::new());
                resource.status.clear();
                self.write(client, resource).await
            }
            14..=18 => self.write_status(client).await,
            _ => {
                let (key, resource) = self.pick();
                if resource.id.as_ref().is_some_and(|id| self.owners.contains(id)) {
                    return;
                }
                let request = pb::DeleteRequest { id: resource.id, version: String::new() };
                client.call("Delete", Request::new(request.encode_to_vec())).await;
                let bytes = self.stored.remove(&key).unwrap();
                (key, DELETE, bytes)
            }
        };
        let watched = KINDS.iter().position(|kind| kind.gvk == key[0]).unwrap();
        let (heard, found) = watches[watched].next().await;
        assert_eq!(heard, number, "seed {}: the event of {key:?}", self.seed);
        self.same("an event", &key, Some(&found), &bytes);
        if number == UPSERT {
            self.compared.upserts += 1;
            self.stored.insert(key, bytes);
        } else {
            self.compared.deletes += 1;
        }
    }

    fn new_resource(&mut self) -> pb::Resource {
        let rng = &mut self.rng;
        let kind = &KINDS[rng.usize(..KINDS.len())];
        let (partition, namespace) = (["default", "p"][rng.usize(..2)], ["default", "n"][rng.usize(..2)]);
        let place = tenancy(if kind.units > 0 { partition } else { "" }, if kind.units > 1 { namespace } else { "" });
        // Names are unique, since the versions of a kind share them.
        self.made += 1;
        let name = format!("{}-{}", ["a", "b", "c"][rng.usize(..3)], self.made);
        let owner =
            (!self.owners.is_empty() && rng.u32(..3) == 0).then(|| self.owners[rng.usize(..self.owners.len())].clone());
        let id = pb::Id { tenancy: Some(place), ..id(kind.gvk, &name) };
        let (data, metadata) = (data(rng, kind), metadata(rng));
        pb::Resource { id: Some(id), owner, metadata, data, ..Default::default() }
    }

    async fn write(&mut self, client: &Client, resource: pb::Resource) -> (Key, u32, Bytes) {
        // An unknown field of a resource is harmless.
        let mut encoded = resource.encode_to_vec();
        if self.rng.u32(..4) == 0 {
            encoded.extend(unknown(&mut self.rng, 2));
        }
        let request = delimited(&mut self.rng, 1, &encoded);
        let stored = client.resource("Write", Request::new(request)).await;
        let key = key(&stored);
        let sent = resource.data.as_ref();
        let kind = KINDS.iter().find(|kind| kind.gvk == key[0]).unwrap();
        let any = parts(&stored, 7);
        assert_eq!(any.len(), usize::from(sent.is_some()), "data is there if it was sent");
        if let (Some(any), Some(sent), false) = (any.first(), sent, kind.has_mutate) {
            let part = |number| parts(any, number).pop().unwrap_or_default();
            self.same("the data", &key, Some(&part(2)), &Bytes::copy_from_slice(&sent.value));
            assert_eq!(part(1), sent.type_url.as_bytes());
            self.compared.data += 1;
            self.compared.data_bytes += sent.value.len();
        }
        let decoded = pb::Resource::decode(stored.clone()).unwrap();
        assert_eq!((&decoded.metadata, &decoded.owner), (&resource.metadata, &resource.owner));
        if self.owners.len() < 6 && decoded.owner.is_none() && !self.stored.contains_key(&key) {
            self.owners.extend(decoded.id);
        }
        self.compared.written += 1;
        (key, UPSERT, stored)
    }

    async fn write_status(&mut self, client: &Client) -> (Key, u32, Bytes) {
        let (key, resource) = self.pick();
        let rng = &mut self.rng;
        let entry = ["one", "two", "ü 3"][rng.usize(..3)];
        let status = status(rng, &resource.generation);
        let mut request =
            pb::WriteStatusRequest { id: resource.id, key: entry.to_owned(), ..Default::default() }.encode_to_vec();
        let with_unknown = [status.encode_to_vec(), unknown(rng, 2)].concat();
        request.extend(delimited(rng, 4, &with_unknown));
        let stored = client.resource("WriteStatus", Request::new(request)).await;
        let data = |resource| parts(resource, 7).pop().unwrap_or_default();
        self.same("the data beside a status", &key, Some(&data(&stored)), &data(&self.stored[&key]));
        let decoded = pb::Resource::decode(stored.clone()).unwrap();
        assert_eq!(decoded.status[entry].conditions, status.conditions);
        self.compared.with_status += 1;
        (key, UPSERT, stored)
    }

    /// Compares all answers with the stored resources.
    async fn compare(&mut self, client: &Client) {
        let mut compared = std::mem::take(&mut self.compared);
        for (key, bytes) in &self.stored {
            let id = pb::Resource::decode(bytes.clone()).unwrap().id;
            let request = pb::ReadRequest { id }.encode_to_vec();
            let found = client.resource("Read", Request::new(request.clone())).await;
            self.same("a read", key, Some(&found), bytes);
            let consistently = with_metadata(request, "x-consul-consistency-mode", "consistent");
            let found = client.resource("Read", consistently).await;
            self.same("a consistent read", key, Some(&found), bytes);
            compared.reads += 2;
        }
        for kind in KINDS {
            for (partition, namespace, prefix) in [("*", "*", ""), ("*", "*", "b-"), ("p", "*", ""), ("p", "n", "a")] {
                let within = |unit: &'static str, from| if kind.units < from && unit != "*" { "" } else { unit };
                let (partition, namespace) = (within(partition, 1), within(namespace, 2));
                let request = pb::ListRequest {
                    r#type: Some(gvk(kind.gvk)),
                    tenancy: Some(tenancy(partition, namespace)),
                    name_prefix: prefix.to_owned(),
                };
                let found = client.resources("List", request).await;
                let is_within = |asked: &str, is: &str| asked == "*" || asked == is;
                compared.listed += self.all_same("a list", &found, |key, _| {
                    key[0] == kind.gvk
                        && is_within(partition, &key[1])
                        && is_within(namespace, &key[2])
                        && key[3].starts_with(prefix)
                });
            }
            let found = client.watch(kind).await.snapshot().await;
            compared.in_snapshots += self.all_same("a snapshot", &found, |key, _| key[0] == kind.gvk);
        }
        for owner in &self.owners {
            let found = client.resources("ListByOwner", pb::ListByOwnerRequest { owner: Some(owner.clone()) }).await;
            compared.owned += self.all_same("a list by owner", &found, |_, bytes| {
                pb::Resource::decode(bytes.clone()).unwrap().owner.as_ref() == Some(owner)
            });
        }
        self.compared = compared;
    }

    async fn change(&mut self, client: &Client, steps: u64) {
        let mut watches = Vec::new();
        for kind in KINDS {
            let mut watch = client.watch(kind).await;
            watch.snapshot().await;
            watches.push(watch);
        }
        for _ in 0..steps {
            self.step(client, &mut watches).await;
        }
    }
}

async fn start(data_dir: &Path) -> (Server, Client) {
    let server = Setup::new().component("raw", raw_types()).data_dir(data_dir).start().await;
    let client = Client::of(&server).await;
    (server, client)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

#[tokio::test]
async fn random_resources_unknown_fields_included_are_read_listed_and_watched_as_they_were_written() {
    let resources = number("MORTISE_BYTES_RESOURCES").unwrap_or(RESOURCES).max(100);
    let seed = number("MORTISE_BYTES_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    eprintln!("MORTISE_BYTES_SEED={seed}");
    let dir = tempfile::tempdir().unwrap();
    let mut run = Run {
        seed,
        rng: Rng::with_seed(seed),
        stored: BTreeMap::new(),
        owners: Vec::new(),
        made: 0,
        compared: Compared::default(),
    };
    let (server, client) = start(dir.path()).await;
    make_place(&server, "default", "n").await;
    make_place(&server, "p", "n").await;
    // Half of the steps create a resource.
    run.change(&client, resources * 3 / 2).await;
    run.compare(&client).await;
    assert!(server.stop().await.success());

    let (mut server, client) = start(dir.path()).await;
    run.compare(&client).await;
    run.change(&client, resources / 2).await;
    server.child.kill().await.unwrap();

    let (_server, client) = start(dir.path()).await;
    run.compare(&client).await;
    let Compared { data, data_bytes, written, with_status, upserts, deletes, reads, listed, owned, in_snapshots } =
        run.compared;
    eprintln!(
        "seed {seed}: {} resources made, {} at the end; compared the data of {data} writes ({data_bytes} bytes), and the \
         bytes of {written} writes and {with_status} statuses with {upserts} upserts, {deletes} deletes, {reads} reads, \
         {listed} in lists, {owned} in lists by owner, {in_snapshots} in snapshots",
        run.made,
        run.stored.len(),
    );
    for count in [data, data_bytes, written, with_status, upserts, deletes, reads, listed, owned, in_snapshots] {
        assert!(count > 0);
    }
    assert_eq!(upserts, written + with_status);
}
