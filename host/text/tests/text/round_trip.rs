//! Every message reads back from its printed form as the same message.

use std::collections::HashMap;

use mortise_text::{Format, Indent, consul, to_json, to_yaml};
use proptest::{prelude::*, test_runner::TestRng};
use prost::Message;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

use crate::common::{data, everything, pool, resource, types};

/// Makes random messages. Proptest gives the seed and so a case that can be run again.
struct Maker(TestRng);

const STRINGS: [&str; 44] = [
    "",
    "a",
    "korn",
    " a",
    "a ",
    "a b",
    "1.10",
    "true",
    "no",
    "null",
    "~",
    "-",
    "- a",
    "a: b",
    "a:",
    ":a",
    "#a",
    "a #b",
    "a#b",
    "'",
    "\"",
    "\\",
    "a\nb",
    "a\nb\n",
    "a\n\n",
    "\n",
    "\na",
    " a\nb",
    "a\n b\n  c",
    "a\t\nb",
    "\t",
    "\r\n",
    "\u{0}",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "😀",
    "é",
    "---",
    "...",
    "@type",
    "2024-01-01",
    "0x1f",
    "a\n---\nb",
];

impl Maker {
    fn below(&mut self, bound: u32) -> u32 {
        self.0.next_u32() % bound
    }

    fn string(&mut self) -> String {
        match self.below(4) {
            0 | 1 => STRINGS[self.below(44) as usize].to_owned(),
            2 => (0..self.below(12)).map(|_| char::from_u32(self.below(0x250)).unwrap_or('x')).collect(),
            _ => (0..self.below(6)).map(|_| STRINGS[self.below(44) as usize]).collect::<Vec<_>>().join("\n"),
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..self.below(20)).map(|_| self.below(256) as u8).collect()
    }

    fn double(&mut self, finite: bool) -> f64 {
        let value = match self.below(4) {
            0 => f64::from_bits(self.0.next_u64()),
            1 => f64::from(self.0.next_u32() as i32),
            2 => [0.0, -0.0, 1e300, 5e-324, f64::MAX, f64::MIN_POSITIVE, 9_007_199_254_740_994.0, 1e15]
                [self.below(8) as usize],
            _ => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.1][self.below(4) as usize],
        };
        // One NaN is like another.
        if value.is_nan() {
            f64::NAN
        } else if finite && !value.is_finite() {
            1.5
        } else {
            value
        }
    }

    fn long(&mut self) -> u64 {
        [0, 1, u64::MAX, i64::MAX as u64, i64::MIN as u64, 1 << 53, (1 << 53) + 1, self.0.next_u64()]
            [self.below(8) as usize]
    }

    fn message(&mut self, descriptor: &MessageDescriptor, depth: u32) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        let mut set = |number, value| message.set_field_by_number(number, value);
        match descriptor.full_name() {
            "google.protobuf.Timestamp" => {
                let seconds = [0, -62_135_596_800, 253_402_300_799, self.0.next_u32().into()][self.below(4) as usize];
                set(1, Value::I64(seconds));
                set(2, Value::I32([0, 1, 999_999_999, 500_000_000, 1_000][self.below(5) as usize]));
            }
            "google.protobuf.Duration" => {
                let sign = [1, -1][self.below(2) as usize];
                let seconds = [0, 315_576_000_000, i64::from(self.0.next_u32())][self.below(3) as usize];
                set(1, Value::I64(seconds * i64::from(sign)));
                let nanos =
                    if seconds == 315_576_000_000 { 0 } else { [0, 1, 999_999_999, 5_000][self.below(4) as usize] };
                set(2, Value::I32(nanos * sign));
            }
            "google.protobuf.FieldMask" => {
                let path = |maker: &mut Self| {
                    Value::String(["a", "b_c", "a_b.c_d", "x1", "B", "a__b", ""][maker.below(7) as usize].into())
                };
                set(1, Value::List((0..self.below(3)).map(|_| path(self)).collect()));
            }
            "google.protobuf.Value" => {
                let kind_of = |number| descriptor.get_field(number).unwrap().kind();
                match self.below(if depth > 3 { 4 } else { 6 }) {
                    0 => set(1, Value::EnumNumber(0)),
                    1 => {
                        let number = self.double(true);
                        set(2, Value::F64(number))
                    }
                    2 => {
                        let text = self.string();
                        set(3, Value::String(text))
                    }
                    3 => {
                        let value = self.below(2) == 0;
                        set(4, Value::Bool(value))
                    }
                    4 => {
                        let inner = self.message(kind_of(5).as_message().unwrap(), depth + 1);
                        set(5, Value::Message(inner))
                    }
                    _ => {
                        let inner = self.message(kind_of(6).as_message().unwrap(), depth + 1);
                        set(6, Value::Message(inner))
                    }
                }
            }
            "google.protobuf.Any" => {
                let names = [
                    "test.Everything",
                    "google.protobuf.Timestamp",
                    "google.protobuf.Struct",
                    "google.protobuf.Empty",
                    "google.protobuf.Any",
                    "google.protobuf.StringValue",
                    "un.Known",
                ];
                let name = names[if depth > 3 { 3 } else { self.below(7) as usize }];
                let value = match pool().get_message_by_name(name) {
                    Some(inner) => self.message(&inner, depth + 2).encode_to_vec(),
                    None => self.bytes(),
                };
                if self.below(8) > 0 {
                    set(
                        1,
                        Value::String(format!(
                            "{}{name}",
                            ["", "type.googleapis.com/", "a/b/"][self.below(3) as usize]
                        )),
                    );
                    set(2, Value::Bytes(value.into()));
                }
            }
            name => {
                let wrapper = name.starts_with("google.protobuf.");
                let fields: Vec<FieldDescriptor> = descriptor.fields().collect();
                let count = if wrapper { 1 } else { self.below(if depth > 2 { 3 } else { 9 }) };
                for _ in 0..count.min(fields.len() as u32) {
                    let field = &fields[self.below(fields.len() as u32) as usize];
                    if let Some(value) = self.field(field, depth) {
                        message.set_field(field, value);
                    }
                }
            }
        }
        message
    }

    fn field(&mut self, field: &FieldDescriptor, depth: u32) -> Option<Value> {
        if depth > 3 && matches!(field.kind(), Kind::Message(_)) {
            return None;
        }
        if field.is_map() {
            let entry = field.kind().as_message().unwrap().clone();
            let (key, value) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
            let mut map: HashMap<MapKey, Value> = HashMap::new();
            for _ in 0..self.below(4) {
                let key = self.value(&key, depth).into_map_key().unwrap();
                map.insert(key, self.value(&value, depth + 1));
            }
            return Some(Value::Map(map));
        }
        if field.is_list() {
            let kind = field.kind();
            return Some(Value::List((0..self.below(4)).map(|_| self.value(&kind, depth + 1)).collect()));
        }
        Some(self.value(&field.kind(), depth))
    }

    fn value(&mut self, kind: &Kind, depth: u32) -> Value {
        match kind {
            Kind::Double => Value::F64(self.double(false)),
            Kind::Float => {
                let value = self.double(false) as f32;
                Value::F32(if value.is_nan() { f32::NAN } else { value })
            }
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(self.long() as i32),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(self.long() as i64),
            Kind::Uint32 | Kind::Fixed32 => Value::U32(self.long() as u32),
            Kind::Uint64 | Kind::Fixed64 => Value::U64(self.long()),
            Kind::Bool => Value::Bool(self.below(2) == 0),
            Kind::String => Value::String(self.string()),
            Kind::Bytes => Value::Bytes(self.bytes().into()),
            Kind::Enum(descriptor) if descriptor.full_name() == "google.protobuf.NullValue" => Value::EnumNumber(0),
            Kind::Enum(_) => Value::EnumNumber([0, 1, 3, 77, -1][self.below(5) as usize]),
            Kind::Message(descriptor) => Value::Message(self.message(descriptor, depth + 1)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_survives(seed in any::<u64>()) {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut maker = Maker(TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &bytes));
        let message = maker.message(&pool().get_message_by_name("test.Everything").unwrap(), 0);
        let mut original = everything(&message);
        // Minus zero is not encoded where zero is the default.
        let message = data(&original);
        original.metadata = (0..maker.below(4)).map(|_| (maker.string(), maker.string())).collect();
        original.version = maker.string();
        let yaml = to_yaml(&original, types());
        let json = to_json(&original, types(), Indent::Spaces(2));
        let line = to_json(&original, types(), Indent::Compact);
        prop_assert!(!line.contains('\n'));
        let with_type = consul::grpc_resource(&original, types());
        let mut encodings = Vec::new();
        for (printed, format) in [(yaml, Format::Yaml), (json, Format::Json), (line, Format::Json), (with_type, Format::Json)] {
            let read = resource(&printed, format);
            prop_assert_eq!(sorted(&data(&read)), sorted(&message), "{}", printed);
            prop_assert_eq!((&read.id, &read.metadata, &read.version), (&original.id, &original.metadata, &original.version));
            encodings.push(read.data);
        }
        // The same content gives the same bytes in any order in memory.
        encodings.dedup();
        prop_assert_eq!(encodings.len(), 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_stored_survives(bytes in proptest::collection::vec(any::<u8>(), 0..40), seed in any::<u64>()) {
        // Some begin with a valid message, so that decoding gets further.
        let descriptor = pool().get_message_by_name("test.Everything").unwrap();
        let mut stored = Vec::new();
        if seed % 2 == 0 {
            let mut whole = [0; 32];
            whole[..8].copy_from_slice(&seed.to_le_bytes());
            stored = Maker(TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &whole)).message(&descriptor, 0).encode_to_vec();
            if let Some(byte) = stored.get_mut(seed as usize / 2 % 97) {
                *byte ^= 1 << (seed / 512 % 8);
            }
        }
        stored.extend(bytes);
        let mut original = everything(&DynamicMessage::new(descriptor.clone()));
        original.data.as_mut().unwrap().value = stored.clone();
        for (printed, format) in
            [(to_yaml(&original, types()), Format::Yaml), (to_json(&original, types(), Indent::Compact), Format::Json)]
        {
            let read = resource(&printed, format);
            match DynamicMessage::decode(descriptor.clone(), stored.as_slice()) {
                Ok(message) => prop_assert_eq!(sorted(&data(&read)), sorted(&message), "{}", printed),
                Err(_) => prop_assert_eq!(&read.data.unwrap().value, &stored),
            }
        }
    }
}

/// A message as text with the entries of its maps in order, and the bytes of an `Any` as the message that they are.
fn sorted(message: &DynamicMessage) -> String {
    fn write(value: &Value) -> String {
        match value {
            Value::Message(message) => sorted(message),
            Value::List(items) => format!("[{}]", items.iter().map(write).collect::<Vec<_>>().join(", ")),
            Value::Map(map) => {
                let mut entries: Vec<String> =
                    map.iter().map(|(key, value)| format!("{key:?}: {}", write(value))).collect();
                entries.sort();
                format!("{{{}}}", entries.join(", "))
            }
            other => format!("{other:?}"),
        }
    }
    use prost_reflect::ReflectMessage;
    if message.descriptor().full_name() == "google.protobuf.Any" {
        let url = message.get_field_by_number(1).unwrap().as_str().unwrap().to_owned();
        let bytes = message.get_field_by_number(2).unwrap().as_bytes().unwrap().clone();
        let inner = pool().get_message_by_name(url.rsplit('/').next().unwrap());
        if let Some(Ok(inner)) = inner.map(|inner| DynamicMessage::decode(inner, bytes)) {
            return format!("{url} {}", sorted(&inner));
        }
    }
    let fields: Vec<String> =
        message.fields().map(|(field, value)| format!("{}: {}", field.name(), write(value))).collect();
    let unknown: Vec<_> = message.unknown_fields().collect();
    format!("({} {unknown:?})", fields.join(", "))
}
