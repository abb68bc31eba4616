//! Reads certificates and keys from PEM files.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use rustls_pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{self, PemObject as _},
};

/// Most bytes of a file. The bundle of all public authorities has a quarter of that.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// The reason why a file gives no certificate or no key.
#[derive(Debug, thiserror::Error)]
pub enum PemFileError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Fault from the system.
        source: io::Error,
    },
    /// The path is a directory, a pipe or a device.
    #[error("{} is not a regular file", path.display())]
    Irregular {
        /// The path.
        path: PathBuf,
    },
    /// The file has more than [`MAX_FILE_BYTES`].
    #[error("{} has more than {MAX_FILE_BYTES} bytes, too many for certificates", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A section of the file is broken.
    #[error("{} is not valid PEM: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Fault of the PEM section.
        source: pem::Error,
    },
    /// The file has no PEM section of a certificate.
    #[error("{} holds no certificate (PEM: -----BEGIN CERTIFICATE-----)", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The file has no PEM section of a private key.
    #[error("{} holds no private key (PEM: -----BEGIN PRIVATE KEY-----)", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The key needs a password, and the server cannot ask for one.
    #[error("{0}: the key is encrypted; write it without a password by openssl pkey -in {0} -out FILE", path.display())]
    EncryptedKey {
        /// The file.
        path: PathBuf,
    },
}

/// Reads every certificate of a file, in order; at least one.
///
/// # Errors
/// [`PemFileError`].
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemFileError> {
    let text = read(path)?;
    let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|source| PemFileError::Malformed { path: path.to_owned(), source })?;
    match certificates.is_empty() {
        true => Err(PemFileError::NoCertificate { path: path.to_owned() }),
        false => Ok(certificates),
    }
}

/// Reads the first private key of a file: PKCS#8, PKCS#1 or SEC1, without a password.
///
/// # Errors
/// [`PemFileError`].
pub fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemFileError> {
    let text = read(path)?;
    let path = path.to_owned();
    match PrivateKeyDer::from_pem_slice(&text) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) if holds(&text, b"-----BEGIN ENCRYPTED PRIVATE KEY-----") => {
            Err(PemFileError::EncryptedKey { path })
        }
        Err(pem::Error::NoItemsFound) => Err(PemFileError::NoKey { path }),
        Err(source) => Err(PemFileError::Malformed { path, source }),
    }
}

fn holds(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}

fn read(path: &Path) -> Result<Vec<u8>, PemFileError> {
    let unreadable = |source| PemFileError::Unreadable { path: path.to_owned(), source };
    // The type is checked before opening: opening a pipe waits for its writer.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(PemFileError::Irregular { path: path.to_owned() });
    }
    let mut text = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text)).map_err(unreadable)?;
    match text.len() as u64 > MAX_FILE_BYTES {
        true => Err(PemFileError::TooLarge { path: path.to_owned() }),
        false => Ok(text),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pem");
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
        let read = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            let certificates = read_certificates(&path).map(|found| found.len()).map_err(|e| e.to_string());
            (certificates, read_key(&path).map(drop).map_err(|e| e.to_string()))
        };
        let both = format!("# a comment\n{}{}{}", certificate.pem(), key.serialize_pem(), certificate.pem());
        assert_eq!(read(both.as_bytes()), (Ok(2), Ok(())));
        let (certificate, key) = read(b"");
        assert!(certificate.unwrap_err().ends_with("holds no certificate (PEM: -----BEGIN CERTIFICATE-----)"));
        assert!(key.unwrap_err().ends_with("holds no private key (PEM: -----BEGIN PRIVATE KEY-----)"));
        let (certificate, _) = read(b"-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n");
        assert!(certificate.unwrap_err().contains(" is not valid PEM: "));
        let (_, key) = read(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
        assert!(key.unwrap_err().contains("the key is encrypted; write it without a password by openssl pkey -in "));
        let (certificate, _) = read(&vec![b'\n'; MAX_FILE_BYTES as usize + 1]);
        assert!(certificate.unwrap_err().contains("too many for certificates"));
        assert!(read_key(dir.path()).unwrap_err().to_string().ends_with("is not a regular file"));
        let missing = read_key(&dir.path().join("missing")).unwrap_err().to_string();
        assert!(missing.contains("cannot read ") && missing.contains("No such file"), "{missing}");
    }
}
