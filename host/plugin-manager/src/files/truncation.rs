//! Distinguishes a component that is still being written from a broken one.
//!
//! A component is a header of eight bytes and sections, each preceded by its length; so a file is truncated if its last
//! section reaches beyond its end. The compiler reports all other faults. A file that was cut exactly between two
//! sections looks whole; it fails later, and is tried again when the rest arrives.

use wasmparser::{Chunk, Parser, Payload};

/// Completeness of a file, judged by the lengths in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// Every section ends within the file, or it is not WebAssembly at all.
    Whole,
    /// The file ends within its header or a section.
    Truncated,
}

const MAGIC: &[u8; 4] = b"\0asm";

/// Examines a file's content. Reads only the headers of sections.
#[must_use]
pub fn shape(bytes: &[u8]) -> Completeness {
    if bytes.iter().zip(MAGIC).any(|(a, b)| a != b) {
        return Completeness::Whole;
    }
    let (mut rest, mut parser, mut outer) = (bytes, Parser::new(0), Vec::new());
    loop {
        match parser.parse(rest, false) {
            // Between two sections it is unknown whether another one follows.
            Ok(Chunk::NeedMoreData(_)) if rest.is_empty() && outer.is_empty() && !bytes.is_empty() => {
                return Completeness::Whole;
            }
            Ok(Chunk::NeedMoreData(_)) => return Completeness::Truncated,
            Ok(Chunk::Parsed { consumed, payload }) => {
                rest = rest.get(consumed..).unwrap_or_default();
                match payload {
                    Payload::ModuleSection { parser: inner, .. } | Payload::ComponentSection { parser: inner, .. } => {
                        outer.push(std::mem::replace(&mut parser, inner));
                    }
                    Payload::End(_) => match outer.pop() {
                        Some(parent) => parser = parent,
                        None => return Completeness::Whole,
                    },
                    _ => {}
                }
            }
            Err(_) => return Completeness::Whole,
        }
    }
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
        assert_eq!(shape(&whole), Completeness::Whole);
        for len in 0..whole.len() {
            let expected = if len == 8 || len == 13 { Completeness::Whole } else { Completeness::Truncated };
            assert_eq!(shape(&whole[..len]), expected, "{len}");
        }
    }

    #[test]
    fn what_is_no_webassembly_is_broken_not_unfinished() {
        for bytes in [&b"#!/bin/sh\n"[..], b"x", b"\0asx", b"MZ\0\0\0\0\0\0\0\0"] {
            assert_eq!(shape(bytes), Completeness::Whole, "{bytes:?}");
        }
        let nonsense = [b"\0asm\x0d\0\x01\0".as_slice(), &[0xff; 64]].concat();
        assert_eq!(shape(&nonsense), Completeness::Whole);
    }
}
