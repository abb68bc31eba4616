//! Authorises by name, so that tests can reach every access check.
//!
//! `deny.v1.ById` decides reads from the id, `deny.v1.ByContent` needs the resource for each. For both:
//! - read: refused for names that begin with `secret-`; `ask-` asks the authorizer for Consul's key rule.
//! - write: refused for names that begin with `frozen-`; `ask-` as above.
//! - list: refused in the partition or namespace `nolist`; `asklist` asks the authorizer.
//!
//! `ById` asks for the resource when the name begins with `need-`. Wherever the resource is available, the text
//! `secret` refuses the read and the text `frozen` the write. Refusals give a reason, except those of the authorizer.

use mortise_plugin::{
    Decision, Plugin, ResourceType, Scope, Typed, authorize,
    pb::{Id, Tenancy, Type},
};
use mortise_test_guests::{DESCRIPTORS, Thing};

static PLUGIN: Plugin = Plugin::new(
    "deny",
    "0.1.0",
    DESCRIPTORS,
    &[
        &ResourceType::<Thing>::new("deny", "v1", "ById", Scope::Namespace)
            .authorize_read(read_by_id)
            .authorize_write(write)
            .authorize_list(list),
        &ResourceType::<Thing>::new("deny", "v1", "ByContent", Scope::Namespace)
            .authorize_read(read_by_content)
            .authorize_write(write)
            .authorize_list(list),
    ],
);
mortise_plugin::export!(PLUGIN: authorizing);

fn read_by_id(id: &Id, stored: Option<&Typed<Thing>>) -> Decision {
    if stored.is_none() && id.name.starts_with("need-") { Decision::NeedResource } else { read(id, stored) }
}

fn read_by_content(id: &Id, stored: Option<&Typed<Thing>>) -> Decision {
    if stored.is_none() { Decision::NeedResource } else { read(id, stored) }
}

fn read(id: &Id, stored: Option<&Typed<Thing>>) -> Decision {
    if id.name.starts_with("ask-") {
        return authorize::key_read(id);
    }
    let secret = id.name.starts_with("secret-") || stored.is_some_and(|thing| thing.data.text == "secret");
    refuse_if(secret, "this is secret")
}

fn write(thing: &Typed<Thing>) -> Decision {
    if thing.name().starts_with("ask-") {
        return authorize::key_write(thing.id());
    }
    refuse_if(thing.name().starts_with("frozen-") || thing.data.text == "frozen", "this is frozen")
}

fn list(of: &Type, tenancy: &Tenancy) -> Decision {
    let here = |unit: &str| tenancy.partition == unit || tenancy.namespace == unit;
    if here("asklist") { authorize::key_list(of, tenancy) } else { refuse_if(here("nolist"), "no lists here") }
}

fn refuse_if(refuse: bool, reason: &str) -> Decision {
    if refuse { Decision::Deny(reason.to_owned()) } else { Decision::Allow }
}
