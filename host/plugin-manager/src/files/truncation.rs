//! Tells a component that is still being written from one that is broken.
//!
//! A component is a header of eight bytes and sections, each with its length in front; so a file whose last section
//! reaches beyond its end is not whole. Anything else that is wrong is the compiler's to say. A file that was cut exactly
//! between two sections looks whole; it fails later, and is tried again when the rest arrives.

/// What a file's content is, as far as its lengths say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Every section ends within the file, or it is not WebAssembly at all.
    Whole,
    /// More has to follow: it ends within its header or a section.
    Truncated,
}

const MAGIC: &[u8; 4] = b"\0asm";
const HEADER: usize = 8;

/// Looks at a file's content. Reads the lengths only.
#[must_use]
pub fn shape(bytes: &[u8]) -> Shape {
    if bytes.len() < HEADER {
        let begins = bytes.iter().zip(MAGIC).all(|(a, b)| a == b);
        return if begins { Shape::Truncated } else { Shape::Whole };
    }
    if !bytes.starts_with(MAGIC) {
        return Shape::Whole;
    }
    let mut rest = bytes.get(HEADER..).unwrap_or_default();
    while let Some((_, after)) = rest.split_first() {
        let (len, after) = match length(after) {
            Length::Is(len, after) => (len, after),
            Length::CutOff => return Shape::Truncated,
            Length::Nonsense => return Shape::Whole,
        };
        match after.get(len..) {
            Some(next) => rest = next,
            None => return Shape::Truncated,
        }
    }
    Shape::Whole
}

enum Length<'a> {
    Is(usize, &'a [u8]),
    CutOff,
    Nonsense,
}

/// An unsigned LEB128 of at most 32 bits.
fn length(bytes: &[u8]) -> Length<'_> {
    let mut value = 0_u64;
    for (i, &byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return match u32::try_from(value) {
                Ok(value) => Length::Is(value as usize, bytes.get(i + 1..).unwrap_or_default()),
                Err(_) => Length::Nonsense,
            };
        }
    }
    if bytes.len() < 5 { Length::CutOff } else { Length::Nonsense }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header and two sections, of 3 and of 200 bytes.
    fn component() -> Vec<u8> {
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        bytes.extend([0, 3, 1, 2, 3]);
        bytes.extend([0, 0xc8, 1]);
        bytes.extend([7; 200]);
        bytes
    }

    #[test]
    fn every_cut_but_those_between_sections_is_seen() {
        let whole = component();
        assert_eq!(shape(&whole), Shape::Whole);
        for len in 0..whole.len() {
            let expected = if len == 8 || len == 13 { Shape::Whole } else { Shape::Truncated };
            assert_eq!(shape(&whole[..len]), expected, "{len}");
        }
    }

    #[test]
    fn what_is_no_webassembly_is_broken_not_unfinished() {
        for bytes in [&b"#!/bin/sh\n"[..], b"x", b"\0asx", b"MZ\0\0\0\0\0\0\0\0"] {
            assert_eq!(shape(bytes), Shape::Whole, "{bytes:?}");
        }
        let nonsense = [b"\0asm\x0d\0\x01\0".as_slice(), &[0xff; 64]].concat();
        assert_eq!(shape(&nonsense), Shape::Whole);
    }
}
