//! The text of an answer, written entry by entry.
//!
//! # Limits
//! A text has at most [`MAX_ANSWER_BYTES`]. An entry is made, written and dropped before the next one is made, and none
//! is made that needs more than [`MAX_ENTRY_BYTES`]: the tags of an instance are in each of its checks, so a few large
//! instances would come to many times of what was read.

use std::collections::BTreeMap;

use mortise_resource::{Code, Error};
use serde_json::Value;

/// Largest answer, bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Largest entry in memory, bytes.
const MAX_ENTRY_BYTES: usize = 64 << 20;

/// The text of an answer.
#[derive(Debug, Default)]
pub(super) struct Text(Vec<u8>);

impl Text {
    /// Writes a list of those entries that pass. Each has the bytes that it needs in memory.
    ///
    /// # Errors
    /// `ResourceExhausted`: the text or an entry is too large.
    pub(super) fn list<M: FnOnce() -> Value>(
        &mut self,
        entries: impl Iterator<Item = (usize, M)>,
        passes: impl Fn(&Value) -> bool,
    ) -> Result<(), Error> {
        self.raw("[")?;
        let mut is_first = true;
        for (bytes, make) in entries {
            let entry = made(bytes, make)?;
            if passes(&entry) {
                self.raw(if is_first { "" } else { "," })?;
                self.whole(&entry)?;
                is_first = false;
            }
        }
        self.raw("]")
    }

    /// Writes an object of those entries that pass.
    ///
    /// # Errors
    /// Those of [`Text::list`].
    pub(super) fn map<M: FnOnce() -> Value>(
        &mut self,
        entries: BTreeMap<String, (usize, M)>,
        passes: impl Fn(&Value) -> bool,
    ) -> Result<(), Error> {
        self.raw("{")?;
        let mut is_first = true;
        for (name, (bytes, make)) in entries {
            let entry = made(bytes, make)?;
            if passes(&entry) {
                self.raw(if is_first { "" } else { "," })?;
                self.whole(&Value::String(name))?;
                self.raw(":")?;
                self.whole(&entry)?;
                is_first = false;
            }
        }
        self.raw("}")
    }

    /// Writes a value.
    ///
    /// # Errors
    /// `ResourceExhausted`: the text is too large.
    pub(super) fn whole(&mut self, value: &Value) -> Result<(), Error> {
        serde_json::to_writer(&mut self.0, value)
            .map_err(|fault| Error::internal(format!("printing an answer: {fault}")))?;
        self.check()
    }

    /// Writes a piece of JSON.
    ///
    /// # Errors
    /// `ResourceExhausted`: the text is too large.
    pub(super) fn raw(&mut self, json: &str) -> Result<(), Error> {
        self.0.extend_from_slice(json.as_bytes());
        self.check()
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn check(&self) -> Result<(), Error> {
        match self.0.len() > MAX_ANSWER_BYTES {
            false => Ok(()),
            true => Err(Error::new(
                Code::ResourceExhausted,
                format!(
                    "the answer has more than {MAX_ANSWER_BYTES} bytes (a fixed limit); choose instances by passing, \
                     tag or filter"
                ),
            )),
        }
    }
}

fn made(bytes: usize, make: impl FnOnce() -> Value) -> Result<Value, Error> {
    match bytes > MAX_ENTRY_BYTES {
        false => Ok(make()),
        true => Err(Error::new(
            Code::ResourceExhausted,
            format!("an entry needs more than {MAX_ENTRY_BYTES} bytes (a fixed limit); give the instance fewer tags"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_objects_are_json_of_what_passes() {
        let mut text = Text::default();
        let entry = |number: i64| (1, move || json!({ "n": number }));
        let is_odd = |entry: &Value| entry["n"].as_i64().is_some_and(|number| number % 2 == 1);
        text.raw("{\"list\":").unwrap();
        text.list((0..6).map(entry), is_odd).unwrap();
        text.raw(",\"none\":").unwrap();
        text.list((0..1).map(entry), is_odd).unwrap();
        text.raw(",\"map\":").unwrap();
        text.map((0..4).map(|number| (format!("\"{number}"), entry(number))).collect(), is_odd).unwrap();
        text.raw("}").unwrap();
        let read: Value = serde_json::from_slice(&text.into_bytes()).unwrap();
        let expected = json!({
            "list": [{ "n": 1 }, { "n": 3 }, { "n": 5 }],
            "none": [],
            "map": { "\"1": { "n": 1 }, "\"3": { "n": 3 } },
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn the_first_byte_too_many_ends_the_text_and_large_entries_are_not_made() {
        let mut made = 0;
        let big = Value::String("x".repeat(1 << 20));
        let entries = (0..100).map(|_| (1, || big.clone()));
        let ended = Text::default().list(entries.inspect(|_| made += 1), |_| true);
        assert_eq!(ended.unwrap_err().code, Code::ResourceExhausted);
        assert_eq!(made, 16, "the sixteenth is over the limit, with its quotes");
        let large = [(MAX_ENTRY_BYTES + 1, || -> Value { unreachable!("it is too large") })];
        let refused = Text::default().list(large.into_iter(), |_| true).unwrap_err();
        assert!(refused.to_string().contains("fewer tags"), "{refused}");
    }
}
