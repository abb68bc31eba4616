//! Storage of a plugin, and granted directories: values of its own, private bytes for each resource, files.

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

    /// Reads the value under a key.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.host.kv_get(key)
    }

    /// Sets the value under a key, which has 1 to 256 bytes.
    pub fn set(&self, key: &str, value: &[u8]) -> Result<(), Failure> {
        self.host.kv_set(key, value)
    }

    /// Removes a key and its value, if they exist.
    pub fn remove(&self, key: &str) -> Result<(), Failure> {
        self.host.kv_remove(key)
    }

    /// Lists the keys that begin with a prefix, in order.
    pub fn keys(&self, prefix: &str) -> Result<Vec<String>, Failure> {
        self.host.kv_keys(prefix)
    }
}

/// Private bytes of the plugin for one resource, hidden from clients and other plugins: up to 64 KiB, as durable as the
/// resource, and deleted with it. See [`crate::Context::private_bytes`].
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

    /// Reads the private bytes.
    pub fn get(&self) -> Result<Option<Vec<u8>>, Failure> {
        self.host.private_bytes_get(&self.id)
    }

    /// Replaces the private bytes. The resource must exist.
    pub fn set(&self, value: &[u8]) -> Result<(), Failure> {
        self.host.private_bytes_set(&self.id, value)
    }

    /// Removes the private bytes.
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

    /// Reads a file; `None` if it does not exist.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.host.file_read(self.directory, name)
    }

    /// Replaces a whole file: other readers of the directory see the old content or the new.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        self.host.file_write(self.directory, name, content)
    }

    /// Writes a file unless it has that content already; answers whether it was written. Meant for reconcilers, which
    /// run often.
    pub fn write_if_changed(&self, name: &str, content: &[u8]) -> Result<bool, Failure> {
        if self.read(name)?.is_some_and(|found| found == content) {
            return Ok(false);
        }
        self.write(name, content).map(|()| true)
    }

    /// Removes a file, if it exists.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        self.host.file_remove(self.directory, name)
    }

    /// Lists the names of the files, in order.
    pub fn list(&self) -> Result<Vec<String>, Failure> {
        self.host.file_list(self.directory)
    }
}
