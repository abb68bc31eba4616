//! `secrets`: granted secrets, read each time they are asked for, so that a secret that was changed is the new one at
//! once.
//!
//! Content appears in no log and no error. A secret has at most 64 KiB.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::{ffi::OsStringExt, fs::OpenOptionsExt as _},
    path::Path,
};

use mortise_resource::Code;

use crate::{
    bindings::imports::mortise::plugin::secrets::Host,
    grants::Secret,
    host::{call_context::Answer, files::blocking, reconciler_host::Failure, state::State},
};

/// Longest secret, bytes.
const MAX_SECRET: usize = 64 << 10;

impl Host for State {
    async fn get(&mut self, name: String) -> Answer<Vec<u8>> {
        self.ask("secrets.get", |question| async move {
            let Some(secret) = question.permit.secret(&name).cloned() else {
                let text = format!("secret {name:?} is not granted; {}", question.permit.secret_remedy(&name));
                return Err(Failure::new(Code::PermissionDenied, text));
            };
            blocking(question, move |_| read(&name, &secret)).await
        })
        .await
    }
}

fn read(name: &str, secret: &Secret) -> Result<Vec<u8>, Failure> {
    let missing = |what: String| {
        Failure::new(Code::FailedPrecondition, format!("secret {name:?}: {what}; see the plugin's grants"))
    };
    let content = match secret {
        Secret::File(path) => content(path).map_err(|e| missing(format!("its file cannot be read: {e}")))?,
        Secret::Env(variable) => std::env::var_os(variable)
            .map(OsStringExt::into_vec)
            .ok_or_else(|| missing(format!("the server's environment has no {variable}")))?,
    };
    if content.len() > MAX_SECRET {
        let text = format!("secret {name:?} has more than {MAX_SECRET} bytes, which is too long for a secret");
        return Err(Failure::new(Code::ResourceExhausted, text));
    }
    Ok(content)
}

/// A file without the newline at its end.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    // Without waiting: what is no file may never have an end, or a beginning.
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let file: File = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let mut content = Vec::new();
    // Room for the newline, and for one byte that is too many.
    file.take(MAX_SECRET as u64 + 3).read_to_end(&mut content)?;
    if content.last() == Some(&b'\n') {
        content.pop();
        if content.last() == Some(&b'\r') {
            content.pop();
        }
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (b"\n", b""),
            (b"\xff\x00", b"\xff\x00"),
        ] {
            let (_dir, at) = file(content);
            assert_eq!(read("token", &at).unwrap(), secret, "{content:?}");
        }
    }

    #[test]
    fn a_secret_is_bounded_and_never_told_in_errors() {
        let mut long = b"s3cret".repeat(MAX_SECRET / 6);
        long.resize(MAX_SECRET, b'x');
        let (_dir, at) = file(&[long.as_slice(), b"\r\n"].concat());
        assert_eq!(read("token", &at).unwrap().len(), MAX_SECRET, "just fits");
        let (_dir, at) = file(&[long.as_slice(), b"yyyy"].concat());
        let refused = read("token", &at).unwrap_err();
        assert_eq!(refused.code, 8);
        assert!(
            refused.message.contains("secret \"token\" has more than 65536 bytes") && !refused.message.contains("s3c")
        );
    }

    #[test]
    fn what_is_no_file_is_a_failure_and_not_a_wait() {
        let dir = tempfile::tempdir().unwrap();
        for at in [dir.path().to_owned(), dir.path().join("absent"), "/dev/zero".into()] {
            let failure = read("token", &Secret::File(at.clone())).unwrap_err();
            assert_eq!(failure.code, 9, "{at:?}: {failure:?}");
        }
        let failure = read("token", &Secret::Env("MORTISE_TEST_HAS_NO_SUCH_VARIABLE".into())).unwrap_err();
        assert!(failure.message.contains("no MORTISE_TEST_HAS_NO_SUCH_VARIABLE"), "{failure:?}");
        let path = read("token", &Secret::Env("PATH".into())).unwrap();
        assert_eq!(path, std::env::var_os("PATH").unwrap().into_vec());
    }
}
