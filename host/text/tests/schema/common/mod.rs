//! Descriptors for tests, comments included.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "tests")]

use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::Value;

/// The kitchen sink, the demo types and the messages of the host.
pub fn pool() -> DescriptorPool {
    let here = env!("CARGO_MANIFEST_DIR");
    let files = [
        "kitchen_sink.proto",
        "hashicorp/consul/internal/demo/v1/demo.proto",
        "hashicorp/consul/internal/demo/v2/demo.proto",
        "hashicorp/consul/resource/resource.proto",
        "mortise/v1/plugin.proto",
        "mortise/v1/value.proto",
        "hashicorp/consul/tenancy/v2beta1/tenancy.proto",
    ];
    let set = protox::compile(files, [format!("{here}/tests/schema"), format!("{here}/../../proto")]).unwrap();
    DescriptorPool::from_file_descriptor_set(set).unwrap()
}

pub fn message(name: &str) -> MessageDescriptor {
    pool().get_message_by_name(name).unwrap()
}

pub fn sink() -> MessageDescriptor {
    message("kitchen.v1.Sink")
}

/// Reads JSON as the server does.
pub fn read(message: &MessageDescriptor, json: &Value) -> Result<DynamicMessage, String> {
    let text = json.to_string();
    let mut from = serde_json::Deserializer::from_str(&text);
    DynamicMessage::deserialize(message.clone(), &mut from).map_err(|e| e.to_string())
}

/// Prints JSON as the server does.
pub fn print(message: &DynamicMessage) -> Value {
    let options = SerializeOptions::new().skip_default_fields(true).stringify_64_bit_integers(true);
    message.serialize_with_options(serde_json::value::Serializer, &options).unwrap()
}
