//! The keys of a file, in the order of use: an identity unwraps the file key; the file key checks the header and
//! decrypts the payload.

use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, Salt},
    hmac,
};

use super::{AgeError, header::Header};

/// Bytes of a chunk of the payload, without its tag.
const CHUNK: usize = 64 << 10;
/// Bytes of the tag that authenticates a chunk.
const TAG: usize = 16;
/// Bytes of the payload's nonce.
const NONCE: usize = 16;

/// Derives 32 bytes by HKDF-SHA-256.
fn derive(secret: &[u8], salt: &[u8], info: &[u8]) -> Result<[u8; 32], AgeError> {
    let mut key = [0; 32];
    let extracted = Salt::new(HKDF_SHA256, salt).extract(secret);
    extracted.expand(&[info], HKDF_SHA256).and_then(|okm| okm.fill(&mut key)).map_err(|_| AgeError::Altered)?;
    Ok(key)
}

/// Opens ChaCha20-Poly1305; `None` if the tag does not match.
fn open<'b>(key: &[u8; 32], nonce: [u8; 12], sealed: &'b mut [u8]) -> Option<&'b [u8]> {
    let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).ok()?);
    key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::empty(), sealed).ok().map(|plain| &*plain)
}

/// Unwraps the file key from a stanza; `None` if the stanza is for another identity.
pub(crate) fn unwrap(
    secret: &[u8; 32],
    public: &[u8; 32],
    (share, wrapped): &([u8; 32], [u8; 32]),
) -> Result<Option<Vec<u8>>, AgeError> {
    let shared = x25519_dalek::x25519(*secret, *share);
    if shared == [0; 32] {
        return Err(AgeError::Malformed("a recipient's share is of low order"));
    }
    let key = derive(&shared, &[*share, *public].concat(), b"age-encryption.org/v1/X25519")?;
    Ok(open(&key, [0; 12], &mut wrapped.clone()).map(<[u8]>::to_vec))
}

/// Checks the header's MAC and decrypts the payload, both with the file key.
pub(crate) fn decrypt(file_key: &[u8], header: &Header<'_>) -> Result<Vec<u8>, AgeError> {
    let mac = hmac::Key::new(hmac::HMAC_SHA256, &derive(file_key, &[], b"header")?);
    hmac::verify(&mac, header.signed, &header.mac).map_err(|_| AgeError::Altered)?;
    let (nonce, mut rest) = header.payload.split_at_checked(NONCE).ok_or(AgeError::Altered)?;
    let key = derive(file_key, nonce, b"payload")?;
    let mut plain = Vec::with_capacity(rest.len());
    for number in 0_u64.. {
        let (chunk, after) = rest.split_at_checked(rest.len().min(CHUNK + TAG)).ok_or(AgeError::Altered)?;
        let is_last = after.is_empty();
        // The nonce has a counter of eleven bytes, and one byte that marks the last chunk.
        let mut nonce = [0; 12];
        let counter = number.to_be_bytes().into_iter().chain([u8::from(is_last)]);
        nonce.iter_mut().skip(3).zip(counter).for_each(|(to, from)| *to = from);
        let mut chunk = chunk.to_vec();
        let opened = open(&key, nonce, &mut chunk).ok_or(AgeError::Altered)?;
        // Only an empty payload has an empty chunk.
        if opened.is_empty() && number > 0 {
            return Err(AgeError::Altered);
        }
        plain.extend_from_slice(opened);
        if is_last {
            break;
        }
        rest = after;
    }
    Ok(plain)
}
