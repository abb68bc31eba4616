//! The entries of a backup: their names, and the encoding of records in them.

use mortise_store::{Record, RecordKind};
use prost::Message;
use sha2::{Digest as _, Sha256};

/// Name of the first entry.
pub(crate) const MANIFEST: &str = "manifest.json";
/// Name of the configuration's entry.
pub(crate) const CONFIG: &str = "config.toml";
/// Name of the last entry: a SHA-256 of each other entry, in the format of `sha256sum`.
pub(crate) const SUMS: &str = "SHA256SUMS";
/// Size at which an entry of records ends, bytes.
pub(crate) const RECORDS_BYTES: usize = 1 << 20;
/// Largest entry of records, bytes, which is held in memory when read: one record may be as large as the largest
/// resource.
pub(crate) const MAX_RECORDS_BYTES: u64 = (1 << 30) + (2 << 20);
/// Largest list of checksums, bytes: some 100 bytes for each MiB of records.
pub(crate) const MAX_SUMS_BYTES: u64 = 256 << 20;
/// Largest manifest, bytes: some 100 bytes for each type. As JSON it takes many times as much memory.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 4 << 20;
/// Largest configuration, bytes.
pub(crate) const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// Largest component, bytes.
pub(crate) const MAX_COMPONENT_BYTES: u64 = 1 << 30;
/// Largest signature of a component, bytes: the same limit as for loading it.
pub(crate) const MAX_SIGNATURE_BYTES: u64 = 16 << 10;
/// Longest name of an entry, bytes.
pub(crate) const MAX_NAME_BYTES: u64 = 4 << 10;

/// Meaning of an entry, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    Manifest,
    Config,
    /// A component that the server keeps for a plugin, or its signature.
    Kept {
        plugin: String,
        file: String,
    },
    /// A file of the plugin folder.
    Folder {
        file: String,
    },
    /// Records; numbers start at 1.
    Records(u64),
    Sums,
}

impl Entry {
    /// Returns its path in the archive.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Manifest => MANIFEST.to_owned(),
            Self::Config => CONFIG.to_owned(),
            Self::Kept { plugin, file } => format!("plugins/kept/{plugin}/{file}"),
            Self::Folder { file } => format!("plugins/folder/{file}"),
            Self::Records(number) => format!("records/{number:08}"),
            Self::Sums => SUMS.to_owned(),
        }
    }

    /// Returns the largest uncompressed size, bytes. The bound matters since a seal does not tell who made the backup.
    pub(crate) fn max_bytes(&self) -> u64 {
        match self {
            Self::Manifest => MAX_MANIFEST_BYTES,
            Self::Config => MAX_CONFIG_BYTES,
            Self::Kept { file, .. } | Self::Folder { file } if is_signature(file) => MAX_SIGNATURE_BYTES,
            Self::Kept { .. } | Self::Folder { .. } => MAX_COMPONENT_BYTES,
            Self::Records(_) => MAX_RECORDS_BYTES,
            Self::Sums => MAX_SUMS_BYTES,
        }
    }

    /// Parses a name; `None` for a name that backups do not use. No part of a path leads outside its directory.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let parts: Vec<_> = name.split('/').collect();
        let entry = match parts.as_slice() {
            [MANIFEST] => Self::Manifest,
            [CONFIG] => Self::Config,
            [SUMS] => Self::Sums,
            ["plugins", "kept", plugin, file] if is_file(plugin) && is_plugin_file(file) => {
                Self::Kept { plugin: (*plugin).to_owned(), file: (*file).to_owned() }
            }
            ["plugins", "folder", file] if is_plugin_file(file) => Self::Folder { file: (*file).to_owned() },
            ["records", number] => Self::Records(number.parse().ok()?),
            _ => return None,
        };
        (entry.name() == name).then_some(entry)
    }
}

/// Whether the name can be that of a file, on disk and in a list of checksums.
pub(crate) fn is_file(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control())
}

/// Whether the name can be that of a component's file, or of its signature.
pub(crate) fn is_plugin_file(name: &str) -> bool {
    is_file(name) && (name.ends_with(".wasm") || is_signature(name))
}

/// Whether the name is that of a signature's file.
pub(crate) fn is_signature(name: &str) -> bool {
    name.ends_with(".wasm.minisig")
}

/// Wire form of `mortise.backup.v1.Record`, with the resource as its stored bytes.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WireRecord {
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
    #[prost(uint64, tag = "2")]
    pub(crate) sequence: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) resource: Vec<u8>,
    #[prost(fixed64, optional, tag = "1000")]
    /// Absent in records of earlier releases.
    pub(crate) checksum: Option<u64>,
}

impl WireRecord {
    fn sum(&self) -> u64 {
        let mut hasher = Sha256::new();
        hasher.update([u8::try_from(self.kind).unwrap_or(u8::MAX)]);
        hasher.update(self.sequence.to_le_bytes());
        hasher.update(&self.resource);
        let digest: [u8; 32] = hasher.finalize().into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

/// Appends a record with its length before it.
pub(crate) fn encode(record: Record, into: &mut Vec<u8>) {
    let kind = match record.kind {
        RecordKind::Resource => 1,
        RecordKind::Upsert => 2,
        RecordKind::Delete => 3,
    };
    let mut wire = WireRecord { kind, sequence: record.sequence, resource: record.payload, checksum: None };
    wire.checksum = Some(wire.sum());
    into.extend_from_slice(&wire.encode_length_delimited_to_vec());
}

/// Reason why bytes are not a valid record.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("a record does not decode: {0}")]
    Undecodable(#[from] prost::DecodeError),
    #[error("a record is of the unknown kind {0}")]
    UnknownKind(i32),
    #[error("the record of commit {0} does not match its checksum")]
    Altered(u64),
}

/// A decoded record.
pub(crate) struct Decoded {
    pub(crate) record: Record,
    /// Whether the record has a checksum; a wrong one is an error.
    pub(crate) is_proven: bool,
}

/// Takes the first record off `bytes`.
///
/// # Errors
/// [`RecordError`]. After `Altered` and `UnknownKind` `bytes` starts with the next record.
pub(crate) fn decode(bytes: &mut &[u8]) -> Result<Decoded, RecordError> {
    let wire = WireRecord::decode_length_delimited(bytes)?;
    if wire.checksum.is_some_and(|checksum| checksum != wire.sum()) {
        return Err(RecordError::Altered(wire.sequence));
    }
    let kind = match wire.kind {
        1 => RecordKind::Resource,
        2 => RecordKind::Upsert,
        3 => RecordKind::Delete,
        other => return Err(RecordError::UnknownKind(other)),
    };
    let record = Record { kind, sequence: wire.sequence, payload: wire.resource };
    Ok(Decoded { record, is_proven: wire.checksum.is_some() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_others_are_none() {
        let digest = format!("{}.wasm", "a".repeat(64));
        for entry in [
            Entry::Manifest,
            Entry::Config,
            Entry::Sums,
            Entry::Records(12),
            Entry::Folder { file: "My plugin.wasm".into() },
            Entry::Folder { file: "demo.wasm.minisig".into() },
            Entry::Kept { plugin: "demo".into(), file: format!("{digest}.minisig") },
            Entry::Kept { plugin: "demo".into(), file: digest },
        ] {
            assert_eq!(Entry::parse(&entry.name()), Some(entry));
        }
        for name in [
            "",
            "/manifest.json",
            "manifest.json/",
            "records/1",
            "records/x",
            "records/00000001/x",
            "plugins/folder/../x.wasm",
            "plugins/folder/..wasm",
            "plugins/folder/x",
            "plugins/folder/x.minisig",
            "plugins/folder/x\n.wasm",
            "plugins/kept/../x.wasm",
            "plugins/kept/a/b/x.wasm",
            "../manifest.json",
        ] {
            assert_eq!(Entry::parse(name), None, "{name:?}");
        }
    }
}
