//! Schema version 2 of `schema.v1.Thing`: the text begins with `upgraded `, and `number` counts upgrades. A stored text
//! `stuck` cannot be upgraded, `trap` traps, and `garbage` is upgraded to invalid bytes.

use mortise_plugin::{Diagnostics, Plugin, ResourceType, Scope, field, prost::Message, raw::Guest};
use mortise_test_guests::{DESCRIPTORS, Thing};

static PLUGIN: Plugin = Plugin::new(
    "schema",
    "2.0.0",
    DESCRIPTORS,
    &[&ResourceType::<Thing>::new("schema", "v1", "Thing", Scope::Namespace)
        .schema_version(2)
        .upgrade(upgrade)
        .authorize_read(|_, thing| match thing {
            None => mortise_plugin::Decision::NeedResource,
            Some(thing) if thing.data.text.starts_with("upgraded ") => mortise_plugin::Decision::Allow,
            Some(_) => mortise_plugin::Decision::Deny("the rule sees old data".to_owned()),
        })
        .validate(|thing, prior, diagnostics| {
            for (which, thing) in [("new", Some(thing)), ("stored", prior)] {
                if thing.is_some_and(|thing| !thing.data.text.starts_with("upgraded ")) {
                    diagnostics.error(format!("the {which} text is not of version 2")).at(field("text"));
                }
            }
        })],
);

fn upgrade(since: u32, data: &[u8]) -> Result<Thing, Diagnostics> {
    if since != 1 {
        return Err(Diagnostics::refusal(format!("there is no version {since} before 2")));
    }
    let thing = Thing::decode(data).map_err(|fault| Diagnostics::refusal(fault.to_string()))?;
    match thing.text.as_str() {
        "stuck" => Err(Diagnostics::refusal("it is stuck")),
        #[allow(clippy::panic, reason = "it is what the guest is about")]
        "trap" => panic!("upgrade met a trap"),
        text => Ok(Thing { text: format!("upgraded {text}"), number: thing.number + 1, ..thing.clone() }),
    }
}

/// The table's answers, except for data that becomes garbage.
struct Schema;

impl Guest for Schema {
    fn describe() -> Vec<u8> {
        PLUGIN.describe()
    }

    fn validate(input: Vec<u8>, prior: Option<Vec<u8>>) -> Diagnostics {
        PLUGIN.validate(&input, prior.as_deref())
    }

    fn read(id: Vec<u8>, stored: Option<Vec<u8>>) -> mortise_plugin::Decision {
        PLUGIN.read(&id, stored.as_deref())
    }

    fn upgrade(of: mortise_plugin::pb::Type, since: u32, data: Vec<u8>) -> Result<Vec<u8>, Diagnostics> {
        match Thing::decode(data.as_slice()) {
            Ok(thing) if thing.text == "garbage" => Ok(vec![0xff; 3]),
            _ => PLUGIN.upgrade(&of, since, &data),
        }
    }
}

mortise_plugin::export_raw!(Schema: validating, authorizing, upgrading);
