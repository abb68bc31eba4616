//! What a plugin may keep, and what the operator may grant it: values of its own, bytes for each resource, and
//! directories.

#[cfg(target_arch = "wasm32")]
use crate::host::Host as _;
use crate::{Failure, host::AnyHost};

/// The plugin's own values under keys, as durable as resources, within a quota. See [`crate::Context::kv`].
#[derive(Clone, Copy)]
pub struct Kv<'a> {
    host: &'a AnyHost,
}

#[allow(clippy::missing_errors_doc, reason = "the host's failures, each")]
impl<'a> Kv<'a> {
    pub(crate) const fn new(host: &'a AnyHost) -> Self {
        Self { host }
    }

    /// The value under a key.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.host.kv_get(key)
    }

    /// Sets the value under a key, which has 1 to 256 bytes.
    pub fn set(&self, key: &str, value: &[u8]) -> Result<(), Failure> {
        self.host.kv_set(key, value)
    }

    /// Removes a key and its value, if they are there.
    pub fn remove(&self, key: &str) -> Result<(), Failure> {
        self.host.kv_remove(key)
    }

    /// The keys that begin with a prefix, in order.
    pub fn keys(&self, prefix: &str) -> Result<Vec<String>, Failure> {
        self.host.kv_keys(prefix)
    }
}

/// What the plugin keeps for one resource and nobody else is to see: up to 64 KiB, as durable as the resource, and
/// deleted with it. See [`crate::Context::private_bytes`].
#[derive(Clone)]
pub struct PrivateBytes<'a> {
    host: &'a AnyHost,
    id: Vec<u8>,
}

#[allow(clippy::missing_errors_doc, reason = "the host's failures, each; INVALID if the id has no uid")]
impl<'a> PrivateBytes<'a> {
    pub(crate) const fn new(host: &'a AnyHost, id: Vec<u8>) -> Self {
        Self { host, id }
    }

    /// What is kept.
    pub fn get(&self) -> Result<Option<Vec<u8>>, Failure> {
        self.host.private_bytes_get(&self.id)
    }

    /// Keeps this, in place of what was kept. The resource must be there.
    pub fn set(&self, value: &[u8]) -> Result<(), Failure> {
        self.host.private_bytes_set(&self.id, value)
    }

    /// Keeps nothing any more.
    pub fn remove(&self) -> Result<(), Failure> {
        self.host.private_bytes_remove(&self.id)
    }
}

/// A granted directory. Names of files are plain, and links are not followed. See [`crate::Context::files`].
#[derive(Clone, Copy)]
pub struct Files<'a> {
    host: &'a AnyHost,
    directory: &'a str,
}

#[allow(clippy::missing_errors_doc, reason = "the host's failures, each; DENIED if the directory was not granted")]
impl<'a> Files<'a> {
    pub(crate) const fn new(host: &'a AnyHost, directory: &'a str) -> Self {
        Self { host, directory }
    }

    /// The content of a file; none if it is not there.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.host.file_read(self.directory, name)
    }

    /// Puts a file in place, whole: whoever reads the directory sees the old content or the new.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        self.host.file_write(self.directory, name, content)
    }

    /// Writes a file unless it has that content already; whether it was written. What a reconciler that comes by often
    /// wants.
    pub fn write_if_changed(&self, name: &str, content: &[u8]) -> Result<bool, Failure> {
        if self.read(name)?.is_some_and(|found| found == content) {
            return Ok(false);
        }
        self.write(name, content).map(|()| true)
    }

    /// Removes a file, if it is there.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        self.host.file_remove(self.directory, name)
    }

    /// The names of the files, in order.
    pub fn list(&self) -> Result<Vec<String>, Failure> {
        self.host.file_list(self.directory)
    }
}
