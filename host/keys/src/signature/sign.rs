//! Makes keys and signatures.

use std::{fmt, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use minisign::{PublicKeyBox, SecretKeyBox};

use super::file::{self, FileError};

/// The untrusted comment of a secret key's file, which minisign expects.
const SECRET_COMMENT: &str = "minisign encrypted secret key";
/// The untrusted comment of a secret key's file without a password.
const OPEN_COMMENT: &str = "minisign secret key, without a password";
/// The untrusted comment of a signature.
const SIGNATURE_COMMENT: &str = "signature from mortise plugin sign";
/// Range of the secret key's field for the derivation from a password; zeros mean that it has no password.
const KDF: std::ops::Range<usize> = 2..4;
/// Range of the secret key's checksum.
const CHECKSUM: std::ops::RangeFrom<usize> = 126..;
/// Most bytes of a trusted comment; minisign's own limit.
const MAX_COMMENT: usize = 8_191;

/// The reason why a key cannot be used, or a signature not be made.
#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    /// The file of the key cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The key is malformed, or its password is wrong.
    #[error("the secret key cannot be used: {0}")]
    Key(#[source] minisign::PError),
    /// The key needs a password, and none was given.
    #[error("the secret key has a password")]
    PasswordMissing,
    /// The comment spans lines, or is too long for minisign.
    #[error("the trusted comment is invalid; write one line of at most {MAX_COMMENT} bytes")]
    Comment,
    /// Making the key or the signature failed.
    #[error("signing failed: {0}")]
    Failed(#[source] minisign::PError),
}

/// A new pair of keys, each as the text of its file.
pub struct KeyPair {
    /// The public key, for everyone.
    pub public: String,
    /// The secret key, for the signer.
    pub secret: String,
}

impl KeyPair {
    /// Makes a pair of keys. A password encrypts the secret key, which takes a second.
    ///
    /// # Errors
    /// [`SigningError::Failed`].
    pub fn generate(password: Option<String>) -> Result<Self, SigningError> {
        let comment = if password.is_some() { SECRET_COMMENT } else { OPEN_COMMENT };
        let pair = match password {
            Some(password) => minisign::KeyPair::generate_encrypted_keypair(Some(password)),
            None => minisign::KeyPair::generate_unencrypted_keypair(),
        };
        let pair = pair.map_err(SigningError::Failed)?;
        let public = pair.pk.to_box().map_err(SigningError::Failed)?;
        let secret = pair.sk.to_box(Some(comment)).map_err(SigningError::Failed)?;
        Ok(Self { public: PublicKeyBox::into_string(public), secret: SecretKeyBox::into_string(secret) })
    }
}

/// A key that makes signatures. `Debug` does not show it.
pub struct SecretKey(minisign::SecretKey);

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey")
    }
}

impl SecretKey {
    /// Reads a key file; calls `password` if the key has one.
    ///
    /// # Errors
    /// [`SigningError`]; the error of `password`.
    pub fn read<E: From<SigningError>>(path: &Path, password: impl FnOnce() -> Result<String, E>) -> Result<Self, E> {
        let text = file::read(path).map_err(SigningError::from)?;
        let boxed = || SecretKeyBox::from_string(&text).map_err(SigningError::Key);
        let bytes = text.lines().nth(1).and_then(|line| BASE64_STANDARD.decode(line.trim()).ok()).unwrap_or_default();
        let key = match bytes.get(KDF) {
            // minisign writes no checksum into a key without a password; the crate requires one.
            Some(&[0, 0]) if bytes.get(CHECKSUM).is_some_and(|sum| sum.iter().all(|byte| *byte == 0)) => {
                minisign::SecretKey::from_bytes(&bytes)
            }
            Some(&[0, 0]) => boxed()?.into_unencrypted_secret_key(),
            Some(_) => boxed()?.into_secret_key(Some(password()?)),
            None => boxed()?.into_unencrypted_secret_key(),
        };
        Ok(Self(key.map_err(SigningError::Key)?))
    }
}

/// Signs a content and returns the text of a signature file. `comment` is the trusted comment; the default has the time
/// and `name`, the name of the signed file.
///
/// # Errors
/// [`SigningError::Comment`], [`SigningError::Failed`].
pub fn sign(content: &[u8], name: &str, key: &SecretKey, comment: Option<&str>) -> Result<String, SigningError> {
    let default = || {
        let name = name.replace(char::is_control, " ");
        format!("timestamp:{}\tfile:{name}\thashed", Timestamp::now().as_second())
    };
    let comment = comment.map_or_else(default, str::to_owned);
    // Some readers trim lines and others do not, so a signed comment has no spaces at its ends.
    let one_line = comment.trim() == comment && !comment.contains(|c: char| c.is_control() && c != '\t');
    if !one_line || comment.len() > MAX_COMMENT {
        return Err(SigningError::Comment);
    }
    let signed = minisign::sign(None, &key.0, content, Some(&comment), Some(SIGNATURE_COMMENT));
    Ok(signed.map_err(SigningError::Failed)?.into_string())
}

#[cfg(test)]
mod tests {
    use super::super::{PublicKey, verify};
    use super::*;

    fn secret(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret.key");
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    fn none() -> Result<String, SigningError> {
        Err(SigningError::PasswordMissing)
    }

    #[test]
    fn what_is_signed_verifies_with_the_key_of_its_pair_only() {
        let (pair, other) = (KeyPair::generate(None).unwrap(), KeyPair::generate(None).unwrap());
        let (_dir, path) = secret(&pair.secret);
        let key = SecretKey::read(&path, none).unwrap();
        let signature = sign(b"content", "a.wasm", &key, Some("release 1")).unwrap();
        let public = PublicKey::parse(&pair.public).unwrap();
        let verified = verify(b"content", signature.as_bytes(), std::slice::from_ref(&public)).unwrap();
        assert_eq!((verified.comment.as_str(), verified.key.as_str()), ("release 1", public.id()));
        assert!(pair.public.contains(public.id()), "{}", pair.public);
        assert!(verify(b"content", signature.as_bytes(), &[PublicKey::parse(&other.public).unwrap()]).is_err());
        assert!(sign(b"content", "a.wasm", &key, None).unwrap().contains("\tfile:a.wasm\thashed\n"));
        for comment in ["two\nlines", " space", "space ", &"x".repeat(MAX_COMMENT + 1)] {
            assert!(matches!(sign(b"", "a", &key, Some(comment)), Err(SigningError::Comment)), "{comment:?}");
        }
    }

    #[test]
    fn a_key_with_a_password_needs_it() {
        let pair = KeyPair::generate(Some("correct horse".into())).unwrap();
        let (_dir, path) = secret(&pair.secret);
        assert!(matches!(SecretKey::read(&path, none), Err(SigningError::PasswordMissing)));
        let wrong = SecretKey::read::<SigningError>(&path, || Ok("battery".into()));
        assert!(matches!(wrong, Err(SigningError::Key(_))), "{wrong:?}");
        let key = SecretKey::read::<SigningError>(&path, || Ok("correct horse".into())).unwrap();
        let signature = sign(b"content", "a", &key, None).unwrap();
        verify(b"content", signature.as_bytes(), &[PublicKey::parse(&pair.public).unwrap()]).unwrap();
        for text in ["", "a\nb\n", "untrusted comment: x\nRWQ=\n"] {
            let (_dir, path) = secret(text);
            assert!(SecretKey::read(&path, none).is_err(), "{text:?}");
        }
    }
}
