//! Shows its settings: `mutate` puts them into the text. Its check refuses the word `bad`, warns of `odd`, never ends
//! at `spin`, and panics when its argument differs from `config`. `describe` panics when it receives settings.

use mortise_plugin::{Diagnostics, Plugin, ResourceType, Scope, setting};
use mortise_test_guests::{DESCRIPTORS, Thing};

static PLUGIN: Plugin = Plugin::new(
    "settings",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::<Thing>::new("settings", "v1", "Thing", Scope::Namespace).mutate(|thing| {
        thing.data.text = mortise_plugin::settings();
        Ok(())
    })],
)
.check_settings(check);

fn check(settings: &str, diagnostics: &mut Diagnostics) {
    assert_eq!(settings, mortise_plugin::settings(), "the check is told what hooks are told");
    if settings.contains("bad") {
        diagnostics.error("is bad").at(setting("colour")).detail("Try another.");
        diagnostics.error("are bad as a whole");
    }
    if settings.contains("odd") {
        diagnostics.warning("is odd").at(setting("colour"));
    }
    while settings.contains("spin") {
        std::hint::black_box(settings);
    }
}

/// The table, and a `describe` that reads settings, which it must not have.
struct Raw;

impl mortise_plugin::raw::Guest for Raw {
    fn describe() -> Vec<u8> {
        assert_eq!(mortise_plugin::settings(), "{}", "describe has no settings");
        PLUGIN.describe()
    }

    fn mutate(input: Vec<u8>) -> Result<Option<Vec<u8>>, Diagnostics> {
        PLUGIN.mutate(&input)
    }

    fn check(settings: String) -> Diagnostics {
        PLUGIN.check(&settings)
    }
}
mortise_plugin::export_raw!(Raw: mutating, configuring);
