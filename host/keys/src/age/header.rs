//! The header: a line for the version, a stanza for each recipient with the file's key encrypted for it, and a MAC.

use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};

use super::{AgeError, VERSION, armor::COLUMNS};

/// Most stanzas of a header.
pub(crate) const MAX_RECIPIENTS: usize = 64;

/// A header and the rest of the file.
pub(crate) struct Header<'f> {
    /// Stanzas for X25519: ephemeral share and wrapped key.
    pub(crate) stanzas: Vec<([u8; 32], [u8; 32])>,
    /// The bytes that the MAC authenticates.
    pub(crate) signed: &'f [u8],
    pub(crate) mac: [u8; 32],
    /// The encrypted content.
    pub(crate) payload: &'f [u8],
}

/// Takes a line off the rest, without its newline.
fn line<'f>(rest: &mut &'f [u8]) -> Result<&'f str, AgeError> {
    let ended = AgeError::Malformed("its header does not end");
    let end = rest.iter().position(|byte| *byte == b'\n').ok_or(ended)?;
    let (line, after) = rest.split_at_checked(end).ok_or(ended)?;
    *rest = after.get(1..).unwrap_or_default();
    let text = std::str::from_utf8(line).ok().filter(|text| text.bytes().all(|b| (b' '..=b'~').contains(&b)));
    text.ok_or(AgeError::Malformed("its header is not text"))
}

fn decode(text: &str) -> Result<Vec<u8>, AgeError> {
    BASE64_STANDARD_NO_PAD.decode(text).map_err(|_| AgeError::Malformed("its header is not base64"))
}

fn decode_32(text: &str) -> Result<[u8; 32], AgeError> {
    decode(text)?.try_into().map_err(|_| AgeError::Malformed("a part of its header has the wrong length"))
}

impl<'f> Header<'f> {
    pub(crate) fn parse(file: &'f [u8]) -> Result<Self, AgeError> {
        let mut rest = file;
        if line(&mut rest)? != VERSION {
            return Err(AgeError::Malformed("its first line names another version"));
        }
        let (mut stanzas, mut count) = (Vec::new(), 0);
        loop {
            let begin = file.len() - rest.len();
            let next = line(&mut rest)?;
            if let Some(mac) = next.strip_prefix("--- ") {
                if count == 0 {
                    return Err(AgeError::Malformed("it has no recipients"));
                }
                // The MAC covers the three dashes, but not the bytes after them.
                let signed = file.get(..begin + 3).unwrap_or_default();
                return Ok(Self { stanzas, signed, mac: decode_32(mac)?, payload: rest });
            }
            let arguments = next.strip_prefix("-> ").ok_or(AgeError::Malformed("a line of its header is unknown"))?;
            count += 1;
            if count > MAX_RECIPIENTS {
                return Err(AgeError::TooManyRecipients);
            }
            let body = body(&mut rest)?;
            let arguments: Vec<&str> = arguments.split(' ').collect();
            match arguments.as_slice() {
                [kind, share] if *kind == "X25519" => {
                    let wrapped = body.try_into();
                    let wrapped = wrapped.map_err(|_| AgeError::Malformed("a wrapped key has the wrong length"))?;
                    stanzas.push((decode_32(share)?, wrapped));
                }
                ["X25519", ..] => return Err(AgeError::Malformed("a recipient has the wrong arguments")),
                ["scrypt", ..] => return Err(AgeError::Passphrase),
                _ if arguments.contains(&"") => return Err(AgeError::Malformed("a recipient has an empty argument")),
                _ => {}
            }
        }
    }
}

/// Reads the body of a stanza: full lines, then a shorter one, possibly empty.
fn body(rest: &mut &[u8]) -> Result<Vec<u8>, AgeError> {
    let mut text = String::new();
    loop {
        let next = line(rest)?;
        text.push_str(next);
        match next.len() {
            COLUMNS => {}
            0..COLUMNS => return decode(&text),
            _ => return Err(AgeError::Malformed("a line of its header is too long")),
        }
    }
}
