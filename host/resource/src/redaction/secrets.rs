//! Values of redacted fields, and their removal from texts.

use std::{borrow::Cow, collections::BTreeSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost_reflect::{DynamicMessage, MapKey, MessageDescriptor, ReflectMessage as _, Value};

use super::{REDACTED, Redaction};

/// Fewest bytes of a value that is searched for: shorter ones would be found everywhere.
pub const SHORTEST: usize = 4;
/// Most values in the search.
pub const MOST_VALUES: usize = 1_024;
/// Most bytes of all values in the search.
pub const MOST_BYTES: usize = 64 << 10;

/// Deepest nesting of messages in the search, messages in an `Any` included.
const DEPTH: usize = 100;

/// Values that no text may contain.
#[derive(Debug, Default)]
pub struct Secrets {
    values: BTreeSet<String>,
    bytes: usize,
    /// Whether values are missing: they were too many, or data did not decode.
    more: bool,
}

impl Secrets {
    /// Adds the values of redacted fields in encoded data.
    pub fn note(&mut self, redaction: &Redaction, message: &MessageDescriptor, data: &[u8]) {
        match DynamicMessage::decode(message.clone(), data) {
            Ok(message) => self.message(redaction, &message, DEPTH),
            Err(_) => self.more = true,
        }
    }

    /// Whether texts need no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && !self.more
    }

    /// Replaces the values in a text.
    #[must_use]
    pub fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.more && !text.is_empty() {
            return Cow::Borrowed("(not shown, because it may hold redacted values)");
        }
        // All values are searched in the original text: one value may be a part of another, or of the replacement.
        let mut covered: Vec<bool> = Vec::new();
        for value in &self.values {
            for (start, found) in text.match_indices(value.as_str()) {
                covered.resize(text.len(), false);
                covered.iter_mut().skip(start).take(found.len()).for_each(|byte| *byte = true);
            }
        }
        if covered.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut hidden = String::with_capacity(text.len());
        let mut before = false;
        for (index, letter) in text.char_indices() {
            let covered = covered.get(index) == Some(&true);
            match (covered, before) {
                (false, _) => hidden.push(letter),
                (true, false) => hidden.push_str(REDACTED),
                (true, true) => {}
            }
            before = covered;
        }
        Cow::Owned(hidden)
    }

    fn message(&mut self, redaction: &Redaction, message: &DynamicMessage, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else {
            self.more = true;
            return;
        };
        if message.descriptor().full_name() == "google.protobuf.Any" {
            self.any(redaction, message, depth);
            return;
        }
        for (field, value) in message.fields() {
            match redaction.covers(&field) {
                true => self.value(value, None, depth),
                false => self.value(value, Some(redaction), depth),
            }
        }
    }

    fn any(&mut self, redaction: &Redaction, any: &DynamicMessage, depth: usize) {
        let part = |name| any.get_field_by_name(name);
        let (url, bytes) = (part("type_url"), part("value"));
        let url = url.as_ref().and_then(|url| url.as_str()).unwrap_or_default();
        let name = url.rsplit('/').next().unwrap_or_default();
        let Some(known) = any.descriptor().parent_pool().get_message_by_name(name) else { return };
        let bytes = bytes.as_ref().and_then(|bytes| bytes.as_bytes()).cloned().unwrap_or_default();
        match DynamicMessage::decode(known, bytes) {
            Ok(message) => self.message(redaction, &message, depth),
            Err(_) => self.more = true,
        }
    }

    /// Collects the redacted values within a value; without a redaction, the whole value.
    fn value(&mut self, value: &Value, within: Option<&Redaction>, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else {
            self.more = true;
            return;
        };
        match (value, within) {
            (Value::List(items), _) => items.iter().for_each(|item| self.value(item, within, depth)),
            (Value::Map(entries), _) => {
                for (key, value) in entries {
                    if let (MapKey::String(key), None) = (key, within) {
                        self.text(key);
                    }
                    self.value(value, within, depth);
                }
            }
            (Value::Message(message), Some(redaction)) => self.message(redaction, message, depth),
            (Value::Message(message), None) => {
                message.fields().for_each(|(_, value)| self.value(value, None, depth));
            }
            (_, Some(_)) | (Value::Bool(_) | Value::EnumNumber(_), None) => {}
            (Value::String(text), None) => self.text(text),
            (Value::Bytes(bytes), None) => {
                if let Ok(text) = std::str::from_utf8(bytes) {
                    self.text(text);
                }
                self.add(&STANDARD.encode(bytes));
                self.add(&bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
            }
            (Value::I32(number), None) => self.add(&number.to_string()),
            (Value::I64(number), None) => self.add(&number.to_string()),
            (Value::U32(number), None) => self.add(&number.to_string()),
            (Value::U64(number), None) => self.add(&number.to_string()),
            (Value::F32(number), None) => self.add(&number.to_string()),
            (Value::F64(number), None) => self.add(&number.to_string()),
        }
    }

    fn text(&mut self, text: &str) {
        self.add(text);
        if text.contains('\n') {
            text.lines().for_each(|line| self.add(line.trim()));
        }
    }

    fn add(&mut self, value: &str) {
        if value.len() < SHORTEST || self.more || self.values.contains(value) {
            return;
        }
        self.bytes += value.len();
        self.more = self.values.len() >= MOST_VALUES || self.bytes > MOST_BYTES;
        if !self.more {
            self.values.insert(value.to_owned());
        }
    }
}
