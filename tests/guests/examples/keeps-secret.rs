//! Declares its hooks pure, and is not: `mutate` keeps the text of each thing in a variable, and the text `tell` becomes
//! the text that was kept. It also refuses writes by its authorize hook if its instance has mutated more than one thing.
//!
//! Names: `boom-mutate` panics, `boom-answer` answers bytes that are not a resource. The text `grow` takes 2 MiB.

use std::cell::{Cell, RefCell};

use mortise_plugin::{
    Decision, Diagnostics, Plugin, ResourceType, Scope, Typed, pb::Resource, prost::Message as _, raw::Guest,
};
use mortise_test_guests::{DESCRIPTORS, Thing, boom};

thread_local! {
    static KEPT: RefCell<String> = const { RefCell::new(String::new()) };
    static MUTATED: Cell<u32> = const { Cell::new(0) };
}

static PLUGIN: Plugin = Plugin::new(
    "keeps-secret",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::<Thing>::new("keeps_secret", "v1", "Thing", Scope::Namespace)
        .mutate(mutate)
        .validate(|_, _, said| {
            said.warning(KEPT.with_borrow(|kept| format!("it keeps {kept:?}")));
        })
        .authorize_write(|_| match MUTATED.get() {
            0 | 1 => Decision::Allow,
            more => Decision::Deny(format!("the instance has mutated {more} things")),
        })],
)
.pure_hooks();

#[allow(clippy::panic, reason = "what this guest is for")]
fn mutate(thing: &mut Typed<Thing>) -> Result<(), Diagnostics> {
    MUTATED.set(MUTATED.get() + 1);
    if boom(thing.id(), "mutate") {
        panic!("the guest was asked to panic");
    }
    if thing.data.text == "grow" {
        std::hint::black_box(vec![1_u8; 2 << 20]);
    }
    if thing.data.text == "tell" {
        thing.data.text = KEPT.with_borrow(Clone::clone);
    } else {
        KEPT.replace(thing.data.text.clone());
    }
    Ok(())
}

/// The table, and an answer that it cannot give.
struct Raw;

impl Guest for Raw {
    fn describe() -> Vec<u8> {
        PLUGIN.describe()
    }

    fn mutate(input: Vec<u8>) -> Result<Option<Vec<u8>>, Diagnostics> {
        let answer = PLUGIN.mutate(&input);
        match Resource::decode(input.as_slice()) {
            Ok(resource) if resource.id.as_ref().is_some_and(|id| id.name == "boom-answer") => Ok(Some(vec![0xff; 32])),
            _ => answer,
        }
    }

    fn validate(input: Vec<u8>, prior: Option<Vec<u8>>) -> Diagnostics {
        PLUGIN.validate(&input, prior.as_deref())
    }

    fn write(input: Vec<u8>) -> Decision {
        PLUGIN.write(&input)
    }
}
mortise_plugin::export_raw!(Raw: mutating, validating, authorizing);
