//! Verifies signatures.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use minisign_verify::{Error, Signature};

use super::key::{self, PublicKey};

/// Most characters of a shown trusted comment.
const SHOWN: usize = 200;

/// The signer of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Id of the key.
    pub key: String,
    /// The trusted comment, without control characters and cut at 200 characters.
    pub comment: String,
}

/// The reason why a signature proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The text is not in minisign's form.
    #[error(
        "the signature is not in minisign's format: {0}; make it again with `minisign -S` or `mortise plugin sign`"
    )]
    Malformed(&'static str),
    /// The signature is by a key that was not given.
    #[error("the signature is by the key {key}, which is not trusted")]
    UnknownKey {
        /// The id in the signature.
        key: String,
    },
    /// The content, or the trusted comment, is not the signed one.
    #[error("the signature by the key {key} does not match the content, or was changed")]
    Wrong {
        /// The id in the signature.
        key: String,
    },
}

/// Finds the key that signed a content; `signature` is the text of the signature file. Legacy signatures (of the whole
/// content instead of its hash) count, too.
///
/// # Errors
/// [`SignatureError`].
pub fn verify(content: &[u8], signature: &str, keys: &[PublicKey]) -> Result<Verified, SignatureError> {
    let parsed = Signature::decode(signature).map_err(|_| SignatureError::Malformed(format_fault(signature)))?;
    let named = || signature.lines().nth(1).and_then(key::id).unwrap_or_default();
    let mut wrong = false;
    for key in keys {
        match key.key.verify(content, &parsed, true) {
            Ok(()) => {
                let shown = parsed.trusted_comment().chars().take(SHOWN);
                let comment = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
                return Ok(Verified { key: key.id().to_owned(), comment });
            }
            Err(Error::UnexpectedKeyId) => {}
            // Ids prove nothing: another key may have the same id.
            Err(_) => wrong = true,
        }
    }
    Err(if wrong { SignatureError::Wrong { key: named() } } else { SignatureError::UnknownKey { key: named() } })
}

/// The first fault in the form of a signature that cannot be read.
fn format_fault(signature: &str) -> &'static str {
    let mut lines = signature.lines().skip(1);
    if signature.trim().is_empty() {
        return "it is empty";
    }
    let Some(line) = lines.next() else { return "its second line, the signature of the content, is missing" };
    match BASE64_STANDARD.decode(line) {
        Err(_) => return "its second line, the signature of the content, is not base64",
        Ok(bytes) if bytes.len() != 74 => {
            return "its second line, the signature of the content, does not have 74 bytes";
        }
        Ok(bytes) if !bytes.starts_with(b"Ed") && !bytes.starts_with(b"ED") => {
            return "its algorithm is not Ed25519";
        }
        Ok(_) => {}
    }
    let Some(line) = lines.next() else { return "its third line, the trusted comment, is missing" };
    if !line.starts_with("trusted comment: ") {
        return "its third line does not begin with `trusted comment: `";
    }
    let Some(line) = lines.next() else { return "its fourth line, the signature of the trusted comment, is missing" };
    match BASE64_STANDARD.decode(line) {
        Err(_) => "its fourth line, the signature of the trusted comment, is not base64",
        Ok(_) => "its fourth line, the signature of the trusted comment, does not have 64 bytes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Taken from minisign's documentation and the tests of its implementations.
    const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
    const OTHER: &str = "RWTFXyBkDgJsb4V3AWwnPjk6bJ4sTSXjYN4rxIVwS8XNnPYcG1vXuJt9";
    const LEGACY: &str = "untrusted comment: signature from minisign secret key\n\
        RWQf6LRCGA9i59SLOFxz6NxvASXDJeRtuZykwQepbDEGt87ig1BNpWaVWuNrm73YiIiJbq71Wi+dP9eKL8OC351vwIasSSbXxwA=\n\
        trusted comment: timestamp:1555779966\tfile:test\n\
        QtKMXWyYcwdpZAlPF7tE2ENJkRd1ujvKjlj1m9RtHTBnZPa5WKU5uWRs5GoP5M/VqE81QFuMKI5k/SfNQUaOAA==\n";
    const HASHED: &str = "untrusted comment: signature from minisign secret key\n\
        RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=\n\
        trusted comment: timestamp:1556193335\tfile:test\n\
        y/rUw2y8/hOUYjZU71eHp/Wo1KZ40fGy2VJEDl34XMJM+TX48Ss/17u3IvIfbVR1FkZZSNCisQbuQY+bHwhEBg==\n";

    fn keys(lines: &[&str]) -> Vec<PublicKey> {
        lines.iter().map(|line| PublicKey::parse(line).unwrap()).collect()
    }

    #[test]
    fn both_modes_prove_the_content_and_the_comment() {
        for (signature, comment) in
            [(LEGACY, "timestamp:1555779966 file:test"), (HASHED, "timestamp:1556193335 file:test")]
        {
            let verified = verify(b"test", signature, &keys(&[OTHER, KEY])).unwrap();
            assert_eq!((verified.key.as_str(), verified.comment.as_str()), ("E7620F1842B4E81F", comment));
            let dos = signature.replace('\n', "\r\n");
            assert_eq!(verify(b"test", &dos, &keys(&[KEY])).unwrap(), verified);
        }
        let whole = format!("untrusted comment: minisign public key E7620F1842B4E81F\n{KEY}\n");
        assert_eq!(keys(&[&whole]), keys(&[KEY]));
    }

    #[test]
    fn every_changed_character_of_what_is_signed_is_noticed() {
        for signature in [LEGACY, HASHED] {
            assert!(matches!(verify(b"Test", signature, &keys(&[KEY])), Err(SignatureError::Wrong { .. })));
            assert!(matches!(verify(b"test", signature, &keys(&[OTHER])), Err(SignatureError::UnknownKey { .. })));
            assert!(matches!(verify(b"test", signature, &[]), Err(SignatureError::UnknownKey { .. })));
            let first = signature.lines().next().unwrap().len() + 1;
            let mut tried = 0;
            for index in first..signature.len() - 1 {
                let mut bytes = signature.as_bytes().to_vec();
                if bytes[index] == b'\n' {
                    continue;
                }
                bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
                let changed = String::from_utf8(bytes).unwrap();
                assert!(verify(b"test", &changed, &keys(&[KEY])).is_err(), "{index}: {changed}");
                tried += 1;
            }
            assert!(tried > 200, "{tried}");
            for end in 0..signature.len() - 2 {
                assert!(verify(b"test", &signature[..end], &keys(&[KEY])).is_err(), "cut at {end}");
            }
        }
    }

    #[test]
    fn each_fault_of_the_form_has_its_own_text() {
        let lines: Vec<_> = HASHED.lines().collect();
        let with = |number: usize, line: &str| {
            let mut lines = lines.clone();
            lines[number] = line;
            lines.join("\n")
        };
        let other = lines[1].replacen("RUQ", "AAA", 1);
        let faults = [
            String::new(),
            lines[0].to_owned(),
            with(1, "no base64"),
            with(1, "AAAA"),
            with(1, &other),
            lines[..2].join("\n"),
            with(2, "comment: x"),
            lines[..3].join("\n"),
            with(3, "no base64"),
            with(3, "AAAA"),
        ]
        .map(|text| verify(b"test", &text, &keys(&[KEY])).unwrap_err().to_string());
        let different: std::collections::BTreeSet<_> = faults.iter().collect();
        assert_eq!(different.len(), faults.len(), "{faults:#?}");
        assert!(faults.iter().all(|text| text.contains("not in minisign's format: it")), "{faults:#?}");
    }

    #[test]
    fn what_is_no_signature_and_no_key_is_refused() {
        for text in ["", "\n\n\n\n", "a\nb\nc\nd", "x", "untrusted comment: a\nRWQ=\ntrusted comment: b\nAA==\n"] {
            assert!(matches!(verify(b"", text, &keys(&[KEY])), Err(SignatureError::Malformed(_))), "{text:?}");
            assert!(PublicKey::parse(text).is_err(), "{text:?}");
        }
    }
}
