//! Lines of the audit log.

use std::{borrow::Cow, fmt::Write as _};

use jiff::Timestamp;
use serde::{Serialize, Serializer, ser::SerializeMap as _};

/// Longest field, bytes; a longer one is cut, and ends with `…`.
pub const MAX_FIELD_BYTES: usize = 512;

/// Outcome of the permission check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// The caller was allowed, and the request was carried out.
    Allow,
    /// The caller lacks a permission, or is unknown.
    Deny,
}

/// A request, its caller and its outcome. The line omits empty fields.
#[derive(Debug, Default)]
pub struct Record<'a> {
    /// Identifier of the request; the client's own number if it sent one.
    pub request: &'a str,
    /// Surface of the request: `grpc`, `http`, `dns`, `controller`, `region`.
    pub surface: &'a str,
    /// Address of the client, or its user on this machine.
    pub peer: &'a str,
    /// Caller, as refusals name it.
    pub caller: &'a str,
    /// Accessor id of the token.
    pub accessor: &'a str,
    /// Method, such as `Write`, or `mortise.v1.PluginService/Install`.
    pub method: &'a str,
    /// Type, `group.version.kind`.
    pub kind: &'a str,
    /// Partition, as requested.
    pub partition: &'a str,
    /// Namespace, as requested.
    pub namespace: &'a str,
    /// Name, as requested.
    pub name: &'a str,
    /// Prefix of the names in a list request.
    pub name_prefix: &'a str,
    /// Requested incarnation.
    pub uid: &'a str,
    /// Outcome of the permission check; `None` if the request failed for another reason.
    pub decision: Option<Decision>,
    /// Code of the answer, by gRPC's name.
    pub code: &'a str,
    /// Generation before a change.
    pub old_generation: &'a str,
    /// Generation after a change.
    pub new_generation: &'a str,
    /// Serial number of an issued certificate.
    pub serial: &'a str,
}

/// A record with its time, which comes first.
struct Line<'a> {
    time: Timestamp,
    record: &'a Record<'a>,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Record { decision, code, .. } = self.record;
        let before = [
            ("request", self.record.request),
            ("surface", self.record.surface),
            ("peer", self.record.peer),
            ("caller", self.record.caller),
            ("accessor", self.record.accessor),
            ("method", self.record.method),
            ("type", self.record.kind),
            ("partition", self.record.partition),
            ("namespace", self.record.namespace),
            ("name", self.record.name),
            ("name_prefix", self.record.name_prefix),
            ("uid", self.record.uid),
        ];
        let after = [
            ("code", *code),
            ("old_generation", self.record.old_generation),
            ("new_generation", self.record.new_generation),
            ("serial", self.record.serial),
        ];
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("time", &self.time.to_string())?;
        for (name, field) in before.into_iter().filter(|(_, field)| !field.is_empty()) {
            map.serialize_entry(name, &*cut(field))?;
        }
        if let Some(decision) = decision {
            map.serialize_entry("decision", decision)?;
        }
        for (name, field) in after.into_iter().filter(|(_, field)| !field.is_empty()) {
            map.serialize_entry(name, &*cut(field))?;
        }
        map.end()
    }
}

impl Record<'_> {
    /// Returns the line, with its line feed.
    pub(crate) fn line(&self) -> String {
        // Serializing strings and numbers cannot fail.
        let mut line = serde_json::to_string(&Line { time: Timestamp::now(), record: self }).unwrap_or_default();
        line.push('\n');
        line
    }
}

/// Returns the line that reports dropped records.
pub(crate) fn dropped(count: u64) -> String {
    let mut line = String::new();
    // Writing into a string cannot fail.
    let _ = writeln!(line, "{{\"time\":\"{}\",\"dropped\":{count}}}", Timestamp::now());
    line
}

/// Cuts a field to [`MAX_FIELD_BYTES`] bytes, and marks the cut by `…`.
fn cut(field: &str) -> Cow<'_, str> {
    if field.len() <= MAX_FIELD_BYTES {
        return field.into();
    }
    let end = (0..=MAX_FIELD_BYTES).rev().find(|i| field.is_char_boundary(*i)).unwrap_or(0);
    format!("{}…", field.get(..end).unwrap_or_default()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_object_whatever_the_names_are() {
        let long = "é".repeat(MAX_FIELD_BYTES);
        let record =
            Record { name: "a\n{\"b\": \u{7f}", uid: &long, decision: Some(Decision::Deny), ..Record::default() };
        let line = record.line();
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.starts_with("{\"time\":\""), "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["name"], record.name);
        assert_eq!(read["decision"], "deny");
        assert!(read.get("code").is_none() && read["uid"].as_str().unwrap().len() <= MAX_FIELD_BYTES + 3);
        let dropped: serde_json::Value = serde_json::from_str(&dropped(7)).unwrap();
        assert_eq!(dropped["dropped"], 7);
    }
}
