//! A type with a field of every kind. Its plugin normalizes data: texts in lower case, tags sorted and without
//! repetitions, secrets without spaces around them, and default values. It refuses the label `hold`, and an empty text
//! beside the label `named`. It warns if `positive` exceeds 1,000.

use mortise_plugin::{Diagnostics, Kind, Plugin, ResourceType, Scope, Typed, field};
use mortise_test_guests::{DESCRIPTORS, Everything};

const EVERYTHING: Kind<Everything> = Kind::new("fields", "v1", "Everything");

static PLUGIN: Plugin = Plugin::new(
    "every-field",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::of(EVERYTHING, Scope::Namespace).immutable(&["fixed_name"]).mutate(mutate).validate(validate)],
);
mortise_plugin::export!(PLUGIN: mutating, validating);

fn mutate(of: &mut Typed<Everything>) -> Result<(), Diagnostics> {
    let data = &mut of.data;
    data.text = data.text.to_lowercase();
    data.secret = data.secret.trim().to_owned();
    data.tags.sort();
    data.tags.dedup();
    if data.port == 0 {
        data.port = 80;
    }
    for part in data.part.iter_mut().chain(&mut data.parts).chain(data.by_name.values_mut()) {
        part.weight = part.weight.max(1);
    }
    Ok(())
}

fn validate(of: &Typed<Everything>, _: Option<&Typed<Everything>>, diagnostics: &mut Diagnostics) {
    if of.data.labels.contains_key("hold") {
        diagnostics.error("it is on hold").at(field("labels").key("hold"));
    }
    if of.data.labels.contains_key("named") && of.data.text.is_empty() {
        diagnostics.error("it needs a text").at(field("text"));
    }
    if of.data.positive > 1_000 {
        diagnostics.warning("that is a lot").at(field("positive"));
    }
}
