//! The seal: the last bytes of a backup, with a checksum of all bytes before them.
//!
//! A backup is a gzip stream of two members. The second is empty; its extra field (RFC 1952, subfield `MT`) has the
//! SHA-256 and the number of all bytes before it. These two determine every bit of the seal, so any cut, addition or
//! changed bit is noticed, while gzip and tar ignore the seal. The seal is not a signature: anyone who can change the
//! file can compute a new seal.

use sha2::{Digest as _, Sha256};

/// Length of the seal, bytes.
pub const SEAL_BYTES: usize = 66;

/// Header of the second member: gzip, deflate, with an extra field; no time, no system; 44 bytes of extra field; `MT`
/// with 40 bytes.
const SEAL_PREFIX: [u8; 16] = [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255, 44, 0, b'M', b'T', 40, 0];
/// Empty last block, CRC-32 and length of no data.
const SEAL_SUFFIX: [u8; 10] = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Makes the seal of `bytes` bytes with this digest.
pub(crate) fn seal(digest: &[u8; 32], bytes: u64) -> Vec<u8> {
    [&SEAL_PREFIX[..], digest, &bytes.to_le_bytes(), &SEAL_SUFFIX].concat()
}

/// Whether the bytes have the form of a seal; its digest is not checked.
pub(crate) fn is_seal(bytes: &[u8]) -> bool {
    bytes.len() == SEAL_BYTES && bytes.starts_with(&SEAL_PREFIX) && bytes.ends_with(&SEAL_SUFFIX)
}

/// Checks the seal of a backup that arrives in pieces, for example over the network; holds only its last bytes.
#[derive(Default)]
pub struct SealChecker {
    hasher: Sha256,
    bytes: u64,
    /// Last bytes so far, which may be the seal.
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

    /// Whether the pieces are a whole backup.
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
    fn gzip_ignores_the_seal() {
        use std::io::Read as _;
        let sealed = seal(&[7; 32], 123);
        assert!(sealed.len() == SEAL_BYTES && is_seal(&sealed));
        let mut nothing = Vec::new();
        flate2::read::GzDecoder::new(sealed.as_slice()).read_to_end(&mut nothing).unwrap();
        assert!(nothing.is_empty());
    }
}
