//! Takes the bytes of a resource in every hook and reads none of them: the cost of a call without work in the guest.

use mortise_plugin::{Plugin, ResourceType, Scope, authorize, raw::Guest};
use mortise_test_guests::{DESCRIPTORS, Thing};

/// Table for the manifest alone.
static PLUGIN: Plugin = Plugin::new(
    "raw-hooks",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::<Thing>::new("raw_hooks", "v1", "Thing", Scope::Namespace)
        .mutate(|_| Ok(()))
        .validate(|_, _, _| ())
        .authorize_write_by_id(authorize::key_write)],
);

struct Raw;

impl Guest for Raw {
    fn describe() -> Vec<u8> {
        PLUGIN.describe()
    }
}
mortise_plugin::export_raw!(Raw: mutating, validating, authorizing);
