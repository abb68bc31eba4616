//! Compiled code and manifests, kept between runs.
//!
//! One file for each component digest and engine: a keyed checksum, then the manifest's bytes, then machine code. Machine
//! code is trusted by whoever loads it, so a file counts only if its checksum, keyed with a secret that lives beside it
//! with private mode, is right; anything else is as good as absent, and is compiled and written anew. Files are written
//! to a temporary name and renamed. A cache that cannot be written or read costs time, never correctness: only a
//! `cache_dir` that is no directory is an error, since someone meant something else.
//!
//! Loading from the cache takes well under a millisecond where compiling takes tens.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use wasmtime::{Engine, component::Component};

use crate::{engine::configuration, error::LoadError};

/// Changes with the layout of the files.
const LAYOUT: &str = "1";

/// Bytes of the checksum in front.
const MAC_LEN: usize = 32;

pub(crate) struct Cache {
    dir: PathBuf,
    /// None: the directory cannot be used, and nothing is kept.
    secret: Option<[u8; 32]>,
    /// Differs between wasmtime versions, settings and processors.
    fingerprint: String,
}

/// What is kept of a component.
pub(crate) struct Entry {
    pub(crate) component: Component,
    pub(crate) manifest: Vec<u8>,
}

/// A component's identity: SHA-256 of its bytes, in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Cache {
    pub(crate) fn open(dir: PathBuf, engine: &Engine) -> Result<Self, LoadError> {
        if dir.exists() && !dir.is_dir() {
            let what = format!("{} is not a directory; remove it, or choose another", dir.display());
            return Err(LoadError::Host {
                what: "creating the compile cache's directory (cache_dir)",
                source: wasmtime::Error::msg(what),
            });
        }
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        let secret = match made.map_err(|e| (dir.clone(), e)).and_then(|()| secret(&dir)) {
            Ok(secret) => Some(secret),
            Err((path, e)) => {
                tracing::warn!(
                    path = %path.display(),
                    "the compile cache (cache_dir) cannot be used: {e}; every start compiles all plugins until this user \
                     may read and write it, or cache_dir names another directory"
                );
                None
            }
        };
        Ok(Self { dir, secret, fingerprint: fingerprint(engine) })
    }

    /// The same directory, for the code of another engine.
    pub(crate) fn of_engine(&self, engine: &Engine) -> Self {
        Self { dir: self.dir.clone(), secret: self.secret, fingerprint: fingerprint(engine) }
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.dir.join(format!("{digest}-{}-{LAYOUT}.bin", self.fingerprint))
    }

    fn mac(&self, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.as_ref()?).ok()?;
        parts.iter().for_each(|part| mac.update(part));
        Some(mac)
    }

    /// The entry of a digest; none when it is missing or not one of ours.
    pub(crate) fn get(&self, engine: &Engine, digest: &str) -> Option<Entry> {
        self.secret?;
        let path = self.path(digest);
        let bytes = fs::read(&path).ok()?;
        let entry = self.verified(digest, &bytes).and_then(|(manifest, code)| {
            let component = deserialize(engine, code)?;
            Some(Entry { component, manifest: manifest.to_vec() })
        });
        if entry.is_none() {
            tracing::warn!(path = %path.display(), "compile cache entry is damaged or foreign; compiling anew");
        }
        entry
    }

    fn verified<'a>(&self, digest: &str, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let (mac, rest) = bytes.split_at_checked(MAC_LEN)?;
        self.mac(&[digest.as_bytes(), rest])?.verify_slice(mac).ok()?;
        let (len, rest) = rest.split_at_checked(8)?;
        let len = usize::try_from(u64::from_le_bytes(len.try_into().ok()?)).ok()?;
        rest.split_at_checked(len)
    }

    /// Keeps an entry. A failure is logged and costs the next start some time.
    pub(crate) fn put(&self, digest: &str, component: &Component, manifest: &[u8]) {
        if self.secret.is_none() {
            return;
        }
        if let Err(e) = self.try_put(digest, component, manifest) {
            tracing::warn!(dir = %self.dir.display(), "compile cache not written: {e}");
        }
    }

    fn try_put(&self, digest: &str, component: &Component, manifest: &[u8]) -> Result<(), wasmtime::Error> {
        let code = component.serialize()?;
        let len = (manifest.len() as u64).to_le_bytes();
        let mac = self
            .mac(&[digest.as_bytes(), &len, manifest, &code])
            .ok_or_else(|| wasmtime::Error::msg("cannot compute a checksum"))?
            .finalize()
            .into_bytes();
        // Private mode is what tempfile gives.
        let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
        for part in [mac.as_slice(), &len, manifest, &code] {
            file.write_all(part)?;
        }
        file.persist(self.path(digest)).map_err(|e| e.error)?;
        Ok(())
    }
}

fn fingerprint(engine: &Engine) -> String {
    format!("{:016x}", configuration::fingerprint(engine))
}

/// A component in another engine that can run the same code, without compiling it again. None when it cannot.
pub(crate) fn moved(component: &Component, to: &Engine) -> Option<Component> {
    // The same bytes that go into a file, and nobody has had them in between.
    deserialize(to, &component.serialize().ok()?)
}

/// The secret of this directory, made at the first use; or where it should be, and what is wrong there.
fn secret(dir: &Path) -> Result<[u8; 32], (PathBuf, io::Error)> {
    let path = dir.join("secret");
    let read = || -> io::Result<[u8; 32]> {
        let mut secret = [0; 32];
        fs::File::open(&path)?.read_exact(&mut secret)?;
        Ok(secret)
    };
    let make = || {
        let mut secret = [0; 32];
        fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
        let mut file = tempfile::Builder::new().tempfile_in(dir)?;
        file.write_all(&secret)?;
        match file.persist_noclobber(&path) {
            Ok(_) => Ok(secret),
            // Another process was first, or a truncated file is in the way.
            Err(_) => read().or_else(|_| {
                let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
                file.write_all(&secret)?;
                Ok(secret)
            }),
        }
    };
    read().or_else(|_| make()).map_err(|e| (path.clone(), e))
}

/// The only unsafe code of the host: machine code from a file.
#[allow(unsafe_code, reason = "wasmtime cannot check machine code; the argument stands below")]
fn deserialize(engine: &Engine, code: &[u8]) -> Option<Component> {
    // SAFETY: the bytes came out of `Component::serialize` of this very program: their checksum is keyed with a secret
    // that only this user can read. Wasmtime itself refuses code of another version, setting or processor.
    unsafe { Component::deserialize(engine, code) }.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &[u8] = b"(component)";

    fn component(engine: &Engine) -> Component {
        // `\0asm`, version 13 of the component layer: the empty component.
        let bytes = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00];
        Component::from_binary(engine, &bytes).unwrap()
    }

    #[test]
    fn an_entry_comes_back_and_a_damaged_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::default();
        let cache = Cache::open(dir.path().join("cache"), &engine).unwrap();
        let digest = digest(EMPTY);
        assert!(cache.get(&engine, &digest).is_none());
        cache.put(&digest, &component(&engine), b"manifest");
        assert_eq!(cache.get(&engine, &digest).unwrap().manifest, b"manifest");

        let path = cache.path(&digest);
        let mut bytes = fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(cache.get(&engine, &digest).is_none());
        fs::write(&path, &bytes[..10]).unwrap();
        assert!(cache.get(&engine, &digest).is_none());
    }

    #[test]
    fn a_file_is_bound_to_its_digest_and_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::default();
        let one = Cache::open(dir.path().join("one"), &engine).unwrap();
        let two = Cache::open(dir.path().join("two"), &engine).unwrap();
        let (a, b) = (digest(b"a"), digest(b"b"));
        one.put(&a, &component(&engine), b"");
        fs::copy(one.path(&a), one.path(&b)).unwrap();
        assert!(one.get(&engine, &b).is_none(), "renamed");
        fs::copy(one.path(&a), two.path(&a)).unwrap();
        assert!(two.get(&engine, &a).is_none(), "from a cache with another secret");
    }

    #[test]
    fn a_cache_that_cannot_be_used_keeps_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::default();
        let (crooked, file) = (dir.path().join("crooked"), dir.path().join("file"));
        fs::create_dir_all(crooked.join("secret")).unwrap();
        fs::write(&file, b"").unwrap();
        for place in [crooked.clone(), file.join("below")] {
            let cache = Cache::open(place, &engine).unwrap();
            let digest = digest(EMPTY);
            fs::write(crooked.join(format!("{digest}-{}-{LAYOUT}.bin", fingerprint(&engine))), b"foreign").unwrap();
            cache.put(&digest, &component(&engine), b"");
            assert!(cache.get(&engine, &digest).is_none());
            assert!(cache.of_engine(&engine).get(&engine, &digest).is_none());
        }
        assert_eq!(fs::read_dir(&crooked).unwrap().count(), 2, "nothing was written beside what was there");
    }

    #[test]
    fn a_file_is_no_directory_for_a_cache() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"").unwrap();
        let error = Cache::open(file.clone(), &Engine::default()).err().unwrap().to_string();
        assert!(
            error.contains("(cache_dir)") && error.contains(&format!("{} is not a directory", file.display())),
            "{error}"
        );
    }

    #[test]
    fn the_directory_and_its_files_are_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::default();
        let cache = Cache::open(dir.path().join("cache"), &engine).unwrap();
        let digest = digest(EMPTY);
        cache.put(&digest, &component(&engine), b"");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&cache.dir), 0o700);
        assert_eq!(mode(&cache.path(&digest)), 0o600);
        assert_eq!(mode(&cache.dir.join("secret")), 0o600);
    }
}
