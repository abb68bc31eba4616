//! A whole plugin: one type, a default, and two rules.

use mortise_plugin::{Diagnostics, Plugin, ResourceType, Scope, Typed, field};

mortise_plugin::include_proto!(pub mod proto);
use proto::jukebox::v1::Song;

static PLUGIN: Plugin = Plugin::new(
    "jukebox",
    env!("CARGO_PKG_VERSION"),
    proto::DESCRIPTORS,
    &[&ResourceType::<Song>::new("jukebox", "v1", "Song", Scope::Namespace)
        .mutate(default_beats)
        .validate(validate_song)
        .columns(&[("TITLE", "data.title"), ("BPM", "data.beats_per_minute")])],
);
mortise_plugin::export!(PLUGIN: mutating, validating);

/// Fills in absent fields. A second call with its own result changes nothing.
fn default_beats(song: &mut Typed<Song>) -> Result<(), Diagnostics> {
    if song.data.beats_per_minute == 0 {
        song.data.beats_per_minute = 120;
    }
    Ok(())
}

/// Checks the result of `default_beats`. The second argument is the stored resource.
fn validate_song(song: &Typed<Song>, _stored: Option<&Typed<Song>>, diagnostics: &mut Diagnostics) {
    if song.data.title.is_empty() {
        diagnostics.error("song.title required").at(field("title"));
    }
    if song.data.beats_per_minute > 300 {
        diagnostics.error("song.beats_per_minute must be at most 300").at(field("beats_per_minute"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mortise_plugin::pb::Id;

    #[test]
    fn beats_have_a_default() {
        let mut song = Typed::new(Id::default(), Song::default());
        assert!(default_beats(&mut song).is_ok());
        assert_eq!(song.data.beats_per_minute, 120);
    }
}
