//! The table of attribute kinds in docs/terraform.md, made by driving each kind.

use std::{fmt::Write as _, path::Path};

use mortise_provider::value::{Type, Value};

use super::{EVERYTHING, attached, everything};
use crate::provider::terraform_core::{Core, check_applied};

const KINDS: [(&str, &[&str]); 14] = [
    ("string", &["text", "maybe", "wrapped", "camel_case", "old"]),
    ("bool", &["yes"]),
    ("integer", &["small", "large", "positive", "huge", "zigzag", "fixed", "number_or_none", "wrapped_number"]),
    ("floating-point number", &["single", "double"]),
    ("bytes", &["raw"]),
    ("enum", &["mood"]),
    ("message", &["part", "nothing"]),
    ("list", &["tags", "moods", "parts"]),
    ("map", &["labels", "by_name", "by_number", "by_bool"]),
    ("member of a oneof", &["other"]),
    ("Timestamp, Duration", &["at", "took"]),
    ("FieldMask", &["mask"]),
    ("JSON", &["object", "value", "list", "tree"]),
    ("secret", &["secret"]),
];

/// The value of a field that is only written gets to the server, and into no state; `None` for a field without such.
async fn writes_only(core: &mut Core, other: &mut Core, name: &str, field: &str, value: &Value) -> Option<bool> {
    let (write_only, version) = (format!("{field}_wo"), format!("{field}_wo_version"));
    let Type::Object(parts) = core.type_of(EVERYTHING) else { panic!("no object") };
    if !matches!(&parts["data"], Type::Object(fields) if fields.contains_key(&write_only)) {
        return None;
    }
    let data = [(write_only.as_str(), value.clone()), (version.as_str(), Value::String("1".into()))];
    let config = core.config(EVERYTHING, name, &data);
    let Ok(made) = core.make(EVERYTHING, None, &config).await else { return Some(false) };
    let theirs = other.import(EVERYTHING, name).await.unwrap();
    Some(made.state.get("data").get(field).is_null() && theirs.state.get("data").get(field) == value)
}

/// Tries a field in a create, a clean plan, a drift, an unknown value and an import.
async fn results(core: &mut Core, other: &mut Core, name: &str, field: &str, value: &Value) -> [bool; 5] {
    let with = core.config(EVERYTHING, name, &[(field, value.clone())]);
    let without = core.config(EVERYTHING, name, &[]);
    let unknown = core.config(EVERYTHING, name, &[(field, Value::unknown())]);
    // Creates, and finds nothing to do afterwards.
    let Ok(made) = core.make(EVERYTHING, None, &with).await else { return [false; 5] };
    let clean = core.plan(EVERYTHING, Some(&made), &with).await.is_ok_and(|plan| plan.is_no_op(&made.state));
    // Another client sets the value where this configuration has none.
    let empty = core.make(EVERYTHING, Some(&made), &without).await.unwrap();
    let theirs = other.import(EVERYTHING, name).await.unwrap();
    other.make(EVERYTHING, Some(&theirs), &with).await.unwrap();
    let seen = core.refresh(&empty).await.unwrap().unwrap();
    let drift = seen.state.get("data").get(field) != empty.state.get("data").get(field);
    let undone = core.make(EVERYTHING, Some(&seen), &without).await.unwrap();
    // The value becomes known with the apply.
    let planned = core.plan(EVERYTHING, Some(&undone), &unknown).await.unwrap();
    let known = core.plan(EVERYTHING, Some(&undone), &with).await.unwrap();
    check_applied(&planned.state, &known.state);
    let later = core.apply(EVERYTHING, Some(&undone), &with, &known).await;
    let is_unknown = planned.replace.is_empty() && planned.state.get("data").get(field) == &Value::unknown();
    let imported = core.import(EVERYTHING, name).await.unwrap();
    let settled = core.make(EVERYTHING, Some(&imported), &with).await;
    [true, clean, drift, is_unknown && later.is_ok(), settled.is_ok()]
}

#[tokio::test]
async fn each_kind_of_attribute_lives_through_each_change() {
    let (server, mut core) = attached().await;
    let mut other = Core::attach(&super::socket(&server)).await;
    core.configure(&[]).await.unwrap();
    other.configure(&[]).await.unwrap();
    let values = everything();
    let named: usize = KINDS.iter().map(|(_, fields)| fields.len()).sum();
    assert_eq!(named, values.len(), "each field has a kind");
    let mut table = String::from(
        "| kind | create | clean plan | drift | unknown | import | write-only |\n|---|---|---|---|---|---|---|\n",
    );
    for (kind, fields) in KINDS {
        let (mut works, mut writes) = ([true; 5], None);
        for field in fields {
            let (_, value) = values.iter().find(|(known, _)| known == field).unwrap();
            // The message cannot tell false from an absent value.
            let value = if *field == "yes" { &Value::Bool(true) } else { value };
            let name = format!("k-{}", field.replace('_', "-"));
            let found = results(&mut core, &mut other, &name, field, value).await;
            works.iter_mut().zip(found).for_each(|(all, one)| *all &= one);
            writes = writes_only(&mut core, &mut other, &format!("{name}-wo"), field, value).await.or(writes);
        }
        let cell = |works: bool| if works { "yes" } else { "no" };
        let cells = works.map(cell).join(" | ");
        writeln!(table, "| {kind} | {cells} | {} |", writes.map_or("–", cell)).unwrap();
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/terraform.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let begin = text.find("| kind | create |").expect("the table");
    let end = text[begin..].find("\n\n").map_or(text.len(), |end| begin + end + 1);
    if std::env::var_os("MORTISE_UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, format!("{}{table}{}", &text[..begin], &text[end..])).unwrap();
        return;
    }
    assert_eq!(&text[begin..end], table, "MORTISE_UPDATE_GOLDEN=1 writes the table");
}
