//! Cache of compiled code and manifests, kept between runs.
//!
//! # Contract
//! One file for each component digest and engine: a keyed checksum, then the manifest's bytes, then machine code.
//! Loaded machine code runs unchecked, so a file is used only if its checksum, keyed with the secret of the directory,
//! is right; any other file is ignored, compiled again and replaced.
//!
//! The directory (mode 0700) and its secret (0600) belong to this user alone. If others had access, the modes are
//! corrected and a new secret is made, so that no earlier file is used; if another user owns one of them, the cache
//! stays off. A cache that cannot be used costs time, never correctness: only a `cache_dir` that is not a directory is
//! an error, since it was meant as something else.
//!
//! # Cost
//! Loading from the cache takes well under a millisecond where compiling takes tens. Files are replaced whole and not
//! synced: one that a loss of power damaged is compiled again.
//!
//! # Limits
//! `sandbox.code_cache_bytes` bounds the files of all engines and all processes that share the directory; the least
//! recently used are removed when a file is added, and when the cache is opened.

use std::{
    fs::{self, File, FileTimes, Metadata, OpenOptions, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use hmac::{Hmac, Mac as _};
use mortise_durable_fs::{AtomicFile, FsError};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;

use crate::{
    engine::configuration,
    error::LoadError,
    load::{compile::Compiled, machine_code::MachineCode},
};

/// Version of the files' layout.
const LAYOUT_VERSION: &str = "1";

/// Suffixes of a finished file of the cache, and of an unfinished one.
const FINISHED_SUFFIX: &str = ".bin";
const UNFINISHED_SUFFIX: &str = ".part";

/// Age of an unfinished file at which its writer must be gone: writing one takes less than a second.
const ABANDONED_AFTER: Duration = Duration::from_secs(60 * 60);

/// Bytes of the checksum at the front.
const MAC_LEN: usize = 32;

pub(crate) struct Cache {
    dir: PathBuf,
    /// `None`: the directory cannot be used, and the cache is off.
    secret: Option<[u8; 32]>,
    /// Most bytes of all files.
    limit: u64,
    /// Differs between wasmtime versions, settings and processors.
    fingerprint: String,
}

/// Cached data of a component.
pub(crate) struct Entry {
    pub(crate) compiled: Compiled,
    pub(crate) manifest: Vec<u8>,
}

/// Identity of a component: SHA-256 of its bytes, in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

impl Cache {
    /// Opens the cache in a directory, which is made if missing. `limit` bounds its files, bytes; 0 turns the cache
    /// off.
    pub(crate) fn open(dir: PathBuf, limit: u64, engine: &Engine) -> Result<Self, LoadError> {
        if dir.exists() && !dir.is_dir() {
            let what = format!("{} is not a directory; remove it, or choose another", dir.display());
            return Err(LoadError::Host {
                what: "creating the compile cache's directory (cache_dir)",
                source: wasmtime::Error::msg(what),
            });
        }
        let made = mortise_durable_fs::make_private_dir(&dir);
        let secret = match made.map_err(|e| (dir.clone(), e.source)).and_then(|()| secret(&dir)) {
            _ if limit == 0 => None,
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
        let cache = Self { dir, secret, limit, fingerprint: fingerprint(engine) };
        cache.remove_oldest();
        Ok(cache)
    }

    /// The same directory, for the code of another engine.
    pub(crate) fn of_engine(&self, engine: &Engine) -> Self {
        Self { dir: self.dir.clone(), fingerprint: fingerprint(engine), ..*self }
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.dir.join(format!("{digest}-{}-{LAYOUT_VERSION}{FINISHED_SUFFIX}", self.fingerprint))
    }

    fn mac(&self, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.as_ref()?).ok()?;
        parts.iter().for_each(|part| mac.update(part));
        Some(mac)
    }

    /// The entry of a digest; `None` if it is missing or fails its checksum.
    pub(crate) fn get(&self, engine: &Engine, digest: &str) -> Option<Entry> {
        self.secret?;
        let path = self.path(digest);
        let bytes = fs::read(&path).ok()?;
        let entry = self.verified(digest, &bytes).and_then(|(manifest, code)| {
            let code = MachineCode::of(code).ok()?;
            let component = code.load(engine).ok()?;
            Some(Entry { compiled: Compiled { component, code }, manifest: manifest.to_vec() })
        });
        if entry.is_some() {
            // Marks the time of last use. A file that cannot be marked is removed a little earlier.
            let times = FileTimes::new().set_accessed(SystemTime::now());
            let _ = File::open(&path).and_then(|file| file.set_times(times));
        } else {
            tracing::warn!(path = %path.display(), "compile cache entry is damaged or foreign; compiling again");
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
    pub(crate) fn put(&self, digest: &str, code: &MachineCode, manifest: &[u8]) {
        if self.secret.is_none() {
            return;
        }
        if let Err(e) = self.try_put(digest, code, manifest) {
            tracing::warn!(dir = %self.dir.display(), "compile cache not written: {e}");
        }
    }

    fn try_put(&self, digest: &str, code: &MachineCode, manifest: &[u8]) -> Result<(), wasmtime::Error> {
        let code = code.bytes()?;
        let len = (manifest.len() as u64).to_le_bytes();
        let mac = self
            .mac(&[digest.as_bytes(), &len, manifest, &code])
            .ok_or_else(|| wasmtime::Error::msg("cannot compute a checksum"))?
            .finalize()
            .into_bytes();
        let parts = [mac.as_slice(), &len, manifest, &code];
        if parts.iter().map(|part| part.len() as u64).sum::<u64>() > self.limit {
            return Ok(());
        }
        let mut file = AtomicFile::new_beside(&self.path(digest))?;
        for part in parts {
            file.write_all(part)?;
        }
        file.replace()?;
        self.remove_oldest();
        Ok(())
    }

    /// Removes the least recently used files until the others are within the limit, and abandoned unfinished files.
    /// Other processes may do the same meanwhile; a file that cannot be removed is tried again the next time.
    fn remove_oldest(&self) {
        if self.secret.is_none() {
            return;
        }
        let mut files = Vec::new();
        let now = SystemTime::now();
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Ok(metadata) = entry.metadata() else { continue };
            let used = metadata.accessed().unwrap_or(SystemTime::UNIX_EPOCH);
            if name.ends_with(FINISHED_SUFFIX) {
                files.push((used, metadata.len(), entry.path()));
            } else if name.ends_with(UNFINISHED_SUFFIX)
                && now.duration_since(used).is_ok_and(|age| age > ABANDONED_AFTER)
            {
                let _ = fs::remove_file(entry.path());
            }
        }
        files.sort_unstable();
        let mut bytes: u64 = files.iter().map(|(_, len, _)| len).sum();
        for (_, len, path) in files {
            if bytes <= self.limit {
                break;
            }
            match fs::remove_file(&path) {
                Ok(()) => bytes -= len,
                Err(e) if e.kind() == io::ErrorKind::NotFound => bytes -= len,
                Err(e) => tracing::warn!(path = %path.display(), "cannot remove compiled code that is not used: {e}"),
            }
        }
    }
}

fn fingerprint(engine: &Engine) -> String {
    format!("{:016x}", configuration::fingerprint(engine))
}

/// Secret of this directory, made at the first use and whenever others had access. The error names the path at fault.
fn secret(dir: &Path) -> Result<[u8; 32], (PathBuf, io::Error)> {
    let path = dir.join("secret");
    let was_private = make_private(dir).map_err(|e| (dir.to_owned(), e))?;
    let known = if was_private { read_secret(&path) } else { Ok(None) };
    let secret = match known {
        Ok(Some(secret)) => Ok(secret),
        Ok(None) => new_secret(&path),
        Err(e) => Err(e),
    };
    secret.map_err(|e| (path, e))
}

/// Removes other users' access to the directory. Answers whether they could not write into it before.
fn make_private(dir: &Path) -> io::Result<bool> {
    let metadata = fs::metadata(dir)?;
    refuse_foreign(&metadata)?;
    if metadata.mode() & 0o077 != 0 {
        fs::set_permissions(dir, Permissions::from_mode(0o700))?;
        tracing::warn!(
            path = %dir.display(),
            "the compile cache (cache_dir) was open to other users (mode {:03o}); its mode is 700 from now on",
            metadata.mode() & 0o777
        );
    }
    Ok(metadata.mode() & 0o022 == 0)
}

/// Reads a secret that is whole and private; `None` for one that must be replaced.
fn read_secret(path: &Path) -> io::Result<Option<[u8; 32]>> {
    let opened =
        OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()).open(path);
    let mut file = match opened {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let metadata = file.metadata()?;
    refuse_foreign(&metadata)?;
    let mut secret = [0; 32];
    let whole = metadata.mode() & 0o077 == 0 && metadata.len() == 32;
    if whole { file.read_exact(&mut secret).map(|()| Some(secret)) } else { Ok(None) }
}

fn refuse_foreign(metadata: &Metadata) -> io::Result<()> {
    let (owner, this) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner == this {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it belongs to user {owner}, but this is user {this}")))
}

/// Makes a secret. If two processes make one at once, the second counts; files of the first are compiled again.
fn new_secret(path: &Path) -> io::Result<[u8; 32]> {
    let mut secret = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut secret)?;
    let made = AtomicFile::new_beside(path).and_then(|mut file| {
        file.write_all(&secret).map_err(FsError::with_path(path, "write"))?;
        file.replace()
    });
    made.map(|()| secret).map_err(|e| e.source)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &[u8] = b"(component)";
    const LIMIT: u64 = 1 << 30;

    fn code(engine: &Engine) -> MachineCode {
        // `\0asm`, version 13 of the component layer: the empty component.
        let bytes = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00];
        MachineCode::of(&engine.precompile_component(&bytes).unwrap()).unwrap()
    }

    #[test]
    fn an_entry_comes_back_and_a_damaged_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::default();
        let cache = Cache::open(dir.path().join("cache"), LIMIT, &engine).unwrap();
        let digest = digest(EMPTY);
        assert!(cache.get(&engine, &digest).is_none());
        cache.put(&digest, &code(&engine), b"manifest");
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
        let cache = Cache::open(dir.path().join("one"), LIMIT, &engine).unwrap();
        let two = Cache::open(dir.path().join("two"), LIMIT, &engine).unwrap();
        let (a, b) = (digest(b"a"), digest(b"b"));
        cache.put(&a, &code(&engine), b"");
        fs::copy(cache.path(&a), cache.path(&b)).unwrap();
        assert!(cache.get(&engine, &b).is_none(), "renamed");
        fs::copy(cache.path(&a), two.path(&a)).unwrap();
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
            let cache = Cache::open(place, LIMIT, &engine).unwrap();
            let digest = digest(EMPTY);
            fs::write(crooked.join(format!("{digest}-{}-{LAYOUT_VERSION}.bin", fingerprint(&engine))), b"foreign")
                .unwrap();
            cache.put(&digest, &code(&engine), b"");
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
        let error = Cache::open(file.clone(), LIMIT, &Engine::default()).err().unwrap().to_string();
        assert!(
            error.contains("(cache_dir)") && error.contains(&format!("{} is not a directory", file.display())),
            "{error}"
        );
    }

    #[test]
    fn the_directory_and_its_files_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::default();
        let cache = Cache::open(dir.path().join("cache"), LIMIT, &engine).unwrap();
        let digest = digest(EMPTY);
        cache.put(&digest, &code(&engine), b"");
        assert_eq!(mode(&cache.dir), 0o700);
        assert_eq!(mode(&cache.path(&digest)), 0o600);
        assert_eq!(mode(&cache.dir.join("secret")), 0o600);
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_was_used_least_lately_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::default();
        let place = dir.path().join("cache");
        let cache = Cache::open(place.clone(), LIMIT, &engine).unwrap();
        let digests = [b"a", b"b", b"c"].map(|name| digest(name));
        let age = |digest: &str, seconds| {
            let file = File::options().write(true).open(cache.path(digest)).unwrap();
            let used = SystemTime::now() - Duration::from_secs(seconds);
            file.set_times(FileTimes::new().set_accessed(used)).unwrap();
        };
        for (n, digest) in digests.iter().enumerate() {
            cache.put(digest, &code(&engine), b"");
            age(digest, 1_000 - n as u64);
        }
        fs::write(place.join(".mortise-1.part"), b"left").unwrap();
        let left = File::options().write(true).open(place.join(".mortise-1.part")).unwrap();
        left.set_times(FileTimes::new().set_accessed(SystemTime::now() - 2 * ABANDONED_AFTER)).unwrap();
        fs::write(place.join(".mortise-2.part"), b"being written").unwrap();
        assert!(cache.get(&engine, &digests[0]).is_some(), "used now");

        let each = fs::metadata(cache.path(&digests[0])).unwrap().len();
        let two = Cache::open(place.clone(), 2 * each + 1, &engine).unwrap();
        let kept = digests.each_ref().map(|digest| two.get(&engine, digest).is_some());
        assert_eq!(kept, [true, false, true]);
        assert!(!place.join(".mortise-1.part").exists() && place.join(".mortise-2.part").exists());

        age(&digests[2], 500);
        two.put(&digest(b"d"), &code(&engine), b"");
        let kept = digests.each_ref().map(|digest| two.get(&engine, digest).is_some());
        assert_eq!(kept, [true, false, false]);
        two.put(&digests[1], &code(&engine), &vec![0; 3 * each as usize]);
        assert!(two.get(&engine, &digests[1]).is_none(), "larger than everything may be");
        assert!(two.get(&engine, &digest(b"d")).is_some());
    }

    #[test]
    fn no_limit_keeps_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::default();
        let cache = Cache::open(dir.path().join("cache"), 0, &engine).unwrap();
        cache.put(&digest(EMPTY), &code(&engine), b"");
        assert!(cache.get(&engine, &digest(EMPTY)).is_none());
    }

    #[test]
    fn a_directory_that_others_could_write_into_counts_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::default();
        let place = dir.path().join("cache");
        let digest = digest(EMPTY);
        let kept_after = |change: &dyn Fn()| {
            Cache::open(place.clone(), LIMIT, &engine).unwrap().put(&digest, &code(&engine), b"");
            change();
            let cache = Cache::open(place.clone(), LIMIT, &engine).unwrap();
            assert_eq!((mode(&place), mode(&place.join("secret"))), (0o700, 0o600));
            let kept = cache.get(&engine, &digest).is_some();
            cache.put(&digest, &code(&engine), b"");
            assert!(cache.get(&engine, &digest).is_some(), "it works on");
            kept
        };
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let secret = place.join("secret");
        assert!(kept_after(&|| ()));
        assert!(kept_after(&|| set(&place, 0o755)), "others could only read, and the secret was private");
        assert!(!kept_after(&|| set(&place, 0o775)));
        assert!(!kept_after(&|| set(&secret, 0o644)));
        assert!(!kept_after(&|| fs::write(&secret, b"short").unwrap()));
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            // On the real stderr: what a passing test prints is swallowed.
            let _ = writeln!(std::io::stderr(), "\nSKIPPED: a file of another user can be made by root alone");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::default();
        let place = dir.path().join("cache");
        Cache::open(place.clone(), LIMIT, &engine).unwrap().put(&digest(EMPTY), &code(&engine), b"");
        for foreign in [place.join("secret"), place.clone()] {
            std::os::unix::fs::chown(&foreign, Some(12_345), None).unwrap();
            let cache = Cache::open(place.clone(), LIMIT, &engine).unwrap();
            assert!(cache.get(&engine, &digest(EMPTY)).is_none(), "{}", foreign.display());
            std::os::unix::fs::chown(&foreign, Some(0), None).unwrap();
        }
        let link = place.join("secret");
        fs::rename(&link, place.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &link).unwrap();
        assert!(Cache::open(place, LIMIT, &engine).unwrap().get(&engine, &digest(EMPTY)).is_none(), "a link");
    }
}
