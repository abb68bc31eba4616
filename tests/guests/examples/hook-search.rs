//! Its hooks search stored resources.
//!
//! `mutate` sets the `number` of a thing without one to the count of things of its namespace with the same text.
//! `validate` refuses a text that another thing of the namespace has. A thing's items request more: `count F` sets
//! `number` to the count of things everywhere that match the filter F, `ask F` refuses with the answer to the filter F,
//! `foreign` with the count of artists of the plugin `demo`, `authorize` searches from an authorize hook, and refuses
//! with the answer.
//!
//! The type has an index of `data.text`, and a read rule that needs the content.

use mortise_plugin::{Decision, Diagnostics, Failure, Kind, Plugin, ResourceType, Scope, Typed, everywhere, pb, query};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("hook_search", "v1", "Thing");
/// A type of another plugin.
const FOREIGN: Kind<Thing> = Kind::new("demo", "v2", "Artist");

static PLUGIN: Plugin = Plugin::new(
    "hook-search",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::of(THING, Scope::Namespace)
        .mutate(number)
        .validate(unique)
        .authorize_read(|_, thing| match thing {
            None => Decision::NeedResource,
            Some(thing) if thing.data.text == "secret" => Decision::Deny("it is secret".to_owned()),
            Some(_) => Decision::Allow,
        })
        .authorize_write(asks)
        .indexed_fields(&["data.text"])],
);
mortise_plugin::export!(PLUGIN: mutating, validating, authorizing);

fn of_text(thing: &Typed<Thing>) -> Result<Vec<Typed<Thing>>, Failure> {
    let here = thing.id().tenancy.clone().unwrap_or_default();
    query(THING, &here).filter(&format!("data.text = {:?}", thing.data.text)).page_size(10).all()
}

/// The rest of an item after a word.
fn item<'t>(thing: &'t Typed<Thing>, word: &str) -> Option<&'t str> {
    thing.data.items.iter().find_map(|item| item.strip_prefix(word)?.strip_prefix(' '))
}

fn number(thing: &mut Typed<Thing>) -> Result<(), Diagnostics> {
    if let Some(filter) = item(thing, "count") {
        let found = query(THING, &everywhere()).filter(filter).page_size(1_000).all()?;
        thing.data.number = i64::try_from(found.len()).unwrap_or(i64::MAX);
    } else if thing.data.number == 0 {
        thing.data.number = i64::try_from(of_text(thing)?.len()).unwrap_or(i64::MAX);
    }
    Ok(())
}

fn unique(thing: &Typed<Thing>, _: Option<&Typed<Thing>>, said: &mut Diagnostics) {
    let names = |found: Vec<Typed<Thing>>| found.iter().map(|one| one.name().to_owned()).collect::<Vec<_>>();
    match of_text(thing) {
        Ok(found) => {
            if let Some(other) = found.iter().find(|other| other.name() != thing.name()) {
                said.error(format!("text {:?} is that of {}", thing.data.text, other.name()));
            }
        }
        Err(failure) => drop(said.error(failure.message)),
    }
    if let Some(filter) = item(thing, "ask") {
        said.error(match query(THING, &everywhere()).filter(filter).page().map(|page| names(page.items)) {
            Ok(names) => format!("found {}", names.join(",")),
            Err(failure) => format!("code {}: {}", failure.code, failure.message),
        });
    }
    if thing.data.items == ["foreign"] {
        let artists = pb::Tenancy { partition: "default".to_owned(), namespace: "default".to_owned() };
        said.error(match query(FOREIGN, &artists).page() {
            Ok(page) => format!("found {}", page.items.len()),
            // Its data is not a thing.
            Err(failure) => format!("code {}: {}", failure.code, failure.message),
        });
    }
}

fn asks(thing: &Typed<Thing>) -> Decision {
    if thing.data.items != ["authorize"] {
        return Decision::Allow;
    }
    match of_text(thing) {
        Ok(found) => Decision::Deny(format!("found {}", found.len())),
        Err(failure) => Decision::Deny(format!("code {}: {}", failure.code, failure.message)),
    }
}
