//! A type with fields of every kind, and resources of it.

use std::{collections::BTreeMap, sync::LazyLock};

use mortise_query::{Candidate, Filter, QueryError, Schema};
use mortise_resource::{EncodedResource, goten, pb};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage};

const PROTO: &str = r#"
syntax = "proto3";
package test.v1;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Genre { GENRE_NONE = 0; GENRE_JAZZ = 1; GENRE_ROCK = 2; }
message Inner { string name = 1; int32 count = 2; Inner below = 3; repeated string tags = 4; map<string, Inner> more = 5; }
message Old { string title = 1; Inner inner = 5; }
message Album {
  reserved 50;
  reserved "old_title";
  string title = 1;
  int32 track_count = 2;
  int64 plays = 3;
  uint32 small = 4;
  uint64 large = 5;
  sint32 signed_small = 6;
  sint64 signed_large = 7;
  fixed32 fixed_small = 8;
  fixed64 fixed_large = 9;
  sfixed32 sfixed_small = 10;
  sfixed64 sfixed_large = 11;
  float ratio = 12;
  double score = 13;
  bool live = 14;
  bytes cover = 15;
  Genre genre = 16;
  Inner inner = 17;
  repeated Inner inners = 18;
  repeated string names = 19;
  repeated int32 numbers = 20;
  map<string, string> texts = 21;
  map<string, Inner> parts = 22;
  map<int32, string> by_number = 23;
  map<bool, int64> by_bool = 24;
  oneof choice { string word = 25; int32 number = 26; Inner chosen = 27; }
  optional int32 maybe = 28;
  google.protobuf.Timestamp released = 29;
  google.protobuf.Duration length = 30;
  google.protobuf.Int64Value wrapped = 31;
  google.protobuf.StringValue wrapped_text = 32;
  google.protobuf.BoolValue wrapped_flag = 33;
  google.protobuf.Struct extra = 34;
  google.protobuf.Any any = 35;
  repeated Genre genres = 36;
  map<sint64, Inner> by_signed = 37;
  repeated google.protobuf.Timestamp dates = 38;
  oneof pick { Inner first = 39; string second = 40; }
}
"#;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("test.proto"), PROTO).unwrap();
    let mut compiler = protox::Compiler::new([dir.path()]).unwrap();
    compiler.include_imports(true).open_file("test.proto").unwrap();
    DescriptorPool::decode(compiler.encode_file_descriptor_set().as_slice()).unwrap()
});

pub(crate) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::new(POOL.get_message_by_name("test.v1.Album")));

/// Data of the JSON form of a message.
pub(crate) fn message(name: &str, json: &str) -> prost_types::Any {
    let descriptor = POOL.get_message_by_name(name).unwrap();
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let message = DynamicMessage::deserialize(descriptor, &mut deserializer).unwrap();
    prost_types::Any { type_url: format!("type.googleapis.com/{name}"), value: message.encode_to_vec() }
}

pub(crate) fn album(json: &str) -> prost_types::Any {
    message("test.v1.Album", json)
}

/// The JSON form of an album.
pub(crate) fn json(data: &prost_types::Any) -> String {
    let descriptor = POOL.get_message_by_name("test.v1.Album").unwrap();
    let message = DynamicMessage::decode(descriptor, data.value.as_slice()).unwrap();
    serde_json::to_value(&message).unwrap().to_string()
}

pub(crate) fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A resource with something in each of its fields, and this data.
pub(crate) fn resource(json: &str) -> pb::Resource {
    let time = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    let id = |name: &str| pb::Id {
        uid: format!("uid-{name}"),
        name: name.into(),
        r#type: Some(pb::Type { group: "test".into(), group_version: "v1".into(), kind: "Album".into() }),
        tenancy: Some(pb::Tenancy { partition: "default".into(), namespace: "prod".into() }),
    };
    let condition = pb::Condition { r#type: "Accepted".into(), state: 1, ..Default::default() };
    pb::Resource {
        id: Some(id("d1")),
        owner: Some(id("group")),
        version: "17".into(),
        generation: "01G".into(),
        metadata: map(&[("k", "v"), ("a.b", "dotted")]),
        status: BTreeMap::from([("sync".into(), pb::Status { conditions: vec![condition], ..Default::default() })]),
        data: Some(album(json)),
        schema_version: 3,
        references: Vec::new(),
        meta: Some(Box::new(goten::Meta {
            create_time: time(1_700_000_000),
            update_time: time(1_700_000_001),
            tags: vec!["red".into(), "blue".into()],
            labels: map(&[("region", "eu"), ("x:y", "z"), ("my-key", "1"), ("empty", "")]),
            generation: 4,
            owner_references: vec![
                goten::OwnerReference { name: "one".into(), kind: "K".into(), ..Default::default() },
                goten::OwnerReference { name: "two".into(), controller: true, ..Default::default() },
            ],
            shards: BTreeMap::from([("byName".into(), 7)]),
            lifecycle: Some(goten::Lifecycle { state: 1, block_deletion: false }),
            services: Some(goten::ServicesInfo { owning_service: "s".into(), allowed_services: vec!["x".into()] }),
            ..Default::default()
        })),
    }
}

/// Whether a resource matches a filter.
pub(crate) fn try_matches(filter: &str, resource: &pb::Resource) -> Result<bool, QueryError> {
    let filter = Filter::parse(filter, &SCHEMA)?;
    let encoded = EncodedResource::encode(resource).unwrap();
    Ok(filter.matches(&Candidate::new(&encoded, &SCHEMA)).unwrap())
}

/// Checks rows of filters and whether they hold.
pub(crate) fn check(resource: &pb::Resource, rows: &[(&str, bool)]) {
    for (filter, expected) in rows {
        let found = try_matches(filter, resource).map_err(|fault| fault.to_string());
        assert_eq!(found, Ok(*expected), "{filter}");
    }
}
