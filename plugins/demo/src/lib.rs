//! The demo types of Consul's resource service: artists, albums, record labels and others.
//!
//! Bundled with Mortise, and switched on by `mortise dev` or by `bundled = ["demo"]` in `[plugins]`. Clients of
//! Consul's demo types rely on their behaviour: types, scopes, hooks and texts are Consul's. The warnings about albums
//! are Mortise's. The demo controller, which gives every artist albums, needs
//! `[plugin.demo.settings] controller = true`.

use mortise_plugin::{Decision, Diagnostics, Plugin, ResourceType, Scope, Typed, authorize::key_read, field, pb::Id};

mod controller;

mortise_plugin::include_proto!(pub mod proto);
use controller::{ALBUM, ARTIST, ARTISTS};
use proto::hashicorp::consul::internal::demo::{v1, v2};

static PLUGIN: Plugin = Plugin::new(
    "demo",
    env!("CARGO_PKG_VERSION"),
    proto::DESCRIPTORS,
    &[
        &ResourceType::<v1::Executive>::new("demo", "v1", "Executive", Scope::Cluster)
            .key_rules()
            .columns(&[("POSITION", "data.position")]),
        &ResourceType::<v1::RecordLabel>::new("demo", "v1", "RecordLabel", Scope::Partition)
            .key_rules()
            .authorize_read(read_label)
            .columns(&[("LABEL", "data.name"), ("DESCRIPTION", "data.description")])
            .short_names(&["label", "labels"]),
        &ResourceType::<v1::Artist>::new("demo", "v1", "Artist", Scope::Namespace)
            .validate(validate_artist_v1)
            .key_rules()
            .columns(&[("ARTIST", "data.name"), ("GENRE", "data.genre"), ("MEMBERS", "data.group_members")]),
        &ResourceType::<v1::Album>::new("demo", "v1", "Album", Scope::Namespace)
            .key_rules()
            .columns(&[("ALBUM", "data.name"), ("YEAR", "data.year_of_release")]),
        &ResourceType::<v1::Concept>::new("demo", "v1", "Concept", Scope::Namespace).key_rules(),
        &ResourceType::of(ARTIST, Scope::Namespace)
            .mutate(default_genre)
            .validate(validate_artist)
            .key_rules()
            .columns(&[("ARTIST", "data.name"), ("GENRE", "data.genre")])
            .indexed_fields(&["data.genre", "data.group_members.lead"])
            .short_names(&["artist", "artists"]),
        &ResourceType::of(ALBUM, Scope::Namespace)
            .optional_data()
            .validate(validate_album)
            .key_rules()
            .columns(&[("ALBUM", "data.title"), ("YEAR", "data.year_of_release")])
            .short_names(&["album", "albums"]),
        &ResourceType::<v2::Festival>::new("demo", "v2", "Festival", Scope::Namespace)
            .key_rules()
            .columns(&[("FESTIVAL", "data.name")])
            .short_names(&["festival", "festivals"]),
    ],
)
.controllers(&[&ARTISTS]);
mortise_plugin::export!(PLUGIN: mutating, validating, authorizing, controlling);

/// Read rule of a label, decided with the label at hand: Consul's example of a rule that needs the content.
fn read_label(id: &Id, label: Option<&Typed<v1::RecordLabel>>) -> Decision {
    if label.is_some() { key_read(id) } else { Decision::NeedResource }
}

fn default_genre(artist: &mut Typed<v2::Artist>) -> Result<(), Diagnostics> {
    if artist.data.genre == v2::Genre::Unspecified as i32 {
        artist.data.set_genre(v2::Genre::Disco);
    }
    Ok(())
}

fn validate_artist_v1(artist: &Typed<v1::Artist>, _: Option<&Typed<v1::Artist>>, diagnostics: &mut Diagnostics) {
    require_name(&artist.data.name, diagnostics);
}

fn validate_artist(artist: &Typed<v2::Artist>, _: Option<&Typed<v2::Artist>>, diagnostics: &mut Diagnostics) {
    require_name(&artist.data.name, diagnostics);
}

fn require_name(name: &str, diagnostics: &mut Diagnostics) {
    if name.is_empty() {
        diagnostics.error("artist.name required").at(field("name"));
    }
}

/// Warns of a likely typing error: no recordings exist from before 1857.
fn validate_album(album: &Typed<v2::Album>, _: Option<&Typed<v2::Album>>, diagnostics: &mut Diagnostics) {
    let year = album.data.year_of_release;
    if year != 0 && year < 1857 {
        diagnostics
            .warning(format!("album.year_of_release is {year}, before there were recordings"))
            .at(field("year_of_release"))
            .detail("Leave it out if the year is not known.");
    }
    if let Some(position) = album.data.tracks.iter().position(String::is_empty) {
        let position = u32::try_from(position).unwrap_or(u32::MAX);
        diagnostics.warning("album.tracks has a track without a title").at(field("tracks").index(position));
    }
}

#[cfg(test)]
mod tests;
