//! The schema of a type: its data is an instance of a protobuf message, and some fields may not change.

use mortise_resource::{FieldFault, FieldPath, PathStep};
use prost_reflect::{DynamicMessage, FieldDescriptor, MessageDescriptor, Value};

use super::wire;

/// A message, its immutable fields, and the fields whose changes raise the generation.
#[derive(Debug, Clone)]
pub struct Schema {
    message: MessageDescriptor,
    immutable: Vec<Vec<FieldDescriptor>>,
    spec: Vec<Vec<FieldDescriptor>>,
}

impl Schema {
    /// Makes a schema of a message, the paths of its immutable fields, and those of its specification; without the
    /// latter, all fields count.
    #[must_use]
    pub fn new(
        message: MessageDescriptor,
        immutable: Vec<Vec<FieldDescriptor>>,
        spec: Vec<Vec<FieldDescriptor>>,
    ) -> Self {
        Self { message, immutable, spec }
    }

    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> &MessageDescriptor {
        &self.message
    }

    /// Returns the paths of the immutable fields: names joined by dots.
    #[must_use]
    pub fn immutable_paths(&self) -> Vec<String> {
        let joined =
            |path: &Vec<FieldDescriptor>| path.iter().map(|f| f.name().to_owned()).collect::<Vec<_>>().join(".");
        self.immutable.iter().map(joined).collect()
    }

    /// Whether a type URL names the message: only the last path element counts, and may be all of it.
    #[must_use]
    pub fn accepts_url(&self, url: &str) -> bool {
        url.strip_suffix(self.message.full_name()).is_some_and(|host| host.is_empty() || host.ends_with('/'))
    }

    /// Checks that encoded data is an instance of the message. Allocates next to nothing unless it finds a fault.
    ///
    /// # Errors
    /// The first fault and its path, from `data` down.
    pub fn check(&self, data: &[u8]) -> Result<(), FieldFault> {
        wire::check(&self.message, data).map_err(|fault| fault.within(PathStep::Field("data".into())))
    }

    /// Finds the changed immutable fields. Data that does not decode counts as empty.
    #[must_use]
    pub fn changed_immutable(&self, before: &[u8], after: &[u8]) -> Vec<FieldPath> {
        if self.immutable.is_empty() || before == after {
            return Vec::new();
        }
        let (before, after) = (self.decode(before), self.decode(after));
        let changed = self.immutable.iter().filter(|path| value_at(&before, path) != value_at(&after, path));
        let step = |field: &FieldDescriptor| PathStep::Field(field.name().to_owned());
        let whole = |path: &Vec<_>| [PathStep::Field("data".into())].into_iter().chain(path.iter().map(step)).collect();
        changed.map(|path| FieldPath(whole(path))).collect()
    }

    /// Whether the specification differs, in any encoding. Data that does not decode counts as empty.
    #[must_use]
    pub fn changes_spec(&self, before: &[u8], after: &[u8]) -> bool {
        if before == after {
            return false;
        }
        let (before, after) = (self.decode(before), self.decode(after));
        match self.spec.as_slice() {
            [] => before != after,
            spec => spec.iter().any(|path| value_at(&before, path) != value_at(&after, path)),
        }
    }

    /// Returns the text at a path of fields; empty if the data does not decode.
    #[must_use]
    pub fn text(&self, data: &[u8], path: &[FieldDescriptor]) -> String {
        value_at(&self.decode(data), path).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Returns the data with another text at a path of fields; an absent message on the way is added.
    #[must_use]
    pub fn with_text(&self, data: &[u8], path: &[FieldDescriptor], text: &str) -> Vec<u8> {
        let mut message = self.decode(data);
        set_text(&mut message, path, text);
        mortise_text::encode_message(&message)
    }

    fn decode(&self, bytes: &[u8]) -> DynamicMessage {
        DynamicMessage::decode(self.message.clone(), bytes)
            .unwrap_or_else(|_| DynamicMessage::new(self.message.clone()))
    }
}

/// Returns the value at a path through message fields; an absent message on the way means the default.
fn value_at(message: &DynamicMessage, path: &[FieldDescriptor]) -> Option<prost_reflect::Value> {
    let (first, rest) = path.split_first()?;
    let value = message.get_field(first);
    match (rest.is_empty(), value.as_message()) {
        (true, _) => Some(value.into_owned()),
        (false, Some(inner)) => value_at(inner, rest),
        (false, None) => None,
    }
}

fn set_text(message: &mut DynamicMessage, path: &[FieldDescriptor], text: &str) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        return message.set_field(first, Value::String(text.to_owned()));
    }
    if let Some(inner) = message.get_field_mut(first).as_message_mut() {
        set_text(inner, rest, text);
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
        Schema::new(pool.get_message_by_name(name).unwrap(), Vec::new(), Vec::new())
    }

    fn text(schema: &Schema, bytes: &[u8]) -> String {
        schema.check(bytes).unwrap_err().to_string()
    }

    /// A region that is filled in changes nothing else.
    #[test]
    fn another_text_keeps_the_sign_of_zeros() {
        use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, field_descriptor_proto::Type};
        let field = |name: &str, number: i32, kind: Type| FieldDescriptorProto {
            name: Some(name.into()),
            number: Some(number),
            r#type: Some(kind.into()),
            ..FieldDescriptorProto::default()
        };
        let fields = vec![field("region", 1, Type::String), field("ratio", 2, Type::Double)];
        let message = DescriptorProto { name: Some("M".into()), field: fields, ..DescriptorProto::default() };
        let syntax = Some("proto3".into());
        let name = Some("m.proto".into());
        let file = FileDescriptorProto { name, syntax, message_type: vec![message], ..FileDescriptorProto::default() };
        let mut pool = prost_reflect::DescriptorPool::new();
        pool.add_file_descriptor_proto(file).unwrap();
        let message = pool.get_message_by_name("M").unwrap();
        let region = message.get_field(1).unwrap();
        let schema = Schema::new(message, Vec::new(), Vec::new());
        let ratio = b"\x11\0\0\0\0\0\0\0\x80";
        let expected = [&b"\x0a\x01r"[..], ratio].concat();
        assert_eq!(schema.with_text(ratio, &[region], "r"), expected);
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
