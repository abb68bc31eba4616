//! Resume tokens: a position in a history, and a digest of the watched query.
//!
//! A text that is not a token is an error. A token of another query is not: a client may keep its token while the query
//! or the server changes, and then has to start again. Tokens are neither secret nor proof.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::{Binding, QueryError};

/// The first byte of a token.
const TOKEN_LAYOUT: u8 = 1;

/// The position after which a watch continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumeToken {
    /// Sequence number of the last change that the watch sent.
    pub sequence: u64,
    /// Checksum that recognizes this change.
    pub check: u32,
}

impl ResumeToken {
    /// Writes the token for a query.
    #[must_use]
    pub fn encode(self, binding: &Binding) -> String {
        let mut bytes = vec![TOKEN_LAYOUT];
        bytes.extend_from_slice(&self.sequence.to_be_bytes());
        bytes.extend_from_slice(&self.check.to_be_bytes());
        bytes.extend_from_slice(binding.digest());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a token; `None` for one of another query.
    ///
    /// # Errors
    /// The text is not a token.
    pub fn decode(text: &str, binding: &Binding) -> Result<Option<Self>, QueryError> {
        let invalid = || {
            QueryError::Resume(
                "it is not a resume token; use the last one from a watch of the same query, or none".into(),
            )
        };
        // The first tokens used base64's standard alphabet.
        let text = text.trim_end_matches('=').replace('+', "-").replace('/', "_");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
        let (&layout, rest) = bytes.split_first().ok_or_else(invalid)?;
        let (sequence, rest) = rest.split_first_chunk().ok_or_else(invalid)?;
        let (check, digest) = rest.split_first_chunk().ok_or_else(invalid)?;
        if layout != TOKEN_LAYOUT || digest.len() != binding.digest().len() {
            return Err(invalid());
        }
        let token = Self { sequence: u64::from_be_bytes(*sequence), check: u32::from_be_bytes(*check) };
        Ok((digest == binding.digest()).then_some(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_for_its_query_only() {
        let (own, other) = (Binding::new(&[b"a"]), Binding::new(&[b"b"]));
        let token = ResumeToken { sequence: u64::MAX - 7, check: 0x1234_5678 };
        let text = token.encode(&own);
        assert_eq!(ResumeToken::decode(&text, &own), Ok(Some(token)));
        assert_eq!(ResumeToken::decode(&text, &other), Ok(None));
        for broken in ["x", "AQ==", "?", "", &text[4..], &text[..text.len() - 4], &format!("{}AAAA", &text[..36])] {
            let error = ResumeToken::decode(broken, &own).unwrap_err();
            assert!(error.to_string().starts_with("resume_token: "), "{broken}: {error:?}");
        }
    }
}
