//! Random resources of many types, with unknown fields, in unusual encodings.

use std::collections::BTreeMap;

use fastrand::Rng;
use mortise_resource::pb;
use prost::{Message, encoding::encode_varint};

use crate::support::{gvk, tenancy};

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
pub(super) struct Kind {
    pub(super) gvk: &'static str,
    pub(super) message: &'static str,
    fields: &'static Fields,
    /// Number of tenancy units of its scope.
    pub(super) units: usize,
    /// Whether a hook may change the data.
    pub(super) has_mutate: bool,
    /// Whether a hook reads the data, which must then be present.
    pub(super) needs_data: bool,
}

const fn kind(gvk: &'static str, message: &'static str, fields: &'static Fields, units: usize) -> Kind {
    Kind { gvk, message, fields, units, has_mutate: false, needs_data: false }
}

/// The demo's types, with hooks and rules for keys, and some types without hooks.
pub(super) static KINDS: &[Kind] = &[
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
pub(super) fn raw_types() -> Vec<u8> {
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

pub(super) fn delimited(rng: &mut Rng, number: u32, value: &[u8]) -> Vec<u8> {
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
pub(super) fn unknown(rng: &mut Rng, depth: u32) -> Vec<u8> {
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

pub(super) fn data(rng: &mut Rng, kind: &Kind) -> Option<prost_types::Any> {
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
pub(super) fn metadata(rng: &mut Rng) -> BTreeMap<String, String> {
    (0..rng.u32(..5)).map(|n| (format!("{n}{}", text(rng, 20)), text(rng, 60))).collect()
}

pub(super) fn status(rng: &mut Rng, generation: &str) -> pb::Status {
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
