//! The plugin `{{name}}`: the type `{{type}}`, its defaults and its rules.

use mortise_plugin::{Diagnostics, Plugin, ResourceType, Scope, Typed, field};

mortise_plugin::include_proto!(pub mod proto);
use proto::{{module}}::{{message}};

static PLUGIN: Plugin = Plugin::new(
    env!("CARGO_PKG_NAME"),
    env!("CARGO_PKG_VERSION"),
    proto::DESCRIPTORS,
    &[&ResourceType::<{{message}}>::new("{{group}}", "{{version}}", "{{kind}}", Scope::Namespace)
        .mutate(fill_in)
        .validate(judge)
        .columns(&[("TITLE", "data.title"), ("PRIORITY", "data.priority")])],
);
mortise_plugin::export!(PLUGIN: mutating, validating);

