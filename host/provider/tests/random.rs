//! Random messages and random values of them: through the wire, through data and back, and through a plan.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fmt::Write as _, sync::Arc};

use fastrand::Rng;
use mortise_provider::{
    mapping::{
        Attribute, Divergences, FieldOptions, Leaf, Object, Presence, Shape, are_equal, conform, from_data, to_data,
        undo,
    },
    value::{Type, Value, msgpack},
};
use prost_reflect::{DescriptorPool, Kind};

const CASES: u64 = 300;

const SCALARS: [&str; 12] =
    ["string", "bool", "int32", "int64", "uint32", "uint64", "sint64", "fixed64", "float", "double", "bytes", "Mood"];
const WELL_KNOWN: [&str; 8] =
    ["Timestamp", "Duration", "StringValue", "UInt64Value", "BoolValue", "Struct", "FieldMask", "Empty"];

/// Declares a message and those within it.
fn declare(random: &mut Rng, name: &str, depth: usize, text: &mut String) {
    let (mut body, mut choice) = (String::new(), String::new());
    for number in 1..=random.usize(1..8) {
        let kind = match random.u8(..8) {
            0 | 1 if depth > 0 => {
                declare(random, &format!("{name}{number}"), depth - 1, text);
                format!("{name}{number}")
            }
            2 => format!("google.protobuf.{}", random.choice(WELL_KNOWN).unwrap()),
            3 if random.bool() => name.to_owned(),
            _ => random.choice(SCALARS).unwrap().to_owned(),
        };
        let is_message = kind.starts_with("google.") || kind.starts_with(name);
        match random.u8(..8) {
            0 | 1 => writeln!(body, "  repeated {kind} f_{number} = {number};").unwrap(),
            2 => {
                let key = random.choice(["string", "int32", "uint64", "bool"]).unwrap();
                writeln!(body, "  map<{key}, {kind}> f_{number} = {number};").unwrap();
            }
            3 if !is_message => writeln!(body, "  optional {kind} f_{number} = {number};").unwrap(),
            4 => writeln!(choice, "    {kind} f_{number} = {number};").unwrap(),
            _ => writeln!(body, "  {kind} f_{number} = {number};").unwrap(),
        }
    }
    if !choice.is_empty() {
        write!(body, "  oneof choice {{\n{choice}  }}\n").unwrap();
    }
    write!(text, "message {name} {{\n{body}}}\n").unwrap();
}

fn object(text: &str) -> Object {
    let dir = tempfile::tempdir().unwrap();
    let imports = ["timestamp", "duration", "wrappers", "struct", "field_mask", "empty"];
    let imports = imports.map(|file| format!("import \"google/protobuf/{file}.proto\";\n")).concat();
    let moods = "enum Mood { MOOD_UNSPECIFIED = 0; MOOD_GOOD = 1; MOOD_BAD = 2; }\n";
    let file = format!("syntax = \"proto3\";\npackage t;\n{imports}{moods}{text}");
    std::fs::write(dir.path().join("t.proto"), file).unwrap();
    let mut compiler = protox::Compiler::new([dir.path()]).unwrap();
    compiler.include_imports(true).open_file("t.proto").unwrap();
    let pool = DescriptorPool::decode(compiler.encode_file_descriptor_set().as_slice()).unwrap();
    Object::of(&pool.get_message_by_name("t.M").unwrap(), &|_| FieldOptions::default()).unwrap()
}

fn values(random: &mut Rng, object: &Object) -> Value {
    let mut chosen = false;
    let attribute = |attribute: &Attribute| {
        let choice = attribute.field.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic());
        let nothing = random.u8(..3) == 0 || (choice && std::mem::replace(&mut chosen, true));
        let value = if nothing { Value::Null } else { value(random, &attribute.shape, &attribute.field.kind()) };
        (attribute.name.clone(), value)
    };
    Value::Map(object.attributes.iter().map(attribute).collect())
}

fn value(random: &mut Rng, shape: &Shape, kind: &Kind) -> Value {
    match shape {
        Shape::Object(object) => values(random, object),
        Shape::List(element) | Shape::Set(element) => {
            Value::List((0..random.usize(..4)).map(|_| value(random, element, kind)).collect())
        }
        Shape::Map(element) => {
            let entry = kind.as_message().unwrap();
            let names = match entry.map_entry_key_field().kind() {
                Kind::Bool => ["true", "false"],
                Kind::String => ["a b", "é\"]"],
                _ => ["7", "0"],
            };
            let inner = entry.map_entry_value_field().kind();
            let entries = names.iter().take(random.usize(..3));
            Value::Map(entries.map(|name| ((*name).to_owned(), value(random, element, &inner))).collect())
        }
        Shape::Paths => Value::List(vec![Value::String("some_path.of_it".into())]),
        Shape::Leaf(leaf) => leaf_value(random, leaf, kind),
    }
}

fn leaf_value(random: &mut Rng, leaf: &Leaf, kind: &Kind) -> Value {
    let mut pick = |texts: &[&str]| Value::String((*random.choice(texts).unwrap()).to_owned());
    let number = |text: String| Value::Number(text.parse().unwrap());
    match leaf {
        Leaf::String => pick(&["", "x", "Grüße \u{1F600}", "\"\\\n"]),
        Leaf::Bytes => pick(&["", "AA==", "AAECAw=="]),
        Leaf::Enum(_) => pick(&["MOOD_UNSPECIFIED", "MOOD_GOOD", "7"]),
        Leaf::Timestamp => pick(&["2026-01-02T03:04:05.123456789Z", "1970-01-01T01:00:00+01:00"]),
        Leaf::Duration => pick(&["0s", "1.5s", "1h", "-3s"]),
        Leaf::Json => pick(&["{}", "{\"f_99\": 1}"]),
        Leaf::Bool => Value::Bool(random.bool()),
        Leaf::Float => number(f32::from_bits(random.u32(..) & 0x7f00_0000).to_string()),
        Leaf::Double => number(f64::from_bits(random.u64(..) & 0x7fe0_0000_0000_0000).to_string()),
        Leaf::Integer => number(match kind {
            Kind::Int32 => random.i32(..).to_string(),
            Kind::Uint32 => random.u32(..).to_string(),
            Kind::Uint64 | Kind::Fixed64 | Kind::Message(_) => random.u64(..).to_string(),
            _ => random.i64(..).to_string(),
        }),
    }
}

/// Imitates a server's hook: it fills in values, and rewrites texts.
fn hook(shape: &Shape, value: &Value) -> Value {
    match (shape, value) {
        (Shape::Leaf(Leaf::String), Value::String(text)) => Value::String(text.to_lowercase()),
        (Shape::Object(object), Value::Map(_)) => {
            let part = |attribute: &Attribute| match (value.get(&attribute.name), &attribute.shape) {
                (Value::Null, Shape::Leaf(Leaf::Integer)) if attribute.flags.computed => Value::Number(80_i64.into()),
                (other, shape) => hook(shape, other),
            };
            Value::Map(object.attributes.iter().map(|attribute| (attribute.name.clone(), part(attribute))).collect())
        }
        (Shape::List(element), Value::List(items)) => {
            Value::List(items.iter().map(|item| hook(element, item)).collect())
        }
        (Shape::Map(element), Value::Map(entries)) => {
            Value::Map(entries.iter().map(|(key, value)| (key.clone(), hook(element, value))).collect())
        }
        (_, other) => other.clone(),
    }
}

#[test]
fn random_values_of_random_messages_survive_every_way() {
    let (mut fields, mut sent) = (0, 0);
    for seed in 0..CASES {
        let mut random = Rng::with_seed(seed);
        let mut text = String::new();
        declare(&mut random, "M", 3, &mut text);
        let object = object(&text);
        let shape = Shape::Object(Arc::new(object.clone()));
        let kind = object.to_type();
        assert_eq!(Type::from_bytes(&kind.to_bytes()).as_ref(), Ok(&kind));
        fields += object.attributes.len();
        for _ in 0..5 {
            let value = values(&mut random, &object);
            assert_eq!(msgpack::decode(&msgpack::encode(&value), &kind).as_ref(), Ok(&value), "{text}");
            // JSON may have fields that its message lacks; such data is rejected.
            let Ok(data) = to_data(&object, &value) else { continue };
            sent += 1;
            let back = from_data(&object, Some(&data)).0;
            assert!(are_equal(&shape, Presence::Explicit, &value, &back), "{text}\n{value:?}\n{back:?}");
            let server = hook(&shape, &back);
            let mut divergences = Divergences::default();
            let planned = conform(&shape, false, "data", &value, Some(&server), &mut divergences);
            let read = undo(&shape, "data", &planned, &server, &divergences);
            assert_eq!(read, planned, "{text}\n{value:?}\n{server:?}");
        }
    }
    assert!(fields > 1_000 && sent > 500, "{fields} {sent}");
}

#[test]
fn a_zero_keeps_its_sign_from_data_to_core_and_back() {
    let object = object(
        "message M { double plain = 1; google.protobuf.FloatValue wrapped = 2; map<string, double> by_name = 3;
                     repeated float many = 4; optional double maybe = 5; int32 whole = 6; }",
    );
    let zero = || Value::Number("-0".parse().unwrap());
    let value = Value::object([
        ("plain", zero()),
        ("wrapped", zero()),
        ("by_name", Value::object([("k", zero())])),
        ("many", Value::List(vec![zero()])),
        ("maybe", zero()),
        ("whole", zero()),
    ]);
    let data = to_data(&object, &value).unwrap();
    assert_eq!(data.value.iter().filter(|byte| **byte == 0x80).count(), 5, "{:?}", data.value);
    let back = from_data(&object, Some(&data)).0;
    let sent = msgpack::decode(&msgpack::encode(&back), &object.to_type()).unwrap();
    assert_eq!(to_data(&object, &sent).unwrap(), data);
}
