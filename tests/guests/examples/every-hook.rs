//! An honest plugin whose type has every hook; benches measure it as a guest and natively.

use mortise_plugin::{Diagnostics, Plugin, ResourceType, Scope, Typed, authorize, field};
use mortise_test_guests::{DESCRIPTORS, proto::hashicorp::consul::internal::demo::v2::Artist};

/// The plugin, which benches also call natively.
pub static PLUGIN: Plugin = Plugin::new(
    "every-hook",
    "1.0.0",
    DESCRIPTORS,
    &[&ResourceType::<Artist>::new("every_hook", "v1", "Artist", Scope::Namespace)
        .mutate(default_genre)
        .validate(require_name)
        .authorize_read_by_id(authorize::key_read)
        .authorize_write_by_id(authorize::key_write)
        .authorize_list(authorize::key_list)],
);
mortise_plugin::export!(PLUGIN: mutating, validating, authorizing);

fn default_genre(artist: &mut Typed<Artist>) -> Result<(), Diagnostics> {
    if artist.data.genre == 0 {
        artist.data.genre = 1;
    }
    Ok(())
}

fn require_name(artist: &Typed<Artist>, _: Option<&Typed<Artist>>, diagnostics: &mut Diagnostics) {
    if artist.data.name.is_empty() {
        diagnostics.error("artist.name required").at(field("name"));
    }
}
