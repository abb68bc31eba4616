//! Entry points for `fuzz/`: decoders of a backup's entries.

use crate::{entry, manifest::Manifest};

/// Reads bytes as the name of an entry, as records, and as a manifest.
pub fn entries(bytes: &[u8]) {
    if let Some(entry) = entry::Entry::parse(&String::from_utf8_lossy(bytes)) {
        let _ = (entry.name(), entry.max_bytes());
    }
    let mut rest = bytes;
    while !rest.is_empty() && entry::decode(&mut rest).is_ok() {}
    let _ = serde_json::from_slice::<Manifest>(bytes);
}
