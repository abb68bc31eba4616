//! `secrets`: granted secrets, read on each call, so that a changed secret takes effect at once. A file in age's format
//! is decrypted each time, with the identities of `plugins.age_identity_file`.
//!
//! Content appears in no log and no error. A secret has at most 64 KiB; the file of an encrypted one has at most twice
//! that.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::{ffi::OsStringExt, fs::OpenOptionsExt as _},
    path::Path,
};

use mortise_keys::age::{Identities, is_encrypted};
use mortise_resource::Code;

use crate::{
    bindings::imports::mortise::plugin::secrets::Host,
    failure::Failure,
    grants::Secret,
    host::{call_context::HostCallResult, files::blocking, state::State},
};

/// Longest secret, bytes.
const MAX_SECRET: usize = 64 << 10;
/// Largest file, bytes: an encrypted secret with a header for its recipients, armored.
const MAX_FILE: usize = 2 * MAX_SECRET;

impl Host for State {
    async fn get(&mut self, name: String) -> HostCallResult<Vec<u8>> {
        self.ask("secrets.get", |question| async move {
            let Some(secret) = question.permit.secret(&name).cloned() else {
                let text = format!("secret {name:?} is not granted; {}", question.permit.secret_remedy(&name));
                return Err(Failure::new(Code::PermissionDenied, text));
            };
            let key = question.permit.key(&format!("secrets.{name}"));
            let identities = question.identities.clone();
            blocking(question, move |_| read(&name, &secret, &key, identities.as_deref())).await
        })
        .await
    }
}

/// Reads a secret. `key` is the setting of the grant, which names the plugin.
fn read(name: &str, secret: &Secret, key: &str, identities: Option<&Identities>) -> Result<Vec<u8>, Failure> {
    let missing = |what: String| {
        Failure::new(Code::FailedPrecondition, format!("secret {name:?}: {what}; see the plugin's grants"))
    };
    let content = match secret {
        Secret::File(path) => {
            let file = content(path).map_err(|e| missing(format!("its file cannot be read: {e}")))?;
            let sealed = |what: String| {
                let text = format!("secret {name:?} ({key}): its file {} {what}", path.display());
                Failure::new(Code::FailedPrecondition, text)
            };
            match identities {
                _ if file.len() > MAX_FILE || !is_encrypted(&file) => without_newline(file),
                None => {
                    return Err(sealed(
                        "is encrypted, and plugins.age_identity_file is not set; set it to decrypt the secret".into(),
                    ));
                }
                Some(identities) => without_newline(identities.decrypt(&file).map_err(|e| {
                    sealed(format!("cannot be decrypted: {e}; encrypt it for an identity in plugins.age_identity_file"))
                })?),
            }
        }
        Secret::Env(variable) => std::env::var_os(variable)
            .map(OsStringExt::into_vec)
            .ok_or_else(|| missing(format!("the server's environment has no {variable}")))?,
    };
    if content.is_empty() {
        return Err(missing("it is empty; write the secret there".to_owned()));
    }
    if content.len() > MAX_SECRET {
        let text = format!("secret {name:?} has more than {MAX_SECRET} bytes; shorten it");
        return Err(Failure::new(Code::ResourceExhausted, text));
    }
    Ok(content)
}

/// Content of a file, cut one byte past the limit.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    // Non-blocking: a pipe or device may never have a beginning or an end.
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let file: File = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut content = Vec::new();
    file.take(MAX_FILE as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// Removes one newline at the end of a text.
fn without_newline(mut content: Vec<u8>) -> Vec<u8> {
    if content.last() == Some(&b'\n') {
        content.pop();
        if content.last() == Some(&b'\r') {
            content.pop();
        }
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_plain(secret: &Secret) -> Result<Vec<u8>, Failure> {
        read("token", secret, "plugin.p.grants.secrets.token", None)
    }

    fn file(content: &[u8]) -> (tempfile::TempDir, Secret) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, content).unwrap();
        (dir, Secret::File(path))
    }

    #[test]
    fn one_newline_at_the_end_is_cut() {
        for (content, secret) in [
            (&b"s3cret"[..], &b"s3cret"[..]),
            (b"s3cret\n", b"s3cret"),
            (b"s3cret\r\n", b"s3cret"),
            (b"two\nlines\n\n", b"two\nlines\n"),
            (b"\xff\x00", b"\xff\x00"),
        ] {
            let (_dir, path) = file(content);
            assert_eq!(read_plain(&path).unwrap(), secret, "{content:?}");
        }
    }

    #[test]
    fn an_empty_file_is_no_secret() {
        for content in [&b""[..], b"\n", b"\r\n"] {
            let (_dir, path) = file(content);
            let refused = read_plain(&path).unwrap_err();
            let text = "secret \"token\": it is empty; write the secret there; see the plugin's grants";
            assert_eq!((refused.code, refused.message.as_str()), (9, text), "{content:?}");
        }
    }

    /// Editors and shells of Windows put a mark in front of a text, some in UTF-16.
    #[test]
    fn ciphertext_behind_a_byte_order_mark_is_no_secret() {
        let armored = "-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n-----END AGE ENCRYPTED FILE-----\n";
        let wide =
            |to: fn(u16) -> [u8; 2]| format!("\u{feff}{armored}").encode_utf16().flat_map(to).collect::<Vec<_>>();
        let behind_mark = [b"\xef\xbb\xbf", armored.as_bytes()].concat();
        for content in [behind_mark, wide(u16::to_le_bytes), wide(u16::to_be_bytes)] {
            let (_dir, path) = file(&content);
            let refused = read_plain(&path).unwrap_err();
            assert!(refused.message.contains("is encrypted"), "{refused:?}");
        }
    }

    #[test]
    fn a_secret_is_bounded_and_never_told_in_errors() {
        let mut long = b"s3cret".repeat(MAX_SECRET / 6);
        long.resize(MAX_SECRET, b'x');
        let (_dir, path) = file(&[long.as_slice(), b"\r\n"].concat());
        assert_eq!(read_plain(&path).unwrap().len(), MAX_SECRET, "just fits");
        let (_dir, path) = file(&[long.as_slice(), b"yyyy"].concat());
        let refused = read_plain(&path).unwrap_err();
        assert_eq!(refused.code, 8);
        assert!(
            refused.message.contains("secret \"token\" has more than 65536 bytes") && !refused.message.contains("s3c")
        );
    }

    #[test]
    fn what_is_no_file_is_a_failure_and_not_a_wait() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().to_owned(), dir.path().join("absent"), "/dev/zero".into()] {
            let failure = read_plain(&Secret::File(path.clone())).unwrap_err();
            assert_eq!(failure.code, 9, "{path:?}: {failure:?}");
        }
        let failure = read_plain(&Secret::Env("MORTISE_TEST_HAS_NO_SUCH_VARIABLE".into())).unwrap_err();
        assert!(failure.message.contains("no MORTISE_TEST_HAS_NO_SUCH_VARIABLE"), "{failure:?}");
        let path = read_plain(&Secret::Env("PATH".into())).unwrap();
        assert_eq!(path, std::env::var_os("PATH").unwrap().into_vec());
    }

    #[test]
    fn an_encrypted_file_needs_an_identity_and_errors_name_everything_but_content() {
        let (dir, path) = file(b"age-encryption.org/v1\ns3cret");
        let failure = read_plain(&path).unwrap_err();
        assert_eq!(failure.code, 9);
        for part in ["\"token\"", "plugin.p.grants.secrets.token", &dir.path().join("secret").display().to_string()] {
            assert!(failure.message.contains(part), "{part}: {failure:?}");
        }
        assert!(
            failure.message.contains("plugins.age_identity_file") && !failure.message.contains("s3c"),
            "{failure:?}"
        );
    }
}
