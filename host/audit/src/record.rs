//! One line.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// Longest field, bytes; a longer one is cut.
pub const MAX_FIELD: usize = 512;

/// How a request was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It was done.
    Allow,
    /// The caller may not do it, or is not known.
    Deny,
}

/// What was asked, by which caller, and what came of it. Empty fields are left out of the line.
#[derive(Debug, Default, Serialize)]
pub struct Record<'a> {
    /// Tells requests apart; the client's own number if it sent one.
    #[serde(skip_serializing_if = "str::is_empty", serialize_with = "cut")]
    pub request: &'a str,
    /// The way it came: `grpc`, `http`, `dns`, `controller`.
    #[serde(skip_serializing_if = "str::is_empty", serialize_with = "cut")]
    pub surface: &'a str,
    /// The address of the client, or its user on this machine.
    #[serde(skip_serializing_if = "str::is_empty", serialize_with = "cut")]
    pub peer: &'a str,
    /// The caller, as refusals name it.
    #[serde(skip_serializing_if = "str::is_empty", serialize_with = "cut")]
    pub caller: &'a str,
    /// The token's accessor id.
    #[serde(skip_serializing_if = "str::is_empty", serialize_with = "cut")]
    pub accessor: &'a str,
    /// The method, such as `Write`, or `mortise.v1.PluginService/Install`.
    #[serde(skip_serializing_if = "str::is_empty", serialize_with = "cut")]
    pub method: &'a str,
    /// The type, `group.version.kind`.
    #[serde(rename = "type", skip_serializing_if = "str::is_empty", serialize_with = "cut")]
    pub kind: &'a str,
    /// The place, as it was asked for.
    #[serde(skip_serializing_if = "str::is_empty", serialize_with = "cut")]
    pub partition: &'a str,
    /// The place, as it was asked for.
    #[serde(skip_serializing_if = "str::is_empty", serialize_with = "cut")]
    pub namespace: &'a str,
    /// The name.
    #[serde(skip_serializing_if = "str::is_empty", serialize_with = "cut")]
    pub name: &'a str,
    /// What the names of a list begin with.
    #[serde(skip_serializing_if = "str::is_empty", serialize_with = "cut")]
    pub name_prefix: &'a str,
    /// The incarnation that was named.
    #[serde(skip_serializing_if = "str::is_empty", serialize_with = "cut")]
    pub uid: &'a str,
    /// How it was judged; absent for what failed for another reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The code of the answer, as gRPC names it.
    #[serde(skip_serializing_if = "str::is_empty", serialize_with = "cut")]
    pub code: &'a str,
    /// The generation before a change.
    #[serde(skip_serializing_if = "str::is_empty", serialize_with = "cut")]
    pub old_generation: &'a str,
    /// The generation after a change.
    #[serde(skip_serializing_if = "str::is_empty", serialize_with = "cut")]
    pub new_generation: &'a str,
}

/// With the time, which comes first.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(serialize_with = "text")]
    time: Timestamp,
    #[serde(flatten)]
    record: &'a Record<'a>,
}

impl Record<'_> {
    /// The line, with its line feed.
    pub(crate) fn line(&self) -> String {
        // Strings and numbers have no way to fail.
        let mut line = serde_json::to_string(&Line { time: Timestamp::now(), record: self }).unwrap_or_default();
        line.push('\n');
        line
    }
}

/// The line that says how many records were dropped.
pub(crate) fn dropped(count: u64) -> String {
    let mut line = String::new();
    // A string takes everything.
    let _ = writeln!(line, "{{\"time\":\"{}\",\"dropped\":{count}}}", Timestamp::now());
    line
}

fn text<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

/// A field, or as much of it as [`MAX_FIELD`] allows.
fn cut<S: Serializer>(field: &&str, serializer: S) -> Result<S::Ok, S::Error> {
    match field.len() <= MAX_FIELD {
        true => serializer.serialize_str(field),
        false => {
            let end = (0..=MAX_FIELD).rev().find(|i| field.is_char_boundary(*i)).unwrap_or(0);
            serializer.serialize_str(&format!("{}…", field.get(..end).unwrap_or_default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_object_whatever_the_names_are() {
        let long = "é".repeat(MAX_FIELD);
        let record =
            Record { name: "a\n{\"b\": \u{7f}", uid: &long, decision: Some(Decision::Deny), ..Record::default() };
        let line = record.line();
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.starts_with("{\"time\":\""), "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["name"], record.name);
        assert_eq!(read["decision"], "deny");
        assert!(read.get("code").is_none() && read["uid"].as_str().unwrap().len() <= MAX_FIELD + 3);
        let dropped: serde_json::Value = serde_json::from_str(&dropped(7)).unwrap();
        assert_eq!(dropped["dropped"], 7);
    }
}
