//! Samples are YAML that the server takes.
use crate::common::{message, pool, print, read, sink};
use mortise_text::schema::{json_schema, sample};
use prost_reflect::{DescriptorPool, prost_types};
use serde_json::Value;

fn parsed(text: &str) -> Value {
    let source = mortise_text::Source { name: "sample", text };
    let documents = mortise_text::plain_documents(source, &mortise_text::Limits::default());
    documents.unwrap_or_else(|e| panic!("{e}:\n{text}")).pop().map_or(Value::Null, |document| document.value)
}

#[test]
fn every_message_has_a_sample_that_is_valid() {
    let mut seen = 0;
    for message in pool().all_messages().filter(|m| !m.is_map_entry() && m.package_name() != "google.protobuf") {
        let text = sample(&message);
        let instance = parsed(&text);
        read(&message, &instance).unwrap_or_else(|e| panic!("{}: {e}:\n{text}", message.full_name()));
        // `Any` has no empty value; null stands for an absent one, and the server accepts it.
        let with_any = text.contains("# google.protobuf.Any");
        let schema = json_schema(&message);
        let valid = jsonschema::draft202012::new(&schema).unwrap().is_valid(&instance);
        assert!(valid || with_any, "{}:\n{text}", message.full_name());
        seen += 1;
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn every_field_is_there() {
    let text = sample(&sink());
    for field in sink().fields() {
        let name = field.json_name();
        let as_key = |line: &str| {
            let line = line.strip_prefix("# ").unwrap_or(line);
            line.starts_with(&format!("{name}:")) || line.starts_with(&format!("\"{name}\":"))
        };
        assert_eq!(text.lines().filter(|line| as_key(line)).count(), 1, "{name}:\n{text}");
    }
}

#[test]
fn it_reads_like_this() {
    let text = sample(&message("hashicorp.consul.internal.demo.v2.Festival"));
    let expected = "\
# Namespace scope.
# string
name: \"\"
# list of hashicorp.consul.internal.demo.v2.Genre: GENRE_UNSPECIFIED, GENRE_JAZZ, GENRE_FOLK, GENRE_POP, GENRE_METAL, GENRE_PUNK, GENRE_BLUES, GENRE_R_AND_B, GENRE_COUNTRY, GENRE_DISCO, GENRE_SKA, GENRE_HIP_HOP, GENRE_INDIE, GENRE_ROCK
genres:
  - GENRE_UNSPECIFIED
# list of hashicorp.consul.internal.demo.v2.Artist
artists:
  -
    # string
    name: \"\"
    # hashicorp.consul.internal.demo.v2.Genre: GENRE_UNSPECIFIED, GENRE_JAZZ, GENRE_FOLK, GENRE_POP, GENRE_METAL, GENRE_PUNK, GENRE_BLUES, GENRE_R_AND_B, GENRE_COUNTRY, GENRE_DISCO, GENRE_SKA, GENRE_HIP_HOP, GENRE_INDIE, GENRE_ROCK
    genre: GENRE_UNSPECIFIED
    # Instrument by member.
    # map<string, string>
    groupMembers:
      key: \"\"
# list of hashicorp.consul.resource.Reference
boundReferences:
  -
";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn one_of_a_oneof_is_set() {
    let text = sample(&sink());
    let set = print(&read(&sink(), &parsed(&text)).unwrap());
    assert!(set.get("pipe").is_some(), "{set}");
    for other in ["# drain:", "# vapour: HEAT_UNSPECIFIED", "# nothing: null"] {
        assert!(text.lines().any(|line| line == other), "{other}:\n{text}");
    }
    assert!(text.contains("# string; at most one of pipe, drain, vapour, nothing"), "{text}");
    assert!(text.contains("  # # string") || text.contains("  # to: \"\""), "{text}");
}

#[test]
fn words_of_yaml_are_quoted() {
    let text = sample(&sink());
    assert!(text.contains("\n\"on\": false"), "{text}");
    assert!(text.contains("\n\"null\": null"), "{text}");
    assert!(text.contains("\n\"other-name\": \"\""), "{text}");
}

/// Sixty-four messages of two fields each, of which one holds the next twice: doubling sixty-four times.
#[test]
fn samples_are_bounded() {
    use prost_types::{
        DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, field_descriptor_proto,
    };
    let field = |name: &str, number, offset: usize| FieldDescriptorProto {
        name: Some(name.into()),
        number: Some(number),
        label: Some(field_descriptor_proto::Label::Optional.into()),
        r#type: Some(field_descriptor_proto::Type::Message.into()),
        type_name: Some(format!(".M{offset}")),
        ..Default::default()
    };
    let messages = (0..64).map(|i| DescriptorProto {
        name: Some(format!("M{i}")),
        field: if i < 63 { vec![field("a", 1, i + 1), field("b", 2, i + 1)] } else { Vec::new() },
        ..Default::default()
    });
    let file = FileDescriptorProto {
        name: Some("m.proto".into()),
        syntax: Some("proto3".into()),
        message_type: messages.collect(),
        ..Default::default()
    };
    let pool = DescriptorPool::from_file_descriptor_set(FileDescriptorSet { file: vec![file] }).unwrap();
    let first = pool.get_message_by_name("M0").unwrap();
    let text = sample(&first);
    assert!(text.lines().count() < 2_500, "{}", text.lines().count());
    read(&first, &parsed(&text)).unwrap();
}

#[test]
fn an_empty_message_is_an_empty_map() {
    assert_eq!(sample(&message("kitchen.v1.Nothing")), "{}\n");
}
