//! Imports an interface that no host has.

use mortise_plugin::{Plugin, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, Thing};

/// The bindings that wit-bindgen makes of a world of its own.
#[cfg(target_arch = "wasm32")]
#[allow(unsafe_code, clippy::all, reason = "generated")]
mod teleport {
    mortise_plugin::wit_bindgen::generate!({
        inline: "
            package nowhere:teleport@0.1.0;
            interface teleport { send: func(name: string) -> bool; }
            world traveller { import teleport; }
        ",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
    });
    pub(crate) use nowhere::teleport::teleport::send;
}

static PLUGIN: Plugin = Plugin::new(
    "unknown-import",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::<Thing>::new("unknown_import", "v1", "Thing", Scope::Namespace).mutate(|thing| {
        #[cfg(target_arch = "wasm32")]
        if teleport::send(thing.name()) {
            thing.data.text.push_str("teleported");
        }
        let _ = thing;
        Ok(())
    })],
);
mortise_plugin::export!(PLUGIN: mutating);
