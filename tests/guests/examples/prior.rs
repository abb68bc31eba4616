//! Validates against the stored resource: the number is a year, and must not decrease. A warning has the stored year.

use mortise_plugin::{Plugin, ResourceType, Scope, field};
use mortise_test_guests::{DESCRIPTORS, Thing};

static PLUGIN: Plugin = Plugin::new(
    "prior",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::<Thing>::new("prior", "v1", "Thing", Scope::Namespace).validate(|thing, prior, diagnostics| {
        let year = thing.data.number;
        match prior.map(|prior| prior.data.number) {
            Some(before) if year < before => {
                diagnostics.error(format!("the year goes back from {before} to {year}")).at(field("number"));
            }
            Some(before) => {
                diagnostics.warning(format!("the year was {before}"));
            }
            None => {
                diagnostics.warning("there was no year");
            }
        }
    })],
);
mortise_plugin::export!(PLUGIN: validating);
