//! The id of a store, made once: in the tree, and in the file `id` beside sled's: `mortise-store-id 01KA…` and a line
//! feed.
//!
//! The two are compared before an opening changes anything, so that the `db` of another store, or an older copy of it,
//! is refused. (The log belongs to the tree by its salt.) A store of an earlier release gets its id at its next
//! opening: in the tree first, durably, then in the file. So a file without an id in the tree is a fault, and a missing
//! file is made again.

use std::{fmt, fs, io, path::Path, str::FromStr};

use ulid::Ulid;

use crate::{
    StoreError,
    engine::tree::{keys, record, table::Table},
    error::io_fault,
};

/// Name of the file.
pub(crate) const FILE: &str = "id";
/// Word before the id.
const WORD: &str = "mortise-store-id ";

/// Id of a store: it differs from that of every other store, and stays for the life of the store. A restored store has
/// a new one unless the restore keeps that of the backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId(Ulid);

impl StoreId {
    /// Makes a new id.
    #[must_use]
    pub fn generate() -> Self {
        Self(Ulid::generate())
    }

    /// Returns the value in the tree.
    pub(crate) fn encode(self) -> Vec<u8> {
        let number = u128::from(self.0);
        record::encode_numbers(keys::STORE_ID, [(number >> 64) as u64, number as u64])
    }

    /// Reads the value in the tree; `None` when it is damaged.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let [high, low] = record::decode_numbers(keys::STORE_ID, value)?;
        Some(Self(Ulid::from(u128::from(high) << 64 | u128::from(low))))
    }

    /// Returns the content of the file.
    pub(crate) fn text(self) -> String {
        format!("{WORD}{self}\n")
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for StoreId {
    type Err = ulid::DecodeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ulid::from_string(text).map(Self)
    }
}

/// Returns the id in the file of the store in `dir`.
fn in_file(dir: &Path) -> Result<Option<StoreId>, StoreError> {
    let file = dir.join(FILE);
    let bytes = match fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(io_fault(&file, "read")(source)),
    };
    let id = str::from_utf8(&bytes).ok().and_then(|text| text.strip_prefix(WORD)?.trim_end().parse().ok());
    let what = "it holds no id (if only this file is damaged: remove it, and the next start makes it again)";
    id.map(Some).ok_or_else(|| StoreError::Corrupt { path: file.clone(), what: what.to_owned() })
}

/// Returns the id of the store in `dir` with this tree; `None` for a store of an earlier release, without one.
///
/// # Errors
/// [`StoreError::Corrupt`] when the tree and the directory are not of one store.
pub(crate) fn check(table: &Table, dir: &Path) -> Result<Option<StoreId>, StoreError> {
    let in_tree = table.get(keys::STORE_ID)?;
    let in_tree = in_tree.map(|value| {
        StoreId::decode(&value).ok_or_else(|| table.damaged(keys::STORE_ID, "the checksum does not match"))
    });
    match (in_tree.transpose()?, in_file(dir)?) {
        (Some(tree), Some(file)) if tree != file => Err(table.damaged(
            keys::STORE_ID,
            &format!("it is of the store {tree}, but {} is {file}", dir.join(FILE).display()),
        )),
        (None, Some(file)) => {
            let beside = dir.join(FILE);
            let what = format!(
                "it is missing, but {} is {file}: the tree is of another store, or an older copy",
                beside.display()
            );
            Err(table.damaged(keys::STORE_ID, &what))
        }
        (tree, _) => Ok(tree),
    }
}

/// Whether the store in `dir` has the file.
pub(crate) fn has_file(dir: &Path) -> bool {
    dir.join(FILE).exists()
}

/// Writes the file, durably.
pub(crate) fn set(dir: &Path, id: StoreId) -> Result<(), StoreError> {
    let (file, unfinished) = (dir.join(FILE), dir.join(format!("{FILE}.new")));
    Ok(mortise_durable_fs::replace_through(&unfinished, &file, id.text().as_bytes())?)
}
