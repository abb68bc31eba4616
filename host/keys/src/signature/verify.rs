//! Verifies signatures.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use blake2::{Blake2b512, Digest as _};
use ring::signature::{ED25519, UnparsedPublicKey};

use super::key::{self, KeyId, PublicKey};

/// Start of the line with the trusted comment.
const COMMENT_START: &[u8] = b"trusted comment: ";

/// Most characters of a shown trusted comment.
const SHOWN_CHARS: usize = 200;

/// The signer of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Id of the key.
    pub key: String,
    /// The trusted comment: without control characters, cut at 200 characters, bytes that are not UTF-8 as `\xNN`.
    pub comment: String,
}

/// The reason why a signature proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The file is not in minisign's form.
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

/// The content of a signature file.
struct Signature<'f> {
    /// Whether the hash of the content is signed instead of the content.
    is_hashed: bool,
    id: KeyId,
    signature: [u8; 64],
    /// The trusted comment.
    comment: &'f [u8],
    /// Signature of the first signature and the trusted comment.
    global: [u8; 64],
}

/// Finds the key that signed a content; `signature` is the content of the signature file. Legacy signatures (of the
/// whole content instead of its hash) count, too.
///
/// # Errors
/// [`SignatureError`].
pub fn verify(content: &[u8], signature: &[u8], keys: &[PublicKey]) -> Result<Verified, SignatureError> {
    let found = parse(signature).map_err(SignatureError::Malformed)?;
    // Ids prove nothing: several keys may have the same one.
    let mut named = keys.iter().filter(|key| key.id == found.id).peekable();
    let key = key::shown(found.id);
    if named.peek().is_none() {
        return Err(SignatureError::UnknownKey { key });
    }
    let hash = if found.is_hashed { Blake2b512::digest(content).to_vec() } else { Vec::new() };
    let signed = if found.is_hashed { &hash } else { content };
    let with_comment = [&found.signature, found.comment].concat();
    let is_by = |key: &PublicKey| {
        let key = UnparsedPublicKey::new(&ED25519, key.key);
        key.verify(signed, &found.signature).is_ok() && key.verify(&with_comment, &found.global).is_ok()
    };
    match named.any(is_by) {
        true => Ok(Verified { key, comment: shown(found.comment) }),
        false => Err(SignatureError::Wrong { key }),
    }
}

/// Reads a signature file; the error is the first fault of its form.
fn parse(file: &[u8]) -> Result<Signature<'_>, &'static str> {
    if file.trim_ascii().is_empty() {
        return Err("it is empty");
    }
    let mut lines = file.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).skip(1);
    // An empty line is the end of the file, behind its last line feed.
    let mut line = || lines.next().filter(|line| !line.is_empty());
    let first = line().ok_or("its second line, the signature of the content, is missing")?;
    let first =
        BASE64_STANDARD.decode(first).map_err(|_| "its second line, the signature of the content, is not base64")?;
    let (algorithm, id, signature) =
        key::parts(&first).ok_or("its second line, the signature of the content, does not have 74 bytes")?;
    if ![key::ED25519, key::ED25519_HASHED].contains(&algorithm) {
        return Err("its algorithm is not Ed25519");
    }
    let comment = line().ok_or("its third line, the trusted comment, is missing")?;
    let comment =
        comment.strip_prefix(COMMENT_START).ok_or("its third line does not begin with `trusted comment: `")?;
    let global = line().ok_or("its fourth line, the signature of the trusted comment, is missing")?;
    let global = BASE64_STANDARD
        .decode(global)
        .map_err(|_| "its fourth line, the signature of the trusted comment, is not base64")?;
    let global = global
        .try_into()
        .map_err(|_| "its fourth line, the signature of the trusted comment, does not have 64 bytes")?;
    Ok(Signature { is_hashed: algorithm == key::ED25519_HASHED, id, signature, comment, global })
}

/// Renders a comment: control characters as spaces, and bytes that are not UTF-8 as `\xNN`.
fn shown(comment: &[u8]) -> String {
    let mut text = String::new();
    for chunk in comment.utf8_chunks() {
        text.extend(chunk.valid().chars().map(|c| if c.is_control() { ' ' } else { c }));
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text.chars().take(SHOWN_CHARS).collect()
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
            let verified = verify(b"test", signature.as_bytes(), &keys(&[OTHER, KEY])).unwrap();
            assert_eq!((verified.key.as_str(), verified.comment.as_str()), ("E7620F1842B4E81F", comment));
            let dos = signature.replace('\n', "\r\n");
            assert_eq!(verify(b"test", dos.as_bytes(), &keys(&[KEY])).unwrap(), verified);
        }
        let whole = format!("untrusted comment: minisign public key E7620F1842B4E81F\n{KEY}\n");
        assert_eq!(keys(&[&whole]), keys(&[KEY]));
    }

    #[test]
    fn every_changed_character_of_what_is_signed_is_noticed() {
        for signature in [LEGACY, HASHED] {
            assert!(matches!(verify(b"Test", signature.as_bytes(), &keys(&[KEY])), Err(SignatureError::Wrong { .. })));
            assert!(matches!(
                verify(b"test", signature.as_bytes(), &keys(&[OTHER])),
                Err(SignatureError::UnknownKey { .. })
            ));
            assert!(matches!(verify(b"test", signature.as_bytes(), &[]), Err(SignatureError::UnknownKey { .. })));
            let first = signature.lines().next().unwrap().len() + 1;
            let mut tried = 0;
            for index in first..signature.len() - 1 {
                let mut bytes = signature.as_bytes().to_vec();
                if bytes[index] == b'\n' {
                    continue;
                }
                bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
                assert!(verify(b"test", &bytes, &keys(&[KEY])).is_err(), "{index}");
                tried += 1;
            }
            assert!(tried > 200, "{tried}");
            for end in 0..signature.len() - 2 {
                assert!(verify(b"test", &signature.as_bytes()[..end], &keys(&[KEY])).is_err(), "cut at {end}");
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
        .map(|text| verify(b"test", text.as_bytes(), &keys(&[KEY])).unwrap_err().to_string());
        let different: std::collections::BTreeSet<_> = faults.iter().collect();
        assert_eq!(different.len(), faults.len(), "{faults:#?}");
        assert!(faults.iter().all(|text| text.contains("not in minisign's format: it")), "{faults:#?}");
    }

    /// A signature that the program `minisign` made: both comments are in Latin-1.
    #[test]
    fn comments_may_be_in_any_encoding() {
        const FILE: &[u8] = b"untrusted comment: na\xefve\n\
            RUTuMXVKwjVdeeHB7OV4ABmHoiWdVsNeCEtFvNAclHyWRizQcj6gbFIcs+DhIFzPCemX/QbkwDQdbxCGWqIykNPra8LjdbulsAY=\n\
            trusted comment: caf\xe9 \xff\n\
            W6u0q8OYu+wgyfUyc4jn3LGAv0tWwIhnreQZnTcL6ptr1OCZRqi/OIjuWyGFsYaq5xv9odDDcW9R0+tHrh2uBA==\n";
        let key = keys(&["RWTuMXVKwjVdeSG4pHAV/MOGwKZHzHnerMPHHcoh/RlQeB/NCdIKJ21w"]);
        assert_eq!(verify(b"test", FILE, &key).unwrap().comment, "caf\\xe9 \\xff");
        let mut changed = FILE.to_vec();
        let byte = changed.iter().position(|byte| *byte == 0xff).unwrap();
        changed[byte] = 0xfe;
        assert!(matches!(verify(b"test", &changed, &key), Err(SignatureError::Wrong { .. })));
        assert_eq!(shown(&[b'x'; 300]).len(), SHOWN_CHARS);
        assert_eq!(shown(b"a\x1b[1m\tb"), "a [1m b");
    }

    #[test]
    fn what_is_no_signature_and_no_key_is_refused() {
        for text in ["", "\n\n\n\n", "a\nb\nc\nd", "x", "untrusted comment: a\nRWQ=\ntrusted comment: b\nAA==\n"] {
            assert!(
                matches!(verify(b"", text.as_bytes(), &keys(&[KEY])), Err(SignatureError::Malformed(_))),
                "{text:?}"
            );
            assert!(PublicKey::parse(text).is_err(), "{text:?}");
        }
    }
}
