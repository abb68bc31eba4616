//! The seal: the last bytes of a backup, which say what all bytes before them are.
//!
//! A backup is a gzip stream of two members. The second holds nothing; in its extra field (RFC 1952, subfield `MT`)
//! stand the SHA-256 and the number of all bytes before it. Every bit of the seal is given by these two, so a backup
//! that is cut off, goes on, or differs in any bit is noticed, while gzip and tar take no notice of it. It is no
//! signature: who can change the file can seal it anew.

use sha2::{Digest as _, Sha256};

/// Length of the seal.
pub const SEAL_BYTES: usize = 66;

/// gzip, deflate, with an extra field; no time, no system; 44 bytes of extra field; `MT` with 40 bytes.
const START: [u8; 16] = [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255, 44, 0, b'M', b'T', 40, 0];
/// An empty block that is the last, the CRC-32 and the length of nothing.
const END: [u8; 10] = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The seal of `bytes` bytes with a digest.
pub(crate) fn seal(digest: &[u8; 32], bytes: u64) -> Vec<u8> {
    [&START[..], digest, &bytes.to_le_bytes(), &END].concat()
}

/// Whether these are the bytes of a seal, whatever they seal.
pub(crate) fn is_seal(bytes: &[u8]) -> bool {
    bytes.len() == SEAL_BYTES && bytes.starts_with(&START) && bytes.ends_with(&END)
}

/// Checks the seal of a backup that comes in pieces, such as over the wire, and keeps nothing but its end.
#[derive(Default)]
pub struct SealChecker {
    hasher: Sha256,
    bytes: u64,
    /// The last bytes, which may be the seal.
    tail: Vec<u8>,
}

impl SealChecker {
    /// Takes the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.tail.extend_from_slice(piece);
        let body = self.tail.len().saturating_sub(SEAL_BYTES);
        self.hasher.update(self.tail.get(..body).unwrap_or_default());
        self.bytes += body as u64;
        self.tail.drain(..body);
    }

    /// Whether what came is a whole backup.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.tail == seal(&self.hasher.finalize().into(), self.bytes)
    }
}

impl std::fmt::Debug for SealChecker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealChecker").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_are_checked() {
        let body = b"some bytes that are sealed".repeat(20);
        let mut whole = body.clone();
        whole.extend(seal(&Sha256::digest(&body).into(), body.len() as u64));
        let check = |bytes: &[u8], step: usize| {
            let mut checker = SealChecker::default();
            bytes.chunks(step).for_each(|piece| checker.update(piece));
            checker.is_whole()
        };
        for step in [1, 7, 65, 66, 67, 1000] {
            assert!(check(&whole, step), "{step}");
            assert!(!check(&whole[..whole.len() - 1], step));
            assert!(!check(&whole[1..], step));
            assert!(!check(&body, step));
            assert!(!check(&[&whole[..], b"x"].concat(), step));
        }
        for bit in 0..whole.len() * 8 {
            let mut altered = whole.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert!(!check(&altered, 100), "bit {bit}");
        }
    }

    #[test]
    fn gzip_takes_no_notice_of_it() {
        use std::io::Read as _;
        let sealed = seal(&[7; 32], 123);
        assert!(sealed.len() == SEAL_BYTES && is_seal(&sealed));
        let mut nothing = Vec::new();
        flate2::read::GzDecoder::new(sealed.as_slice()).read_to_end(&mut nothing).unwrap();
        assert!(nothing.is_empty());
    }
}
