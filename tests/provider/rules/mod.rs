//! The provider for Terraform, driven by a core that checks core's rules, and by a real one where it is installed.

mod actions;
mod changed_by_others;
mod configuration;
mod deletion;
mod identity;
mod ignored_changes;
mod kinds;
mod labels;
mod listing;
mod process;
mod resources;
mod secrets;
mod set_by_server;
mod taken_names;
mod tokens;
mod unknown_values;
mod waiting;
mod write_only;

use std::path::PathBuf;

use mortise_provider::{proto::tfplugin6 as pb, value::Value};

use crate::{
    provider::terraform_core::{Core, path_of},
    support::{Server, Setup, gvk, tenancy},
};

pub const EVERYTHING: &str = "mortise_fields_everything";

fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn number(text: &str) -> Value {
    Value::Number(text.parse().unwrap())
}

/// The configuration with another value at an attribute.
fn with(mut config: Value, name: &str, value: Value) -> Value {
    let Value::Map(parts) = &mut config else { panic!("{config:?}") };
    assert!(parts.insert(name.into(), value).is_some(), "{name}");
    config
}

fn list(items: &[Value]) -> Value {
    Value::List(items.to_vec())
}

fn part(name: &str, weight: Value) -> Value {
    Value::object([("name", text(name)), ("weight", weight)])
}

/// A value of every kind, in spellings that differ from the server's where several exist.
pub fn everything() -> Vec<(&'static str, Value)> {
    vec![
        ("text", text("UPPER Lower")),
        ("yes", Value::Bool(false)),
        ("small", number("-2147483648")),
        ("large", number("-9223372036854775808")),
        ("positive", number("5.0")),
        ("huge", number("18446744073709551615")),
        ("zigzag", number("9223372036854775807")),
        ("fixed", number("9223372036854775808")),
        ("single", number("0.1")),
        ("double", number("1e300")),
        ("raw", text("AAECAw==")),
        ("mood", text("MOOD_GOOD")),
        ("maybe", text("")),
        ("number_or_none", number("0")),
        ("wrapped", text("")),
        ("wrapped_number", number("18446744073709551615")),
        ("part", part("P", Value::Null)),
        ("tags", list(&[text("b"), text("a"), text("b")])),
        ("moods", list(&[text("MOOD_BAD"), text("2"), text("MOOD_UNSPECIFIED")])),
        ("parts", list(&[part("one", number("7")), part("two", Value::Null)])),
        ("labels", Value::object([("b", text("")), ("a", text("x"))])),
        ("by_name", Value::object([("k", part("x", Value::Null))])),
        ("by_number", Value::object([("-1", text("minus")), ("2", text("two"))])),
        ("by_bool", Value::object([("true", number("1"))])),
        ("other", part("chosen", Value::Null)),
        ("at", text("2026-01-02T04:04:05+01:00")),
        ("took", text("1m30s")),
        ("mask", list(&[text("some_path"), text("data.other_path")])),
        ("nothing", Value::object([])),
        ("object", text(r#"{ "b": [1, null], "a": {"x": "y"} }"#)),
        ("value", text("[1.50, true]")),
        ("list", text("[ ]")),
        ("tree", Value::object([("leaf", text("l")), ("children", list(&[text(r#"{"leaf":"m","children":[{}]}"#)]))])),
        ("secret", text("hunter2")),
        ("old", text("o")),
        ("camel_case", text("c")),
    ]
}

/// A server with a type that has every kind of field, and a core attached to it.
async fn attached() -> (Server, Core) {
    let server = Setup::new().guest("every-field").start().await;
    let core = Core::attach(&socket(&server)).await;
    (server, core)
}

pub fn socket(server: &Server) -> PathBuf {
    server.data_dir.join("provider.sock")
}

fn summaries(faults: &[pb::Diagnostic]) -> String {
    faults.iter().map(|one| format!("{}|{}|{}\n", path_of(one), one.summary, one.detail)).collect()
}

pub fn id_of(name: &str) -> mortise_resource::pb::Id {
    mortise_resource::pb::Id {
        name: name.into(),
        uid: String::new(),
        r#type: Some(gvk("fields.v1.Everything")),
        tenancy: Some(tenancy("default", "default")),
    }
}

pub const REQUIRED: &str = r#"terraform {
  required_providers {
    mortise = { source = "mortise.local/mortise/mortise" }
  }
}
"#;
