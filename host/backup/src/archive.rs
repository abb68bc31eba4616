//! The reading of a backup's file.
//!
//! Three checks come before any use: the seal over all bytes; the checksum of each entry; and the comparison of the
//! records with the manifest: each fits the snapshot, and none is missing.
//!
//! # Cost
//! [`Archive::open`] reads the file twice: for the seal, and for the content; [`Archive::read`] once more. One entry of
//! records is in memory at a time: about 1 MiB, or one larger resource.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader, Read, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use flate2::bufread::GzDecoder;
use mortise_store::{Comparison, Record, SnapshotHead};
use sha2::{Digest as _, Sha256};

use crate::{
    entry::{self, Entry},
    error::{BackupError, io_fault},
    manifest::{FORMAT_VERSION, Manifest},
    seal::{SEAL_BYTES, SealChecker, is_seal},
};

/// Bytes per read.
const READ_BYTES: usize = 1 << 20;

/// A backup that was read from beginning to end and checked.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    file: File,
    /// Length without the seal, bytes.
    body: u64,
    manifest: Manifest,
    /// Names of the plugin folder's files, with their SHA-256.
    folder: BTreeMap<String, String>,
}

/// Receiver of a backup's content.
pub trait ContentReceiver {
    /// Receives a record.
    ///
    /// # Errors
    /// Any error ends the reading.
    fn record(&mut self, record: Record) -> Result<(), BackupError>;

    /// Receives a component that the server keeps for a plugin.
    ///
    /// # Errors
    /// Any error ends the reading.
    fn kept(&mut self, plugin: &str, file: &str, content: &mut dyn Read) -> Result<(), BackupError>;

    /// Receives a file of the plugin folder.
    ///
    /// # Errors
    /// Any error ends the reading.
    fn folder(&mut self, file: &str, content: &mut dyn Read) -> Result<(), BackupError>;

    /// Receives the configuration.
    ///
    /// # Errors
    /// Any error ends the reading.
    fn config(&mut self, content: &mut dyn Read) -> Result<(), BackupError>;
}

impl Archive {
    /// Opens a backup and reads all of it.
    ///
    /// # Errors
    /// [`BackupError::NotABackup`], [`BackupError::Unsealed`], [`BackupError::Altered`], [`BackupError::Malformed`],
    /// [`BackupError::Newer`], and faults of the file system.
    pub fn open(path: &Path) -> Result<Self, BackupError> {
        let file = File::open(path).map_err(io_fault(path, "open"))?;
        Self::from_file(path.to_owned(), file)
    }

    /// Reads all of an open file; `path` is its name in errors.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn from_file(path: PathBuf, mut file: File) -> Result<Self, BackupError> {
        file.rewind().map_err(io_fault(&path, "read"))?;
        let body = check_seal(&path, &mut file)?;
        let mut archive = Self {
            path,
            file,
            body,
            manifest: Manifest::new(&SnapshotHead::default(), String::new()),
            folder: BTreeMap::new(),
        };
        archive.read(&mut DiscardContents)?;
        Ok(archive)
    }

    /// Returns the path of the file, for errors.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the names of the plugin folder's files, with their SHA-256.
    #[must_use]
    pub fn folder(&self) -> &BTreeMap<String, String> {
        &self.folder
    }

    /// Reads and checks everything again, and hands it to `receiver`.
    ///
    /// # Errors
    /// Those of [`Archive::open`], and those of `receiver`.
    pub fn read(&mut self, receiver: &mut dyn ContentReceiver) -> Result<(), BackupError> {
        let Self { path, file, body, .. } = self;
        file.seek(SeekFrom::Start(0)).map_err(io_fault(path, "read"))?;
        let mut reading = ArchiveReader {
            path: path.clone(),
            receiver,
            manifest: None,
            comparison: Comparison::new(SnapshotHead::default()),
            sums: BTreeMap::new(),
            next_records: 1,
        };
        let gzip = GzDecoder::new(BufReader::with_capacity(READ_BYTES, (&*file).take(*body)));
        let mut archive = tar::Archive::new(gzip);
        let (mut ended, mut long_name) = (false, None);
        // Raw, to read long names, which are entries of their own, with a bound.
        for entry in archive.entries().map_err(|e| reading.malformed("the archive", e))?.raw(true) {
            let mut entry = entry.map_err(|e| reading.malformed("the archive", e))?;
            if ended {
                return Err(reading.malformed(entry::SUMS, "something follows it"));
            }
            if entry.header().entry_type() == tar::EntryType::GNULongName {
                let size = entry.size();
                let name = reading.read_all("a name", &mut entry, size, entry::MAX_NAME_BYTES)?;
                long_name = Some(name.strip_suffix(&[0]).map(<[u8]>::to_vec).unwrap_or(name));
                continue;
            }
            let name = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
            ended = reading.entry(&String::from_utf8_lossy(&name), entry)?;
        }
        // Read on to gzip's own checksum at the end; nothing may follow it.
        let mut gzip = archive.into_inner();
        io::copy(&mut gzip, &mut io::sink()).map_err(|e| reading.malformed("the archive", e))?;
        let mut rest = gzip.into_inner();
        if rest.read(&mut [0]).map_err(|e| reading.malformed("the archive", e))? > 0 {
            return Err(reading.malformed("the archive", "something follows it"));
        }
        if !ended {
            return Err(reading.malformed(entry::SUMS, "it is missing"));
        }
        let sums = reading.sums;
        self.manifest = reading.manifest.ok_or_else(|| BackupError::NotABackup {
            path: self.path.clone(),
            what: format!("it has no {}", entry::MANIFEST),
        })?;
        self.folder = sums
            .into_iter()
            .filter_map(|(name, digest)| match Entry::parse(&name) {
                Some(Entry::Folder { file }) => Some((file, digest)),
                _ => None,
            })
            .collect();
        Ok(())
    }
}

/// Checks the seal against every byte before it. Returns the length without it.
fn check_seal(path: &Path, file: &mut File) -> Result<u64, BackupError> {
    let fault = || io_fault(path, "read");
    let not_a_backup = |what: &str| BackupError::NotABackup { path: path.to_owned(), what: what.to_owned() };
    let mut buffer = vec![0; READ_BYTES];
    let (mut checker, mut bytes, mut start, mut tail) = (SealChecker::default(), 0_u64, Vec::new(), Vec::new());
    loop {
        let read = match file.read(&mut buffer) {
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) if e.kind() == io::ErrorKind::IsADirectory => return Err(not_a_backup("it is a directory")),
            Err(e) => return Err(fault()(e)),
        };
        let piece = buffer.get(..read).unwrap_or_default();
        if read == 0 {
            break;
        }
        if start.is_empty() {
            start = piece.get(..2).unwrap_or(piece).to_vec();
        }
        checker.update(piece);
        bytes += read as u64;
        tail.extend_from_slice(piece.get(read.saturating_sub(SEAL_BYTES)..).unwrap_or_default());
        tail.drain(..tail.len().saturating_sub(SEAL_BYTES));
    }
    if bytes == 0 {
        return Err(not_a_backup("it is empty"));
    }
    if checker.is_whole() {
        return Ok(bytes - SEAL_BYTES as u64);
    }
    if start != [0x1f, 0x8b] {
        return Err(not_a_backup("it does not start like one, or its start was altered"));
    }
    let path = path.to_owned();
    Err(if is_seal(&tail) { BackupError::Altered { path } } else { BackupError::Unsealed { path } })
}

/// A pass over the archive, from beginning to end.
struct ArchiveReader<'t> {
    path: PathBuf,
    receiver: &'t mut dyn ContentReceiver,
    manifest: Option<Manifest>,
    comparison: Comparison,
    /// SHA-256 of every entry so far, by name.
    sums: BTreeMap<String, String>,
    next_records: u64,
}

impl ArchiveReader<'_> {
    fn malformed(&self, entry: &str, what: impl ToString) -> BackupError {
        BackupError::Malformed { path: self.path.clone(), entry: entry.to_owned(), what: what.to_string() }
    }

    /// Reads an entry. Returns whether it is the last one.
    fn entry(&mut self, name: &str, from: tar::Entry<'_, impl Read>) -> Result<bool, BackupError> {
        let entry = Entry::parse(name).filter(|_| from.header().entry_type() == tar::EntryType::Regular);
        let entry = entry.ok_or_else(|| self.malformed(name, "backups have no such entry"))?;
        if (self.manifest.is_none()) != (entry == Entry::Manifest) {
            return Err(match entry {
                Entry::Manifest => self.malformed(name, "it comes twice"),
                _ => BackupError::NotABackup {
                    path: self.path.clone(),
                    what: format!("it begins with {name} instead of {}", entry::MANIFEST),
                },
            });
        }
        if self.sums.contains_key(name) {
            return Err(self.malformed(name, "it comes twice"));
        }
        let size = from.size();
        self.check_size(name, size, entry.max_bytes())?;
        let mut content = HashingReader { content: from, hasher: Sha256::new() };
        match &entry {
            Entry::Manifest => {
                let text = self.read_all(name, &mut content, size, entry.max_bytes())?;
                self.begin(name, &text)?;
            }
            Entry::Sums => {
                let text = self.read_all(name, &mut content, size, entry.max_bytes())?;
                self.compare(name, &text)?;
                return Ok(true);
            }
            Entry::Records(number) => {
                if *number != self.next_records {
                    return Err(self.malformed(name, format!("number {} is missing", self.next_records)));
                }
                if size == 0 {
                    return Err(self.malformed(name, "it is empty"));
                }
                self.next_records += 1;
                let bytes = self.read_all(name, &mut content, size, entry.max_bytes())?;
                self.records(name, &bytes)?;
            }
            Entry::Kept { plugin, file } => self.receiver.kept(plugin, file, &mut content)?,
            Entry::Folder { file } => self.receiver.folder(file, &mut content)?,
            Entry::Config => self.receiver.config(&mut content)?,
        }
        // Hash the rest that the receiver did not read.
        io::copy(&mut content, &mut io::sink()).map_err(|e| self.malformed(name, e))?;
        let hex = format!("{:x}", content.hasher.finalize());
        self.sums.insert(name.to_owned(), hex);
        Ok(false)
    }

    fn check_size(&self, name: &str, size: u64, limit: u64) -> Result<(), BackupError> {
        if size > limit {
            return Err(self.malformed(name, format!("it takes {size} bytes, more than {limit}")));
        }
        Ok(())
    }

    fn read_all(&self, name: &str, content: &mut dyn Read, size: u64, limit: u64) -> Result<Vec<u8>, BackupError> {
        self.check_size(name, size, limit)?;
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(|e| self.malformed(name, e))?;
        Ok(bytes)
    }

    fn begin(&mut self, name: &str, text: &[u8]) -> Result<(), BackupError> {
        let not_a_backup = |what: String| BackupError::NotABackup { path: self.path.clone(), what };
        // A newer manifest may have another form, but it has its format version.
        let any: serde_json::Value =
            serde_json::from_slice(text).map_err(|e| not_a_backup(format!("{name} is not JSON: {e}")))?;
        let found = any.get("format_version").and_then(serde_json::Value::as_u64).unwrap_or(0);
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        let by = any.get("mortise_version").and_then(serde_json::Value::as_str).unwrap_or("unknown").to_owned();
        if found > FORMAT_VERSION {
            return Err(BackupError::Newer { path: self.path.clone(), found, by, known: FORMAT_VERSION });
        }
        let manifest: Manifest = serde_json::from_value(any).map_err(|e| not_a_backup(format!("{name}: {e}")))?;
        if !manifest.is_backup_manifest() || found == 0 {
            return Err(not_a_backup(format!("{name} describes something else")));
        }
        if manifest.store_format > mortise_store::FORMAT {
            let (found, known) = (manifest.store_format, mortise_store::FORMAT);
            return Err(mortise_store::StoreError::NewerFormat { path: self.path.clone(), found, known }.into());
        }
        if let Some(fault) = manifest.fault() {
            return Err(self.malformed(name, fault));
        }
        self.comparison = Comparison::new(manifest.head());
        self.manifest = Some(manifest);
        Ok(())
    }

    fn records(&mut self, name: &str, mut bytes: &[u8]) -> Result<(), BackupError> {
        while !bytes.is_empty() {
            let entry::Decoded { record, .. } = entry::decode(&mut bytes).map_err(|e| self.malformed(name, e))?;
            self.comparison.add(&record).map_err(|e| self.malformed(name, e))?;
            self.receiver.record(record)?;
        }
        Ok(())
    }

    /// Compares the list of checksums with the entries read, both ways; then everything with the manifest.
    fn compare(&self, name: &str, text: &[u8]) -> Result<(), BackupError> {
        let text = std::str::from_utf8(text).map_err(|e| self.malformed(name, e))?;
        let mut listed = BTreeMap::new();
        for line in text.lines() {
            let (digest, entry) = line.split_once("  ").ok_or_else(|| self.malformed(name, "a line is malformed"))?;
            listed.insert(entry.to_owned(), digest.to_owned());
        }
        if let Some((entry, _)) = self.sums.iter().find(|(entry, digest)| listed.get(*entry) != Some(*digest)) {
            return Err(self.malformed(entry, "its checksum does not match"));
        }
        if let Some(entry) = listed.keys().find(|entry| !self.sums.contains_key(*entry)) {
            return Err(self.malformed(entry, "it is missing"));
        }
        self.comparison.finish().map_err(|error| self.malformed(entry::MANIFEST, error))
    }
}

/// A reader that hashes what it reads.
struct HashingReader<R> {
    content: R,
    hasher: Sha256,
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        self.hasher.update(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

/// A receiver that drops everything.
struct DiscardContents;

impl ContentReceiver for DiscardContents {
    fn record(&mut self, _: Record) -> Result<(), BackupError> {
        Ok(())
    }

    fn kept(&mut self, _: &str, _: &str, _: &mut dyn Read) -> Result<(), BackupError> {
        Ok(())
    }

    fn folder(&mut self, _: &str, _: &mut dyn Read) -> Result<(), BackupError> {
        Ok(())
    }

    fn config(&mut self, _: &mut dyn Read) -> Result<(), BackupError> {
        Ok(())
    }
}
