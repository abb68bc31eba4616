//! The armor: base64 in lines of 64 columns between two marks, surrounded by white space only.

use std::borrow::Cow;

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::AgeError;

pub(crate) const BEGIN: &str = "-----BEGIN AGE ENCRYPTED FILE-----";
const END: &str = "-----END AGE ENCRYPTED FILE-----";

/// Columns of a full line.
pub(crate) const COLUMNS: usize = 64;

/// Removes the armor, if there is one.
pub(crate) fn unwrap(content: &[u8]) -> Result<Cow<'_, [u8]>, AgeError> {
    let trimmed = content.trim_ascii();
    if !trimmed.starts_with(BEGIN.as_bytes()) {
        return Ok(Cow::Borrowed(content));
    }
    let text = std::str::from_utf8(trimmed).map_err(|_| AgeError::Malformed("its armor is not text"))?;
    let mut lines = text.lines();
    if lines.next() != Some(BEGIN) || lines.next_back() != Some(END) {
        return Err(AgeError::Malformed("its armor does not end"));
    }
    let mut base64 = String::with_capacity(text.len());
    let mut ended = false;
    for line in lines {
        if ended || line.is_empty() || line.len() > COLUMNS {
            return Err(AgeError::Malformed("its armor has a line that is too long or too short"));
        }
        ended = line.len() < COLUMNS;
        base64.push_str(line);
    }
    BASE64_STANDARD.decode(base64).map(Cow::Owned).map_err(|_| AgeError::Malformed("its armor is not base64"))
}
