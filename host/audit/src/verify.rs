//! Verification of files: that no record is missing, changed or added.
//!
//! Records are numbered, and each has the digest of the one before ([`chain`](crate::chain)). So a change breaks the
//! chain at the next line, and at the last line if `audit.head` is there. The digests have no key: a user who may write
//! the files may write a whole new chain. Against that, compare with a sink on another machine.
//!
//! # Cost
//! One pass over the files, and a look for the first record of each, with one line in memory.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::{Path, PathBuf},
};

use mortise_durable_fs::FsError;

use crate::{
    chain::{self, Head, Link, MAX_LINE_BYTES, digest},
    files::{CURRENT, closed_files},
};

/// Content of verified files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of files.
    pub files: usize,
    /// Number of records in the chain.
    pub records: u64,
    /// Number of the first record; above 1 if older files are not there.
    pub first: u64,
    /// Number of the last record.
    pub last: u64,
    /// Lines before the chain: written by a release without it.
    pub before_chain: u64,
    /// Unfinished lines that a kill or a full disk left, each named by the record behind it.
    pub unfinished: u64,
    /// Unfinished lines that a record names, and that are not here: sinks get only whole lines.
    pub unfinished_elsewhere: u64,
    /// Whether the last line is unfinished: it is being written, or the server was killed.
    pub ends_unfinished: bool,
    /// Whether the end was compared with `audit.head`.
    pub has_head: bool,
}

/// Reason why files are not verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FsError),
    /// The directory has no files of a log.
    #[error("{}: no files of an audit log are there", .0.display())]
    Empty(PathBuf),
    /// The chain breaks.
    #[error("{}:{line}: {fault}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1 on; the first line that does not follow from those before it.
        line: u64,
        /// The difference.
        fault: String,
    },
}

/// Verifies files of one log, in any order: those of a directory, and single files, such as rotated ones that were
/// moved elsewhere.
///
/// # Errors
/// The first line that breaks the chain; files that cannot be read.
pub fn verify(paths: &[PathBuf]) -> Result<Verified, VerifyError> {
    let (mut files, mut head) = (Vec::new(), None);
    for path in paths {
        if path.is_dir() {
            // Before the lines, of which a running server adds more.
            head = head.into_iter().chain(chain::read_head(path)).max_by_key(|head: &Head| head.seq);
            files.extend(closed_files(path)?);
            files.extend(Some(path.join(CURRENT)).filter(|path| path.exists()));
        } else {
            files.push(path.clone());
        }
    }
    if files.is_empty() {
        return Err(VerifyError::Empty(paths.first().cloned().unwrap_or_default()));
    }
    let mut walk = Walk { head, ..Walk::default() };
    for path in in_order(files)? {
        walk.file(&path)?;
    }
    walk.finish()
}

/// Sorts files by their first record; those from before the chain stay in front.
fn in_order(files: Vec<PathBuf>) -> Result<Vec<PathBuf>, FsError> {
    let mut numbered = Vec::new();
    for path in files {
        let mut lines = Lines::open(&path)?;
        let mut first = None;
        while let Some(line) = lines.next()? {
            first = chain::link(&line.bytes).and_then(|link| link.seq);
            if first.is_some() {
                break;
            }
        }
        numbered.push((first.unwrap_or(0), path));
    }
    numbered.sort_by_key(|(first, _)| *first);
    Ok(numbered.into_iter().map(|(_, path)| path).collect())
}

/// A line, without its line feed.
struct Line {
    bytes: Vec<u8>,
    number: u64,
    is_whole: bool,
}

/// The lines of a file.
struct Lines {
    file: BufReader<File>,
    path: PathBuf,
    number: u64,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, FsError> {
        let file = File::open(path).map_err(FsError::with_path(path, "read"))?;
        Ok(Self { file: BufReader::new(file), path: path.to_owned(), number: 0 })
    }

    /// Returns the next line. A line that is too long is cut, and counts as one without a record.
    fn next(&mut self) -> Result<Option<Line>, FsError> {
        let mut bytes = Vec::new();
        let read = (&mut self.file).take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes);
        if read.map_err(FsError::with_path(&self.path, "read"))? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let is_whole = bytes.pop_if(|last| *last == b'\n').is_some();
        if !is_whole && bytes.len() as u64 == MAX_LINE_BYTES {
            self.skip_rest().map_err(FsError::with_path(&self.path, "read"))?;
        }
        Ok(Some(Line { bytes, number: self.number, is_whole }))
    }

    fn skip_rest(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.file.fill_buf()?;
            let (length, is_end) = match buffer.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            self.file.consume(length);
            if is_end {
                return Ok(());
            }
        }
    }
}

/// A line without a record, which the next record must name.
struct Unfinished {
    digest: String,
    path: PathBuf,
    line: u64,
    is_whole: bool,
}

/// The walk through the lines.
#[derive(Default)]
struct Walk {
    found: Verified,
    head: Option<Head>,
    /// Digest of the last line.
    last: Option<String>,
    unfinished: Option<Unfinished>,
    /// Digest of the line before the last, until the first record.
    before_last: Option<String>,
    /// Place of the last line.
    place: (PathBuf, u64),
}

impl Walk {
    fn file(&mut self, path: &Path) -> Result<(), VerifyError> {
        self.found.files += 1;
        let mut lines = Lines::open(path)?;
        while let Some(line) = lines.next()? {
            self.place = (path.to_owned(), line.number);
            // A record may lack its line feed: power failed, or it is being written.
            let link = chain::link(&line.bytes).and_then(|link| Some((link.seq?, link)));
            match link {
                Some((number, link)) => self.record(number, &link, digest(&line.bytes))?,
                None if self.found.records == 0 => {
                    self.found.before_chain += 1;
                    self.before_last = self.last.replace(digest(&line.bytes));
                }
                None => {
                    self.refuse_unfinished()?;
                    let Line { bytes, number: line, is_whole } = line;
                    let digest = digest(&bytes);
                    self.unfinished = Some(Unfinished { digest, path: path.to_owned(), line, is_whole });
                }
            }
        }
        Ok(())
    }

    /// Compares a record with the line before it.
    fn record(&mut self, number: u64, link: &Link, digest: String) -> Result<(), VerifyError> {
        let torn = match (self.unfinished.take(), self.found.records) {
            // Without a record before it, the unfinished line counts among those before the chain.
            (None, 0) if link.torn.is_some() && link.torn == self.last => {
                self.last = self.before_last.take();
                link.torn.clone()
            }
            (None, _) => None,
            (Some(line), _) if link.torn.as_ref() == Some(&line.digest) => {
                self.found.unfinished += 1;
                Some(line.digest)
            }
            (line, _) => {
                self.unfinished = line;
                return self.refuse_unfinished();
            }
        };
        if torn != link.torn && self.found.records > 0 {
            // It was no record, and a sink never had it.
            self.found.unfinished_elsewhere += 1;
        }
        let expected = self.found.last + 1;
        let is_first = self.found.records == 0;
        if is_first {
            self.found.first = number;
        } else if number == 1 && link.prev.is_none() {
            let fault = "a new chain begins: when the server started, neither the files nor audit.head were there";
            return self.broken(fault.to_owned());
        } else if number > expected {
            return self.broken(missing(expected, number - 1, "before it"));
        } else if number < expected {
            return self.broken(format!("it is record {number}, but record {} comes before it", self.found.last));
        }
        // The line before the first record may be in a file that is not there.
        if link.prev != self.last && !(is_first && self.last.is_none()) {
            return self.broken(format!("the line before record {number} was changed, or the record was"));
        }
        if let Some(head) = self.head.as_ref().filter(|head| head.seq == number)
            && head.sha256 != digest
        {
            return self.broken(format!("record {number} was changed: audit.head has another digest"));
        }
        (self.found.last, self.last) = (number, Some(digest));
        self.found.records += 1;
        Ok(())
    }

    fn finish(mut self) -> Result<Verified, VerifyError> {
        if self.unfinished.as_ref().is_some_and(|line| line.is_whole) {
            self.refuse_unfinished()?;
        }
        self.found.ends_unfinished = self.unfinished.is_some();
        if let Some(Head { seq, .. }) = self.head {
            self.found.has_head = true;
            if seq > self.found.last {
                let fault = missing(self.found.last + 1, seq, "behind it, at the end");
                self.broken(format!("{fault}; audit.head names record {seq}"))?;
            }
        }
        Ok(self.found)
    }

    fn refuse_unfinished(&mut self) -> Result<(), VerifyError> {
        match self.unfinished.take() {
            None => Ok(()),
            Some(Unfinished { path, line, .. }) => {
                let fault = "it is not a record of the chain, and the record after it does not report it as unfinished"
                    .to_owned();
                Err(VerifyError::Broken { path, line, fault })
            }
        }
    }

    fn broken(&self, fault: String) -> Result<(), VerifyError> {
        let (path, line) = self.place.clone();
        Err(VerifyError::Broken { path, line, fault })
    }
}

/// Names missing records.
fn missing(from: u64, to: u64, place: &str) -> String {
    match from == to {
        true => format!("record {from} is missing {place}"),
        false => format!("records {from} to {to} are missing {place}"),
    }
}

#[cfg(test)]
mod tests;
