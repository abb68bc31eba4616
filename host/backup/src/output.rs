//! Taking a backup: reads a snapshot and files, writes the bytes of the archive.
//!
//! Compression runs on blocking threads, a page at a time, and waits until the reader has taken the earlier pieces. So
//! memory is bounded even with a slow reader.

use std::io::{self, Read, Write};

use flate2::{Compression, GzBuilder, write::GzEncoder};
use mortise_store::{Comparison, Snapshot};
use sha2::{Digest as _, Sha256};
use tokio::{sync::mpsc, task::spawn_blocking};

use crate::{
    entry::{self, Entry},
    error::BackupError,
    manifest::Manifest,
    seal,
    sources::{Source, Sources},
};

/// Bytes of the archive in one piece.
const PIECE_BYTES: usize = 256 << 10;

/// Totals of a backup, for a display of progress.
#[derive(Debug, Clone)]
pub struct Head {
    /// The manifest.
    pub manifest: Manifest,
    /// Bytes of the plugins' and configuration files.
    pub file_bytes: u64,
}

/// A piece of the archive.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Bytes of the piece.
    pub bytes: Vec<u8>,
    /// Number of records sent so far, this piece included.
    pub records: u64,
}

/// Writes a backup of a snapshot and of the files beside it into a channel. Calls `begun` with the totals before the
/// first piece.
///
/// # Errors
/// Faults of the store and of the files; [`BackupError::ReaderGone`] when the channel is closed. The pieces sent until
/// then are no backup: the seal is missing.
pub async fn stream(
    mut snapshot: Box<dyn Snapshot>,
    sources: Sources,
    begun: impl FnOnce(Head),
    pieces: mpsc::Sender<Piece>,
) -> Result<(), BackupError> {
    let now = jiff::Timestamp::now();
    let mut manifest = Manifest::new(snapshot.head(), now.to_string());
    manifest.store_id = snapshot.store_id().map(|id| id.to_string());
    let mut file_bytes = 0;
    for source in &sources.files {
        file_bytes += source.bytes;
        match source.entry {
            Entry::Kept { ref file, .. } if entry::is_signature(file) => {}
            Entry::Kept { .. } => manifest.kept_components += 1,
            Entry::Folder { .. } => manifest.folder_files += 1,
            _ => manifest.config = true,
        }
    }
    begun(Head { manifest: manifest.clone(), file_bytes });

    let mut output = Output::new(pieces, u64::try_from(now.as_second()).unwrap_or(0));
    output = blocking(move || {
        let text = serde_json::to_vec_pretty(&manifest).map_err(io::Error::other);
        output.entry(&Entry::Manifest, &text.map_err(fault("the manifest"))?)?;
        for source in sources.files {
            output.file(source)?;
        }
        Ok(output)
    })
    .await?;
    // Checks every record as a restore does, so that no backup is made that a restore would reject.
    let mut comparison = Comparison::new(snapshot.head().clone());
    let (mut number, mut waiting) = (0, Vec::new());
    loop {
        let page = snapshot.next().await?;
        let ended = page.is_none();
        for record in page.into_iter().flatten() {
            comparison.add(&record)?;
            output.pipe().records += 1;
            entry::encode(record, &mut waiting);
        }
        if waiting.len() >= entry::RECORDS_BYTES || (ended && !waiting.is_empty()) {
            number += 1;
            let (mut returned, bytes) = (output, std::mem::take(&mut waiting));
            output = blocking(move || returned.entry(&Entry::Records(number), &bytes).map(|()| returned)).await?;
        }
        if ended {
            comparison.finish()?;
            return blocking(move || output.finish()).await;
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, BackupError> {
    match spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(BackupError::Stopping),
    }
}

/// Names the source that could not be read. A write fails only when the reader is gone.
fn fault(what: &str) -> impl Fn(io::Error) -> BackupError {
    move |source| match source.kind() {
        io::ErrorKind::BrokenPipe => BackupError::ReaderGone,
        _ => BackupError::Io { path: what.into(), action: "read for the backup", source },
    }
}

/// The unfinished archive: tar in gzip, and the checksum of each entry.
struct Output {
    archive: tar::Builder<GzEncoder<Pipe>>,
    sums: String,
    /// Modification time of the entries, Unix seconds.
    seconds: u64,
}

impl Output {
    fn new(pieces: mpsc::Sender<Piece>, seconds: u64) -> Self {
        let pipe = Pipe { buffer: Vec::new(), hasher: Sha256::new(), sent: 0, records: 0, pieces };
        // Neither time nor system: all backups have the same header.
        let gzip = GzBuilder::new().mtime(0).operating_system(255).write(pipe, Compression::fast());
        Self { archive: tar::Builder::new(gzip), sums: String::new(), seconds }
    }

    fn pipe(&mut self) -> &mut Pipe {
        self.archive.get_mut().get_mut()
    }

    fn entry(&mut self, entry: &Entry, content: &[u8]) -> Result<(), BackupError> {
        self.append(&entry.name(), content, content.len() as u64)
    }

    /// Appends a file. Fails if it shrank since it was opened, since its length is written already; cuts it if it grew.
    fn file(&mut self, source: Source) -> Result<(), BackupError> {
        self.append(&source.entry.name(), source.file, source.bytes)
    }

    fn append(&mut self, name: &str, content: impl Read, bytes: u64) -> Result<(), BackupError> {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(0o600);
        header.set_mtime(self.seconds);
        header.set_entry_type(tar::EntryType::Regular);
        let mut content = SizedHashingReader { content, left: bytes, hasher: Sha256::new() };
        self.archive.append_data(&mut header, name, &mut content).map_err(fault(name))?;
        let digest = content.hasher.finalize();
        self.sums.push_str(&format!("{digest:x}  {name}\n"));
        Ok(())
    }

    /// Writes the checksums, the ends of archive and compression, and the seal.
    fn finish(mut self) -> Result<(), BackupError> {
        let sums = std::mem::take(&mut self.sums);
        self.entry(&Entry::Sums, sums.as_bytes())?;
        let gzip = self.archive.into_inner().map_err(fault("the archive"))?;
        let mut pipe = gzip.finish().map_err(fault("the archive"))?;
        pipe.send().map_err(fault("the archive"))?;
        let seal = seal::seal(&pipe.hasher.clone().finalize().into(), pipe.sent);
        pipe.write_all(&seal).and_then(|()| pipe.send()).map_err(fault("the archive"))
    }
}

/// A reader of a known length that hashes what it reads.
struct SizedHashingReader<R> {
    content: R,
    left: u64,
    hasher: Sha256,
}

impl<R: Read> Read for SizedHashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let Some(place) = buffer.get_mut(..wanted).filter(|place| !place.is_empty()) else { return Ok(0) };
        let read = self.content.read(place)?;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter meanwhile"));
        }
        self.left -= read as u64;
        self.hasher.update(place.get(..read).unwrap_or_default());
        Ok(read)
    }
}

/// Buffer in front of the channel to the reader.
struct Pipe {
    buffer: Vec<u8>,
    hasher: Sha256,
    sent: u64,
    records: u64,
    pieces: mpsc::Sender<Piece>,
}

impl Pipe {
    /// Sends the buffered bytes, and waits until the channel has space.
    fn send(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.buffer);
        self.hasher.update(&bytes);
        self.sent += bytes.len() as u64;
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.pieces.blocking_send(Piece { bytes, records: self.records }).map_err(gone)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
