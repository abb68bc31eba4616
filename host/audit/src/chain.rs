//! The chain of the records: each line has its number and the digest of the line before.
//!
//! A record ends with `"seq"`, its number from 1 on, and `"prev"`, the SHA-256 of the line before it, without its line
//! feed; the first record of a chain has no `"prev"`. If a kill left an unfinished line in between, `"torn"` is the
//! SHA-256 of its bytes. The chain goes through all files, and renaming them changes nothing. The file `audit.head` has
//! the number and the digest of the last record that is certainly on the disk, so that records that are taken from the
//! end are missed, too: a start continues from there if the files end before it.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use mortise_durable_fs::{AtomicFile, FsError};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::files::{CURRENT, closed_files};

/// Name of the file with the end of the chain.
pub(crate) const HEAD: &str = "audit.head";

/// Longest line, bytes: far more than [`MAX_FIELD_BYTES`](crate::MAX_FIELD_BYTES) allows.
pub(crate) const MAX_LINE_BYTES: u64 = 1 << 20;

/// A line's part in the chain.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Link {
    pub(crate) seq: Option<u64>,
    pub(crate) prev: Option<String>,
    pub(crate) torn: Option<String>,
}

/// The end of a chain, as `audit.head` has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) seq: u64,
    pub(crate) sha256: String,
}

/// The end of the chain, to which records are added.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chain {
    /// Number of the last record; 0 before the first.
    seq: u64,
    /// Digest of the last line.
    last: Option<String>,
    /// Digest of an unfinished line behind it.
    torn: Option<String>,
}

/// Returns the digest of a line, in hexadecimal.
pub(crate) fn digest(line: &[u8]) -> String {
    let digits = Sha256::digest(line).into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

impl Chain {
    /// Finds the end of the chain in a directory: in its newest file, or in `audit.head` if the files end before that.
    pub(crate) fn resume(dir: &Path) -> Result<Self, FsError> {
        let newest = [dir.join(CURRENT)].into_iter().chain(closed_files(dir)?.into_iter().rev());
        let mut found = Self::default();
        for path in newest {
            match tail(&path) {
                Ok(Tail { last: None, torn: None, .. }) => {}
                Ok(Tail { last, torn, .. }) => {
                    found.torn = found.torn.or_else(|| torn.as_deref().map(digest));
                    if let Some(last) = last {
                        found.seq = link(&last).and_then(|link| link.seq).unwrap_or(0);
                        found.last = Some(digest(&last));
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(FsError::with_path(&path, "read")(error)),
            }
        }
        let Some(head) = read_head(dir) else { return Ok(found) };
        if head.seq < found.seq || found.ends_at(&head) {
            return Ok(found);
        }
        tracing::error!(
            written = head.seq,
            found = found.seq,
            "the audit log ends with record {}, but {} were written: lines were changed, moved or removed; \
             `mortise audit verify` names the first one",
            found.seq,
            head.seq
        );
        Ok(Self { seq: head.seq, last: Some(head.sha256), torn: found.torn })
    }

    fn ends_at(&self, head: &Head) -> bool {
        self.seq == head.seq && self.last.as_ref() == Some(&head.sha256)
    }

    /// Notes an unfinished line at the end of the file that takes the next record.
    pub(crate) fn note_torn(&mut self, torn: &[u8]) {
        self.torn = Some(digest(torn));
    }

    /// Adds a record, `{…}` with a line feed, and returns its line.
    pub(crate) fn add(&mut self, record: &str) -> String {
        self.seq += 1;
        let fields = record.trim_end().strip_suffix('}').unwrap_or(record);
        let mut line = format!("{fields},\"seq\":{}", self.seq);
        // Writing into a string cannot fail.
        let _ = self.last.as_ref().map_or(Ok(()), |last| write!(line, ",\"prev\":\"{last}\""));
        let _ = self.torn.take().map_or(Ok(()), |torn| write!(line, ",\"torn\":\"{torn}\""));
        line.push('}');
        self.last = Some(digest(line.as_bytes()));
        line.push('\n');
        line
    }

    /// Returns the end of the chain; `None` before the first record.
    pub(crate) fn head(&self) -> Option<Head> {
        Some(Head { seq: self.seq, sha256: self.last.clone()? }).filter(|head| head.seq > 0)
    }
}

/// Reads a line's part in the chain; `None` for a line that is not a JSON object. Only a record has a number.
pub(crate) fn link(line: &[u8]) -> Option<Link> {
    serde_json::from_slice(line).ok()
}

/// Reads the end of the chain; `None` if the file is missing or was cut off.
pub(crate) fn read_head(dir: &Path) -> Option<Head> {
    let mut text = Vec::new();
    File::open(dir.join(HEAD)).ok()?.take(MAX_LINE_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Writes the end of the chain. Not durable: after a loss of power an older end is correct, too.
pub(crate) fn write_head(dir: &Path, head: &Head) -> Result<(), FsError> {
    let path: PathBuf = dir.join(HEAD);
    let mut file = AtomicFile::new_beside(&path)?;
    let text = serde_json::to_string(head).map_err(io::Error::other);
    text.and_then(|text| writeln!(file, "{text}")).map_err(FsError::with_path(&path, "write"))?;
    file.replace()
}

/// The last lines of a file.
pub(crate) struct Tail {
    /// Last whole line, without its line feed, which a record may lack at the end of the file.
    pub(crate) last: Option<Vec<u8>>,
    /// Unfinished line behind it.
    pub(crate) torn: Option<Vec<u8>>,
    /// Whether the file ends without a line feed.
    pub(crate) ends_within_line: bool,
}

/// Reads the last lines of a file.
pub(crate) fn tail(path: &Path) -> io::Result<Tail> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(2 * MAX_LINE_BYTES)))?;
    let mut text = Vec::new();
    file.take(2 * MAX_LINE_BYTES).read_to_end(&mut text)?;
    let mut lines = text.rsplit(|byte| *byte == b'\n').map(<[u8]>::to_vec);
    let rest = lines.next().filter(|rest| !rest.is_empty());
    let ends_within_line = rest.is_some();
    // Power may fail between a record and its line feed.
    let is_record = rest.as_deref().and_then(link).is_some_and(|link| link.seq.is_some());
    let (last, torn) = if is_record { (rest, None) } else { (lines.next(), rest) };
    Ok(Tail { last, torn, ends_within_line })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_record_names_its_number_and_the_line_before() {
        let mut chain = Chain::default();
        let first = chain.add("{\"time\":\"now\"}\n");
        assert_eq!(first, "{\"time\":\"now\",\"seq\":1}\n");
        let second = chain.add("{\"dropped\":7}\n");
        let prev = digest(first.trim_end().as_bytes());
        assert_eq!(second, format!("{{\"dropped\":7,\"seq\":2,\"prev\":\"{prev}\"}}\n"));
        assert_eq!(chain.head().unwrap(), Head { seq: 2, sha256: digest(second.trim_end().as_bytes()) });
    }

    #[test]
    fn the_end_is_that_of_the_newest_file_or_of_the_head() {
        let dir = tempfile::tempdir().unwrap();
        let mut chain = Chain::default();
        let [first, second] = ["{\"a\":1}\n", "{\"a\":2}\n"].map(|record| chain.add(record));
        let resumed = || Chain::resume(dir.path()).unwrap();
        assert!(resumed().head().is_none());
        fs::write(dir.path().join("audit-1.jsonl"), &first).unwrap();
        assert_eq!(resumed().seq, 1);
        fs::write(dir.path().join(CURRENT), "").unwrap();
        assert_eq!(resumed().seq, 1);
        fs::write(dir.path().join(CURRENT), format!("{second}{{\"ha")).unwrap();
        let end = resumed();
        assert_eq!((end.seq, end.torn), (2, Some(digest(b"{\"ha"))));
        let head = chain.head().unwrap();
        write_head(dir.path(), &head).unwrap();
        assert_eq!(resumed().head(), Some(head.clone()));
        let third = chain.add("{\"a\":3}\n");
        fs::write(dir.path().join(CURRENT), format!("{second}{third}")).unwrap();
        assert_eq!(resumed().head(), chain.head(), "killed before the end was written");
        fs::remove_file(dir.path().join(CURRENT)).unwrap();
        assert_eq!(resumed().head(), Some(head.clone()), "the files end before it");
        fs::write(dir.path().join(CURRENT), second.replace("\"a\":2", "\"a\":3")).unwrap();
        assert_eq!(resumed().head(), Some(head), "the last line was changed");
        fs::write(dir.path().join(HEAD), "{\"se").unwrap();
        fs::write(dir.path().join(CURRENT), "{\"before\":\"chains\"}\n").unwrap();
        let end = resumed();
        assert_eq!((end.seq, end.last), (0, Some(digest(b"{\"before\":\"chains\"}"))));
    }
}
