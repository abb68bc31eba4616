//! Fuzz targets: untrusted bytes for the code of the server that decodes them. A target is a function that must return
//! for any bytes; the fuzzer looks for a panic, a hang or much memory.
//!
//! `.ci/fuzz` runs each with libFuzzer for a minute, on the stable toolchain, and puts the inputs of failures into
//! `target/fuzz-found`; `cargo +nightly fuzz run TARGET` works as well. `tests/corpus.rs` gives each target the corpus,
//! in every test run. Each finding has a seed in the corpus, which has at most 200 KiB.
//!
//! A new target is a function here, a program in `fuzz_targets/`, a line in Cargo.toml and in `tests/corpus.rs`, and a
//! folder of seeds.

mod names;
mod requests;

use std::sync::{Once, OnceLock};

use mortise_acl::{Areas, Policy};
use mortise_plugin_manager::files::truncation;
use mortise_resource::{EncodedResource, Outline, data};
use mortise_service::registry::Registry;
use mortise_text::{Limits, OneType, Source, parse, plain_documents};
use prost::Message as _;

pub use names::names;
pub use requests::requests;

/// Decodes an answer of `describe`: as a plugin's manifest, and as its controllers and grants.
///
/// The library that reads descriptors panics on some. The caller contains such a panic, so it is not a finding; without
/// this hook libFuzzer's would end the process before.
pub fn manifests(bytes: &[u8]) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !panic.location().is_some_and(|at| at.file().contains("/prost-reflect-")) {
                before(panic);
            }
        }));
    });
    mortise_plugin_host::fuzzing::manifest(bytes);
}

/// Reads a file of the plugin folder as the server does before it compiles the file, and names of imports and exports.
pub fn components(bytes: &[u8]) {
    let _ = truncation::shape(bytes);
    for name in String::from_utf8_lossy(bytes).split(['\0', '\n']) {
        mortise_plugin_host::fuzzing::interface(name);
    }
}

/// Reads data of disks and backups: values of the tree, records and edits of the log, records and names of backups; and
/// the parts of an encoded resource.
pub fn records(bytes: &[u8]) {
    if let Ok(resource) = EncodedResource::parse(bytes.to_vec().into()) {
        let _ = (resource.id(), resource.deletion_mark(), resource.references(), resource.labels().count());
        if let Some(outline) = Outline::find(bytes) {
            assert_eq!(outline.group_version, resource.id().group_version.as_bytes());
            assert_eq!(outline.schema_version, resource.schema_version());
        }
    }
    mortise_store::fuzzing::stored(bytes);
    mortise_backup::fuzzing::entries(bytes);
}

/// Reads a policy: the message, and its rules as HCL, YAML or JSON.
pub fn policies(bytes: &[u8]) {
    if let Ok(policy) = data::Policy::decode(bytes) {
        let _ = Policy::read(&policy, &Areas::default());
    }
    let rules = String::from_utf8_lossy(bytes).into_owned();
    let _ = Policy::load(&data::Policy { rules, ..data::Policy::default() });
}

/// Reads resources as YAML, JSON and HCL, and YAML without resources.
pub fn text(bytes: &[u8]) {
    static TYPES: OnceLock<Option<OneType>> = OnceLock::new();
    let text = String::from_utf8_lossy(bytes);
    let make = || {
        let registry = Registry::builtin().ok()?;
        registry.pools().find_map(|pool| pool.get_message_by_name("mortise.v1.Policy")).map(OneType)
    };
    let _ = plain_documents(Source { name: "fuzz", text: &text }, &Limits::default());
    if let Some(types) = TYPES.get_or_init(make) {
        let _ = parse(Source { name: "fuzz", text: &text }, None, types);
    }
}

/// Reads signatures, keys and encrypted secrets.
pub fn signed(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let keys: Vec<_> = mortise_keys::signature::PublicKey::parse(&text).into_iter().collect();
    let _ = mortise_keys::signature::verify(b"content", bytes, &keys);
    let known = mortise_keys::signature::PublicKey::parse("RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3");
    let _ = mortise_keys::signature::verify(b"test", bytes, &known.into_iter().collect::<Vec<_>>());
    if let Some(identities) = requests::identities() {
        let _ = identities.decrypt(bytes);
    }
}
