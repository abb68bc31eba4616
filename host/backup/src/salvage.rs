//! Salvage: makes a data directory of the readable part of a damaged backup, or of a damaged store's data directory.
//!
//! A restore takes everything or nothing. Salvage takes what is proven: a resource whose record decodes and agrees with
//! itself, from an entry with the right checksum, or from a store where the record's own checksum is right. Of two
//! resources with one name it takes the newer. It lists what it leaves out. It always leaves out the history: gaps
//! would look like changes that never happened. Versions continue after the highest that a resource may have had.
//!
//! The checksums of a backup come last. If they cannot be read, each record is proven by its own checksum, and each
//! component by its name; a record without a checksum among others with one was altered. Backups of earlier releases
//! have no checksums for records: salvage takes everything before the damage, and the list says that nothing proves it.
//!
//! The target directory must be empty: salvage does not replace the damaged original.
//!
//! # Cost
//! Resources pass through a file in the new directory, as large as they are. Their ids are held in memory, some 200
//! bytes each.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::{BufReader, BufWriter, Read, Write},
    path::Path,
};

use flate2::bufread::GzDecoder;
use mortise_durable_fs::{make_dir, remove};
use mortise_store::{Comparison, Loader, Lock, Record, RecordKind, SledBackend, SnapshotHead, TypeKey, check::Problem};
use sha2::{Digest as _, Sha256};

use crate::{
    entry::{self, Decoded, Entry, RecordError},
    error::{BackupError, io_fault},
    manifest::Manifest,
    place::{self, NEW_DIR, PLUGIN_FILES_DIR, PLUGINS_DIR, RESTORED_DIR, STORE_DIR},
    restore::{find_obstacle, write},
};

/// File in which resources wait until salvage knows which of them to take.
const SPOOL_FILE: &str = "records";

/// Result of a salvage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// Number of resources of each type.
    pub resources: BTreeMap<TypeKey, u64>,
    /// Highest version that a resource may have had.
    pub commit: u64,
    /// Number of plugin components that the server had kept.
    pub kept_components: u64,
    /// Things left out, and the reasons.
    pub left_out: Vec<Problem>,
}

/// Makes the data directory `data_dir`, which must be empty, of the readable part of `source`: a backup's file, or a
/// data directory. Blocks.
///
/// # Errors
/// [`BackupError::Occupied`]; [`BackupError::NotABackup`] when nothing in `source` can be read; faults of the file
/// system.
pub fn salvage(source: &Path, data_dir: &Path) -> Result<Salvaged, BackupError> {
    if let Some(obstacle) = find_obstacle(data_dir, Path::new(""))? {
        return Err(obstacle);
    }
    make_dir(data_dir)?;
    let lock = Lock::take(&data_dir.join(STORE_DIR))?;
    let new = data_dir.join(NEW_DIR);
    remove(&new)?;
    for dir in [PLUGINS_DIR, RESTORED_DIR, PLUGIN_FILES_DIR] {
        make_dir(&new.join(dir))?;
    }
    let made = collect(source, &new).and_then(|salvaged| {
        remove(&new.join(SPOOL_FILE))?;
        place::decide(data_dir)?;
        Ok(salvaged)
    });
    let salvaged = made.inspect_err(|_| {
        // An unfinished salvage has no value; if this fails, the next restore removes it.
        remove(&new).ok();
    })?;
    place::put(data_dir)?;
    drop(lock);
    Ok(salvaged)
}

fn collect(source: &Path, new: &Path) -> Result<Salvaged, BackupError> {
    let mut collected = Salvager::new(new)?;
    if source.is_dir() {
        collected.store(source)?;
    } else {
        collected.archive(source)?;
    }
    collected.load()
}

/// An unfinished salvage.
struct Salvager<'n> {
    new: &'n Path,
    spool: BufWriter<File>,
    /// Checks each record by itself.
    judge: Comparison,
    /// Highest version of each taken resource, by id.
    newest: HashMap<Vec<u8>, u64>,
    commit: u64,
    kept_components: u64,
    left_out: Vec<Problem>,
}

impl<'n> Salvager<'n> {
    fn new(new: &'n Path) -> Result<Self, BackupError> {
        let path = new.join(SPOOL_FILE);
        let spool = BufWriter::new(File::create(&path).map_err(io_fault(&path, "write"))?);
        // Accepts records of any commit, and no events.
        let any = SnapshotHead { sequence: u64::MAX - 1, first_event: u64::MAX, ..SnapshotHead::default() };
        Ok(Self {
            new,
            spool,
            judge: Comparison::new(any),
            newest: HashMap::new(),
            commit: 0,
            kept_components: 0,
            left_out: Vec::new(),
        })
    }

    fn leave_out(&mut self, thing: impl Into<String>, fault: impl ToString) {
        self.left_out.push(Problem { thing: thing.into(), fault: fault.to_string() });
    }

    /// Takes a resource if it is valid; ignores events.
    fn take(&mut self, record: Record) -> Result<(), BackupError> {
        if record.kind != RecordKind::Resource {
            return Ok(());
        }
        if let Err(error) = self.judge.add(&record) {
            self.leave_out(format!("the resource of commit {}", record.sequence), error);
            return Ok(());
        }
        let Some(id) = id(&record) else { return Ok(()) };
        self.commit = self.commit.max(record.sequence);
        let newest = self.newest.entry(id).or_default();
        *newest = record.sequence.max(*newest);
        let mut bytes = Vec::new();
        entry::encode(record, &mut bytes);
        let path = self.new.join(SPOOL_FILE);
        self.spool.write_all(&(bytes.len() as u64).to_be_bytes()).map_err(io_fault(&path, "write"))?;
        self.spool.write_all(&bytes).map_err(io_fault(&path, "write"))
    }

    /// Takes the readable part of a store.
    fn store(&mut self, data_dir: &Path) -> Result<(), BackupError> {
        let work = self.new;
        let mut taken = Ok(());
        let mut take = |record| {
            if taken.is_ok() {
                taken = self.take(record);
            }
        };
        let (highest, problems) = SledBackend::salvage(&data_dir.join(STORE_DIR), Some(work), &mut take)?;
        taken?;
        self.commit = self.commit.max(highest);
        self.left_out.extend(problems);
        let kept = data_dir.join(PLUGINS_DIR);
        for plugin in names(&kept) {
            for file in names(&kept.join(&plugin)).into_iter().filter(|file| entry::is_plugin_file(file)) {
                let path = kept.join(&plugin).join(&file);
                let content = fs::read(&path).map_err(io_fault(&path, "read"))?;
                self.component(&plugin, &file, &content)?;
            }
        }
        Ok(())
    }

    /// Takes a component if its name is the hash of its content. A signature is checked when it is used.
    fn component(&mut self, plugin: &str, file: &str, content: &[u8]) -> Result<(), BackupError> {
        if entry::is_signature(file) {
            let dir = self.new.join(PLUGINS_DIR).join(plugin);
            make_dir(&dir)?;
            return write(&dir.join(file), &mut &*content);
        }
        if format!("{:x}.wasm", Sha256::digest(content)) != file {
            self.leave_out(format!("component {file} of plugin {plugin}"), "its content does not match its name");
            return Ok(());
        }
        let dir = self.new.join(PLUGINS_DIR).join(plugin);
        make_dir(&dir)?;
        self.kept_components += 1;
        write(&dir.join(file), &mut &*content)
    }

    /// Takes the content of a backup's file, up to where it cannot be read.
    fn archive(&mut self, path: &Path) -> Result<(), BackupError> {
        // Checksums come last, so the file is read twice.
        let (mut sums, mut listed, mut manifest) = (BTreeMap::new(), None, None);
        let (mut last, mut empty, mut checksums) = ("the beginning".to_owned(), true, false);
        let ended = entries(path, &mut |name, entry, content| {
            match entry {
                Entry::Sums => listed = Some(lines(content)),
                Entry::Manifest => manifest = serde_json::from_slice(content).ok(),
                Entry::Records(_) => checksums |= has_checksums(content),
                _ => {}
            }
            sums.insert(name.to_owned(), format!("{:x}", Sha256::digest(content)));
            (last, empty) = (name.to_owned(), false);
            Ok(())
        })?;
        if empty {
            let what = format!("nothing in it can be read: {}", ended.as_deref().unwrap_or("it is empty"));
            return Err(BackupError::NotABackup { path: path.to_owned(), what });
        }
        if let Some(why) = ended {
            self.leave_out(format!("what follows {last}"), why);
        }
        if listed.is_none() {
            self.leave_out(
                entry::SUMS,
                match checksums {
                    true => {
                        "it cannot be read: each resource is proven by its own checksum, the configuration by nothing"
                    }
                    false => "it cannot be read: only the compression's own checks prove what was taken",
                },
            );
        }
        entries(path, &mut |name, entry, content| {
            if *entry != Entry::Sums && listed.as_ref().is_some_and(|listed| listed.get(name) != sums.get(name)) {
                self.leave_out(name, "its checksum does not match: nothing in it is taken");
                return Ok(());
            }
            match entry {
                Entry::Records(_) => {
                    let mut rest = content;
                    while !rest.is_empty() {
                        match entry::decode(&mut rest) {
                            Ok(Decoded { record, is_proven }) if checksums && !is_proven => {
                                let thing = format!("the record of commit {} in {name}", record.sequence);
                                self.leave_out(thing, "it has no checksum, though others have one");
                            }
                            Ok(Decoded { record, .. }) => self.take(record)?,
                            Err(error @ (RecordError::Altered(_) | RecordError::UnknownKind(_))) => {
                                self.leave_out(name, error);
                            }
                            Err(error) => {
                                self.leave_out(format!("what follows in {name}"), error);
                                break;
                            }
                        }
                    }
                    Ok(())
                }
                Entry::Kept { plugin, file } => self.component(plugin, file, content),
                Entry::Folder { file } => {
                    self.leave_out(format!("the plugin folder's {file}"), "salvage leaves the plugin folder alone");
                    Ok(())
                }
                Entry::Config => write(&self.new.join(RESTORED_DIR).join(entry::CONFIG), &mut &*content),
                Entry::Manifest | Entry::Sums => Ok(()),
            }
        })?;
        if let Some(manifest) = &manifest {
            self.commit = self.commit.max(Manifest::clone(manifest).commit);
        }
        self.compare(manifest.as_ref());
        Ok(())
    }

    /// Reports how many resources of each type are missing.
    fn compare(&mut self, manifest: Option<&Manifest>) {
        let Some(manifest) = manifest else { return self.leave_out(entry::MANIFEST, "it cannot be read") };
        let found = self.counts();
        for (type_key, listed) in manifest.head().resources {
            let count = found.get(&type_key).copied().unwrap_or(0);
            if count != listed {
                self.leave_out(format!("resources of type {type_key}"), format!("{count} of {listed} can be read"));
            }
        }
    }

    fn counts(&self) -> BTreeMap<TypeKey, u64> {
        let mut counts = BTreeMap::new();
        for id in self.newest.keys() {
            let mut parts = id.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
            let (group, kind) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            *counts.entry(TypeKey { group, kind }).or_default() += 1;
        }
        counts
    }

    /// Makes the store.
    fn load(mut self) -> Result<Salvaged, BackupError> {
        let path = self.new.join(SPOOL_FILE);
        self.spool.flush().map_err(io_fault(&path, "write"))?;
        let resources = self.counts();
        let head = SnapshotHead {
            sequence: self.commit,
            resources: resources.clone(),
            first_event: self.commit + 1,
            ..SnapshotHead::default()
        };
        let mut loader = Loader::create(&self.new.join(STORE_DIR), head)?;
        let mut spool = BufReader::new(File::open(&path).map_err(io_fault(&path, "read"))?);
        let mut length = [0; 8];
        while spool.read_exact(&mut length).is_ok() {
            let mut bytes = vec![0; usize::try_from(u64::from_be_bytes(length)).unwrap_or(0)];
            spool.read_exact(&mut bytes).map_err(io_fault(&path, "read"))?;
            let Ok(Decoded { record, .. }) = entry::decode(&mut bytes.as_slice()) else { continue };
            // Of two resources with one name the newer one, once.
            let newest = id(&record).and_then(|id| self.newest.remove_entry(&id));
            match newest {
                Some((_, version)) if version == record.sequence => loader.add(&record)?,
                Some((id, version)) => drop(self.newest.insert(id, version)),
                None => {}
            }
        }
        loader.finish()?;
        let Self { commit, kept_components, left_out, .. } = self;
        Ok(Salvaged { resources, commit, kept_components, left_out })
    }
}

/// Returns group, kind, partition, namespace and name of a resource, separated by zero bytes.
fn id(record: &Record) -> Option<Vec<u8>> {
    let resource: mortise_resource::pb::Resource = prost::Message::decode(record.payload.as_slice()).ok()?;
    let id = resource.id?;
    let (kind, tenancy) = (id.r#type?, id.tenancy.unwrap_or_default());
    Some([kind.group, kind.kind, tenancy.partition, tenancy.namespace, id.name].join("\0").into_bytes())
}

/// Whether any of the records has a checksum.
fn has_checksums(mut records: &[u8]) -> bool {
    while !records.is_empty() {
        match entry::decode(&mut records) {
            Ok(decoded) if decoded.is_proven => return true,
            Ok(_) | Err(RecordError::UnknownKind(_)) => {}
            Err(RecordError::Altered(_)) => return true,
            Err(RecordError::Undecodable(_)) => return false,
        }
    }
    false
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| entry::is_file(name));
    names.sort();
    names
}

/// Parses the list of checksums, by entry.
fn lines(text: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(text);
    text.lines().filter_map(|line| line.split_once("  ")).map(|(sum, name)| (name.to_owned(), sum.to_owned())).collect()
}

/// Receives an entry: name, meaning, content.
type Visit<'v> = dyn FnMut(&str, &Entry, &[u8]) -> Result<(), BackupError> + 'v;

/// Hands over each entry of a backup's file, up to where it cannot be read. Returns the reason why not further.
fn entries(path: &Path, visit: &mut Visit<'_>) -> Result<Option<String>, BackupError> {
    let file = File::open(path).map_err(io_fault(path, "open"))?;
    let mut archive = tar::Archive::new(GzDecoder::new(BufReader::new(file)));
    let mut entries = match archive.entries() {
        Ok(entries) => entries,
        Err(error) => return Ok(Some(error.to_string())),
    };
    loop {
        let mut tar_entry = match entries.next() {
            None => return Ok(None),
            Some(Ok(entry)) => entry,
            Some(Err(error)) => return Ok(Some(error.to_string())),
        };
        let name = String::from_utf8_lossy(&tar_entry.path_bytes()).into_owned();
        let Some(entry) = Entry::parse(&name) else { return Ok(Some(format!("backups have no entry {name:?}"))) };
        let mut content = Vec::new();
        let most = entry.max_bytes();
        match (&mut tar_entry).take(most + 1).read_to_end(&mut content) {
            Err(error) => return Ok(Some(error.to_string())),
            Ok(read) if read as u64 > most => return Ok(Some(format!("{name} takes more than {most} bytes"))),
            Ok(read) if (read as u64) < tar_entry.size() => return Ok(Some(format!("{name} ends early"))),
            Ok(_) => visit(&name, &entry, &content)?,
        }
    }
}
