//! Answers `mutate` with bytes that are not a resource (`boom`), with data that cannot be decoded (`boom-data`), or
//! with data of another message (`boom-url`).

use mortise_plugin::{Diagnostics, Plugin, ResourceType, Scope, pb::Resource, prost::Message, raw::Guest};
use mortise_test_guests::{DESCRIPTORS, Thing};

static PLUGIN: Plugin = Plugin::new(
    "garbage-reply",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::<Thing>::new("garbage_reply", "v1", "Thing", Scope::Namespace).mutate(|_| Ok(()))],
);

/// Replies without the typed table, which cannot reply garbage.
struct Garbage;

impl Guest for Garbage {
    fn describe() -> Vec<u8> {
        PLUGIN.describe()
    }

    fn mutate(input: Vec<u8>) -> Result<Option<Vec<u8>>, Diagnostics> {
        let mut resource =
            Resource::decode(input.as_slice()).map_err(|fault| Diagnostics::refusal(fault.to_string()))?;
        let name = resource.id.as_ref().map(|id| id.name.clone()).unwrap_or_default();
        let data = resource.data.get_or_insert_default();
        match name.as_str() {
            "boom" | "boom-mutate" => return Ok(Some(vec![0xff; 32])),
            "boom-data" => data.value = vec![0xff; 32],
            "boom-url" => data.type_url = "type.googleapis.com/mortise.test.v1.Inner".to_owned(),
            _ => return Ok(None),
        }
        Ok(Some(resource.encode_to_vec()))
    }
}
mortise_plugin::export_raw!(Garbage: mutating);
