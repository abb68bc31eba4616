//! The plugin `{{name}}`: the type `{{type}}`, its defaults, its rules and its reconciler.

mod controller;

use mortise_plugin::{Diagnostics, Kind, Plugin, ResourceType, Scope, Typed, field};

mortise_plugin::include_proto!(pub mod proto);
use proto::{{module}}::{{message}};

/// The type that this plugin brings.
pub const KIND: Kind<{{message}}> = Kind::new("{{group}}", "{{version}}", "{{kind}}");

static PLUGIN: Plugin = Plugin::new(
    env!("CARGO_PKG_NAME"),
    env!("CARGO_PKG_VERSION"),
    proto::DESCRIPTORS,
    &[&ResourceType::of(KIND, Scope::Namespace)
        .mutate(fill_in)
        .validate(judge)
        .columns(&[("TITLE", "data.title"), ("PRIORITY", "data.priority")])],
)
.controllers(&[&controller::CONTROLLER]);
mortise_plugin::export!(PLUGIN: mutating, validating, controlling);

