//! The schema of a type: its data is an instance of a protobuf message.
//!
//! The check walks the encoded bytes along the message's descriptor and allocates nothing unless it finds a fault, which
//! it reports with its place. It accepts what prost and Go's protobuf both decode: unknown fields are left alone, known
//! ones must have their wire type (packed or not, where both are allowed), strings must be UTF-8, and nesting is bounded.
//! 512 bytes take well under a microsecond.

use std::fmt;

use mortise_resource::{FieldPath, PathStep};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};

/// Deepest nesting of messages; what prost and others accept.
const MAX_DEPTH: usize = 100;

/// A message, and which of its fields stay as they are.
#[derive(Debug, Clone)]
pub struct Schema {
    message: MessageDescriptor,
    immutable: Vec<Vec<FieldDescriptor>>,
}

/// A place where bytes are not what the message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFault {
    /// Where, from `data` down.
    pub path: FieldPath,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for DataFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

impl Schema {
    /// A schema of a message and of paths to fields that do not change.
    #[must_use]
    pub fn new(message: MessageDescriptor, immutable: Vec<Vec<FieldDescriptor>>) -> Self {
        Self { message, immutable }
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &MessageDescriptor {
        &self.message
    }

    /// The fields that an update may not change: names joined by dots.
    #[must_use]
    pub fn immutable_paths(&self) -> Vec<String> {
        let joined =
            |path: &Vec<FieldDescriptor>| path.iter().map(|f| f.name().to_owned()).collect::<Vec<_>>().join(".");
        self.immutable.iter().map(joined).collect()
    }

    /// Whether a type URL names the message: the last path element counts, a bare name will do.
    #[must_use]
    pub fn accepts_url(&self, url: &str) -> bool {
        url.strip_suffix(self.message.full_name()).is_some_and(|host| host.is_empty() || host.ends_with('/'))
    }

    /// Walks encoded data.
    ///
    /// # Errors
    /// The first fault and its place.
    pub fn check(&self, data: &[u8]) -> Result<(), DataFault> {
        message(&self.message, &mut Bytes(data), MAX_DEPTH, None).map_err(|mut fault| {
            fault.steps.push(PathStep::Field("data".into()));
            fault.steps.reverse();
            DataFault { path: FieldPath(fault.steps), what: fault.what }
        })
    }

    /// Finds a field that differs although it may not. Data that does not decode counts as empty.
    #[must_use]
    pub fn changed_immutable(&self, before: &[u8], after: &[u8]) -> Option<FieldPath> {
        if self.immutable.is_empty() || before == after {
            return None;
        }
        let decode = |bytes| {
            DynamicMessage::decode(self.message.clone(), bytes)
                .unwrap_or_else(|_| DynamicMessage::new(self.message.clone()))
        };
        let (before, after) = (decode(before), decode(after));
        let changed = self.immutable.iter().find(|path| at(&before, path) != at(&after, path))?;
        let steps = changed.iter().map(|field| PathStep::Field(field.name().to_owned()));
        Some(FieldPath(std::iter::once(PathStep::Field("data".into())).chain(steps).collect()))
    }
}

/// The value at a path through message fields; an absent message on the way means the default.
fn at(message: &DynamicMessage, path: &[FieldDescriptor]) -> Option<prost_reflect::Value> {
    let (first, rest) = path.split_first()?;
    let value = message.get_field(first);
    match (rest.is_empty(), value.as_message()) {
        (true, _) => Some(value.into_owned()),
        (false, Some(inner)) => at(inner, rest),
        (false, None) => None,
    }
}

/// A fault on its way up: steps innermost first.
#[derive(Debug)]
struct Fault {
    steps: Vec<PathStep>,
    what: String,
}

fn fault(what: impl Into<String>) -> Fault {
    Fault { steps: Vec::new(), what: what.into() }
}

const TRUNCATED: &str = "the bytes end too early";

/// What is left to read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or_else(|| fault(TRUNCATED))?;
            self.0 = rest;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(fault("a number takes more than 64 bits"))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(|| fault(TRUNCATED))?;
        self.0 = rest;
        Ok(taken)
    }

    fn delimited(&mut self) -> Result<&'a [u8], Fault> {
        let len = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        self.take(len)
    }
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Varint,
    Fixed64,
    Delimited,
    GroupStart,
    GroupEnd,
    Fixed32,
}

fn key(bytes: &mut Bytes<'_>) -> Result<(u32, Wire), Fault> {
    let key = u32::try_from(bytes.varint()?).map_err(|_| fault("a field number is out of range"))?;
    let wire = match key & 7 {
        0 => Wire::Varint,
        1 => Wire::Fixed64,
        2 => Wire::Delimited,
        3 => Wire::GroupStart,
        4 => Wire::GroupEnd,
        5 => Wire::Fixed32,
        other => return Err(fault(format!("wire type {other} does not exist"))),
    };
    match key >> 3 {
        0 => Err(fault("field number 0 does not exist")),
        number => Ok((number, wire)),
    }
}

fn wire_of(field: &FieldDescriptor) -> Wire {
    match field.kind() {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => Wire::Fixed64,
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => Wire::Fixed32,
        Kind::String | Kind::Bytes => Wire::Delimited,
        Kind::Message(_) if field.is_group() => Wire::GroupStart,
        Kind::Message(_) => Wire::Delimited,
        _ => Wire::Varint,
    }
}

/// Walks one message; `group` is the number of the field that a group has to end with.
fn message(
    descriptor: &MessageDescriptor,
    bytes: &mut Bytes<'_>,
    depth: usize,
    group: Option<u32>,
) -> Result<(), Fault> {
    // Positions in lists, for the path of a fault.
    let mut seen: Vec<(u32, u32)> = Vec::new();
    while !bytes.0.is_empty() {
        let (number, wire) = key(bytes)?;
        if wire == Wire::GroupEnd {
            return if group == Some(number) { Ok(()) } else { Err(fault("a group ends that did not begin")) };
        }
        let Some(field) = descriptor.get_field(number) else {
            skip(bytes, number, wire, depth)?;
            continue;
        };
        let step = |mut inner: Fault, steps: Vec<PathStep>| {
            inner.steps.extend(steps);
            inner.steps.push(PathStep::Field(field.name().to_owned()));
            inner
        };
        let outcome = if field.is_map() {
            entry(&field, bytes, wire, depth).map_err(|(inner, key)| step(inner, vec![PathStep::Key(key)]))
        } else if field.is_list() && wire == Wire::Delimited && wire_of(&field) != Wire::Delimited && !field.is_group()
        {
            packed(&field, bytes).map_err(|(inner, index)| step(inner, vec![PathStep::Index(index)]))
        } else if field.is_list() {
            let index = position(&mut seen, number);
            value(&field, bytes, wire, depth).map_err(|inner| step(inner, vec![PathStep::Index(index)]))
        } else {
            value(&field, bytes, wire, depth).map_err(|inner| step(inner, Vec::new()))
        };
        outcome?;
    }
    if group.is_some() { Err(fault(TRUNCATED)) } else { Ok(()) }
}

fn position(seen: &mut Vec<(u32, u32)>, number: u32) -> u32 {
    if let Some((_, count)) = seen.iter_mut().find(|(n, _)| *n == number) {
        *count += 1;
        return *count;
    }
    seen.push((number, 0));
    0
}

fn value(field: &FieldDescriptor, bytes: &mut Bytes<'_>, wire: Wire, depth: usize) -> Result<(), Fault> {
    let expected = wire_of(field);
    if wire != expected {
        return Err(fault(format!("is written as {wire:?}, but {:?} is written as {expected:?}", field.kind())));
    }
    match (expected, field.kind()) {
        (Wire::Varint, _) => bytes.varint().map(drop),
        (Wire::Fixed64, _) => bytes.take(8).map(drop),
        (Wire::Fixed32, _) => bytes.take(4).map(drop),
        (Wire::GroupStart, Kind::Message(inner)) => {
            let depth = deeper(depth)?;
            message(&inner, bytes, depth, Some(field.number()))
        }
        (_, Kind::Message(inner)) => {
            let depth = deeper(depth)?;
            message(&inner, &mut Bytes(bytes.delimited()?), depth, None)
        }
        (_, Kind::String) => std::str::from_utf8(bytes.delimited()?).map(drop).map_err(|_| fault("is not UTF-8")),
        _ => bytes.delimited().map(drop),
    }
}

fn deeper(depth: usize) -> Result<usize, Fault> {
    depth.checked_sub(1).ok_or_else(|| fault(format!("messages are nested more than {MAX_DEPTH} deep")))
}

/// Scalars of a list in one run. On a fault also says at which position.
fn packed(field: &FieldDescriptor, bytes: &mut Bytes<'_>) -> Result<(), (Fault, u32)> {
    let mut run = Bytes(bytes.delimited().map_err(|f| (f, 0))?);
    let mut index = 0;
    while !run.0.is_empty() {
        let one = match wire_of(field) {
            Wire::Fixed64 => run.take(8).map(drop),
            Wire::Fixed32 => run.take(4).map(drop),
            _ => run.varint().map(drop),
        };
        one.map_err(|f| (f, index))?;
        index += 1;
    }
    Ok(())
}

/// One entry of a map. On a fault also says under which key.
fn entry(field: &FieldDescriptor, bytes: &mut Bytes<'_>, wire: Wire, depth: usize) -> Result<(), (Fault, String)> {
    let unknown = |f| (f, "?".to_owned());
    let Kind::Message(entry) = field.kind() else { return Err(unknown(fault("is no map"))) };
    if wire != Wire::Delimited {
        return Err(unknown(fault(format!("is written as {wire:?}, but a map is written as Delimited"))));
    }
    let depth = deeper(depth).map_err(unknown)?;
    let inner = bytes.delimited().map_err(unknown)?;
    message(&entry, &mut Bytes(inner), depth, None).map_err(|mut inner_fault| {
        // The entry is a message of key and value; in a path it is the key alone.
        inner_fault.steps.pop();
        let key = DynamicMessage::decode(entry.clone(), inner).ok().map_or_else(
            || first_string(inner).unwrap_or_else(|| "?".into()),
            |decoded| {
                let key = decoded.get_field(&entry.map_entry_key_field());
                key.as_str().map_or_else(|| key.to_string(), str::to_owned)
            },
        );
        (inner_fault, key)
    })
}

/// The key of a map entry that does not decode, if it is a string that stands first, as encoders write it.
fn first_string(entry: &[u8]) -> Option<String> {
    let mut bytes = Bytes(entry);
    match key(&mut bytes).ok()? {
        (1, Wire::Delimited) => String::from_utf8(bytes.delimited().ok()?.to_vec()).ok(),
        (1, Wire::Varint) => Some(bytes.varint().ok()?.to_string()),
        _ => None,
    }
}

fn skip(bytes: &mut Bytes<'_>, number: u32, wire: Wire, depth: usize) -> Result<(), Fault> {
    match wire {
        Wire::Varint => bytes.varint().map(drop),
        Wire::Fixed64 => bytes.take(8).map(drop),
        Wire::Fixed32 => bytes.take(4).map(drop),
        Wire::Delimited => bytes.delimited().map(drop),
        Wire::GroupEnd => Err(fault("a group ends that did not begin")),
        Wire::GroupStart => {
            let depth = deeper(depth)?;
            loop {
                let (inner, wire) = key(bytes)?;
                if wire == Wire::GroupEnd {
                    return if inner == number { Ok(()) } else { Err(fault("groups overlap")) };
                }
                skip(bytes, inner, wire, depth)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mortise_resource::{manifest, pb};
    use prost::Message as _;
    use std::collections::BTreeMap;

    fn schema(name: &str) -> Schema {
        let pool = crate::registry::builtin::pool().unwrap();
        Schema::new(pool.get_message_by_name(name).unwrap(), Vec::new())
    }

    fn text(schema: &Schema, bytes: &[u8]) -> String {
        schema.check(bytes).unwrap_err().to_string()
    }

    #[test]
    fn real_messages_pass() {
        let resource = pb::Resource {
            metadata: BTreeMap::from([("k".into(), "v".into())]),
            status: BTreeMap::from([(
                "s".into(),
                pb::Status { conditions: vec![pb::Condition::default()], ..Default::default() },
            )]),
            ..Default::default()
        };
        assert_eq!(schema("hashicorp.consul.resource.Resource").check(&resource.encode_to_vec()), Ok(()));
        assert_eq!(schema("hashicorp.consul.resource.Resource").check(&[]), Ok(()));
    }

    #[test]
    fn faults_carry_their_path() {
        let resource = schema("hashicorp.consul.resource.Resource");
        // id { name: <ff> }
        assert_eq!(text(&resource, &[0x0a, 3, 0x12, 1, 0xff]), "data.id.name: is not UTF-8");
        // status { key: "s" value { conditions { } conditions { type: <ff> } } }
        let bad = [0x32, 12, 0x0a, 1, b's', 0x12, 7, 0x12, 0, 0x12, 3, 0x0a, 1, 0xff];
        assert_eq!(text(&resource, &bad), "data.status[\"s\"].conditions[1].type: is not UTF-8");
        assert_eq!(text(&resource, &[0x1a, 5, b'x']), "data.version: the bytes end too early");
        assert_eq!(text(&resource, &[0xff]), "data: the bytes end too early");
        assert_eq!(text(&resource, &[0x07]), "data: wire type 7 does not exist");
        assert_eq!(text(&resource, &[0x00]), "data: field number 0 does not exist");
        assert_eq!(
            text(&resource, &[0x18, 1]),
            "data.version: is written as Varint, but string is written as Delimited"
        );
    }

    #[test]
    fn unknown_fields_are_left_alone_but_must_be_whole() {
        let tombstone = schema("hashicorp.consul.resource.Tombstone");
        // 100: 1, and 101: group of 1: "x"
        assert_eq!(tombstone.check(&[0xa0, 0x06, 1, 0xab, 0x06, 0x0a, 1, b'x', 0xac, 0x06]), Ok(()));
        assert!(tombstone.check(&[0xab, 0x06, 0x0a, 1, b'x']).is_err(), "open group");
        assert!(tombstone.check(&[0xa2, 0x06, 200]).is_err(), "too short");
    }

    #[test]
    fn nesting_is_bounded() {
        let file = schema("google.protobuf.DescriptorProto");
        // nested_type within nested_type …
        let nest = |levels: usize| {
            (0..levels).fold(Vec::new(), |inner, _| {
                let mut out = vec![0x1a];
                prost::encoding::encode_varint(inner.len() as u64, &mut out);
                out.extend(inner);
                out
            })
        };
        assert_eq!(file.check(&nest(100)), Ok(()));
        assert!(text(&file, &nest(101)).ends_with("messages are nested more than 100 deep"));
        assert!(file.check(&nest(20_000)).is_err());
    }

    #[test]
    fn endless_numbers_are_refused() {
        let limits = schema("mortise.plugin.v1.Limits");
        assert_eq!(limits.check(&manifest::Limits { fuel: u64::MAX, ..Default::default() }.encode_to_vec()), Ok(()));
        assert!(text(&limits, &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]).contains("64 bits"));
    }

    #[test]
    fn type_urls() {
        let schema = schema("hashicorp.consul.resource.Tombstone");
        for good in [
            "hashicorp.consul.resource.Tombstone",
            "type.googleapis.com/hashicorp.consul.resource.Tombstone",
            "/hashicorp.consul.resource.Tombstone",
        ] {
            assert!(schema.accepts_url(good), "{good}");
        }
        for bad in
            ["", "x.hashicorp.consul.resource.Tombstone", "type.googleapis.com/hashicorp.consul.resource.tombstone"]
        {
            assert!(!schema.accepts_url(bad), "{bad}");
        }
    }
}
