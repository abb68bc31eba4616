//! A disk below a kernel that chooses when to write: its content when the power fails.
//!
//! - Bytes written to a file and not yet synced are there or not, sector by sector (or block by block): each shows
//!   the bytes after any one of the writes to it, independently of others. A sync of the file ends that choice for every
//!   write that had ended when the sync began.
//! - The lengths of a file change in their order; how many of these changes are done is another choice. Bytes behind
//!   the end read as zeros when the file grows again.
//! - The names in a directory change in order, too; the number of finished changes since its last sync is a choice
//!   for each directory. A rename is one change. A sync of a file does not make its name durable.
//! - `sync_file_range` and reserved blocks have no effect.
//!
//! So a real file system on an honest disk leaves one of these states, and most leave far fewer.

mod file;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    path::Path,
};

use fastrand::Rng;

use self::file::{Change, ChangeKind, FileNode, apply, reached};
use crate::trace::{Call, Event, Parts};

pub(crate) use self::file::Loss;

/// Place of a file or directory in [`Disk::nodes`].
type NodeId = usize;

#[derive(Debug)]
enum Node {
    File(FileNode),
    Dir(DirNode),
}

#[derive(Debug, Default)]
struct DirNode {
    synced: BTreeMap<String, NodeId>,
    changes: Vec<(u64, NameChange)>,
    current: BTreeMap<String, NodeId>,
}

#[derive(Debug, Clone)]
enum NameChange {
    Add(String, NodeId),
    Remove(String),
    Rename(String, String),
    Exchange(String, String),
}

/// The disk, and the kernel's memory of it.
#[derive(Debug)]
pub(crate) struct Disk {
    nodes: Vec<Node>,
    /// Open descriptors: the file, the position, and whether each write goes to the end.
    descriptors: HashMap<i64, (NodeId, usize, bool)>,
    /// Calls that have begun.
    begun: HashMap<u64, Begun>,
}

#[derive(Debug)]
enum Begun {
    Done(Call),
    /// The file of the write, and its descriptor if the write has no place.
    Write {
        node: NodeId,
        fd: Option<i64>,
    },
    /// The changes that had ended when the sync began.
    Sync {
        node: NodeId,
        covered: Vec<u64>,
    },
}

/// Content of the disk after a loss of power.
#[derive(Debug, Default)]
pub(crate) struct Image {
    /// Path and content.
    pub(crate) files: Vec<(Parts, Vec<u8>)>,
    pub(crate) dirs: Vec<Parts>,
    /// Sectors or blocks that are not in their last written state.
    pub(crate) lost: u64,
    /// Changes of names that did not happen.
    pub(crate) lost_names: u64,
}

type Result<T> = std::result::Result<T, String>;

fn rename(names: &mut BTreeMap<String, NodeId>, change: &NameChange) {
    match change {
        NameChange::Add(name, node) => drop(names.insert(name.clone(), *node)),
        NameChange::Remove(name) => drop(names.remove(name)),
        NameChange::Rename(from, to) => {
            if let Some(node) = names.remove(from) {
                names.insert(to.clone(), node);
            }
        }
        NameChange::Exchange(a, b) => {
            if let (Some(first), Some(second)) = (names.get(a).copied(), names.get(b).copied()) {
                names.insert(a.clone(), second);
                names.insert(b.clone(), first);
            }
        }
    }
}

impl Disk {
    /// Makes a disk with an empty directory.
    pub(crate) fn new() -> Self {
        Self { nodes: vec![Node::Dir(DirNode::default())], descriptors: HashMap::new(), begun: HashMap::new() }
    }

    /// Begins the life of another process: it has no descriptors.
    pub(crate) fn begin_life(&mut self) {
        self.descriptors.clear();
        self.begun.clear();
    }

    fn file(&mut self, node: NodeId) -> Result<&mut FileNode> {
        match self.nodes.get_mut(node) {
            Some(Node::File(file)) => Ok(file),
            _ => Err("a directory is used as a file".to_owned()),
        }
    }

    fn dir(&mut self, node: NodeId) -> Result<&mut DirNode> {
        match self.nodes.get_mut(node) {
            Some(Node::Dir(dir)) => Ok(dir),
            _ => Err("a file is used as a directory".to_owned()),
        }
    }

    fn find(&self, path: &[String]) -> Option<NodeId> {
        path.iter().try_fold(0, |node, name| match self.nodes.get(node) {
            Some(Node::Dir(dir)) => dir.current.get(name).copied(),
            _ => None,
        })
    }

    fn found(&self, path: &[String]) -> Result<NodeId> {
        self.find(path).ok_or_else(|| format!("{} is used and does not exist", path.join("/")))
    }

    /// Changes a name in the directory of `path`.
    fn change(&mut self, call: u64, path: &[String], change: impl FnOnce(String) -> NameChange) -> Result<()> {
        let (name, dir) = path.split_last().ok_or("the directory itself is changed")?;
        let dir = self.found(dir)?;
        let dir = self.dir(dir)?;
        let change = change(name.clone());
        rename(&mut dir.current, &change);
        dir.changes.push((call, change));
        Ok(())
    }

    fn add(&mut self, call: u64, path: &[String], node: Node) -> Result<()> {
        let id = self.nodes.len();
        self.nodes.push(node);
        self.change(call, path, |name| NameChange::Add(name, id))
    }

    /// Applies an event.
    ///
    /// # Errors
    /// The event does not fit the known files.
    pub(crate) fn hear(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Said(_) => Ok(()),
            Event::Begin(number, call) => self.begin(*number, call),
            Event::End(number, result) => self.end(*number, *result),
            Event::Interrupted(number, bytes) => match self.begun.get(number) {
                // Even if the bytes were to be far behind the end, the file did not grow.
                Some(Begun::Write { .. }) if *bytes == 0 => self.hear(&Event::Failed(*number)),
                // The call ends with the kill.
                _ => self.end(*number, *bytes as i64),
            },
            Event::Failed(number) => match self.begun.remove(number) {
                Some(Begun::Write { node, .. }) => {
                    self.file(node)?.changes.retain(|change| change.call != *number);
                    Ok(())
                }
                _ => Ok(()),
            },
        }
    }

    fn begin(&mut self, number: u64, call: &Call) -> Result<()> {
        let begun = match call {
            Call::Write { path, fd, offset: at, data } => {
                // A removed file: its later content cannot be seen.
                let Some(node) = self.find(path) else { return Ok(()) };
                let end = self.file(node)?.current.len();
                let position = match (at, self.descriptors.get(fd)) {
                    (Some(at), _) => usize::try_from(*at).map_err(|_| "a write is too far away")?,
                    (None, Some((_, _, true))) => end,
                    (None, Some((_, position, false))) => *position,
                    (None, None) => return Err(format!("{} is written and was not opened", path.join("/"))),
                };
                let kind = ChangeKind::Write { at: position, data: data.clone() };
                self.file(node)?.changes.push(Change { call: number, ended: false, kind });
                Begun::Write { node, fd: at.is_none().then_some(*fd) }
            }
            Call::Sync { path } => {
                let Some(node) = self.find(path) else { return Ok(()) };
                let covered = match self.nodes.get(node) {
                    Some(Node::File(file)) => {
                        file.changes.iter().filter(|change| change.ended).map(|change| change.call).collect()
                    }
                    Some(Node::Dir(dir)) => dir.changes.iter().map(|(call, _)| *call).collect(),
                    None => Vec::new(),
                };
                Begun::Sync { node, covered }
            }
            other => Begun::Done(other.clone()),
        };
        self.begun.insert(number, begun);
        Ok(())
    }

    fn end(&mut self, number: u64, result: i64) -> Result<()> {
        let Some(begun) = self.begun.remove(&number) else { return Ok(()) };
        match begun {
            Begun::Write { node, fd } => self.end_write(number, node, fd, usize::try_from(result).unwrap_or(0)),
            Begun::Sync { node, covered } => {
                match self.nodes.get_mut(node) {
                    Some(Node::File(FileNode { synced, changes, .. })) => {
                        let (durable, rest) =
                            std::mem::take(changes).into_iter().partition(|change| covered.contains(&change.call));
                        let durable: Vec<Change> = durable;
                        durable.iter().for_each(|change| apply(synced, &change.kind));
                        *changes = rest;
                    }
                    Some(Node::Dir(DirNode { synced, changes, .. })) => {
                        let (durable, rest) =
                            std::mem::take(changes).into_iter().partition(|(call, _)| covered.contains(call));
                        let durable: Vec<_> = durable;
                        durable.iter().for_each(|(_, change)| rename(synced, change));
                        *changes = rest;
                    }
                    None => {}
                }
                Ok(())
            }
            Begun::Done(call) => self.done(number, call, result),
        }
    }

    fn end_write(&mut self, number: u64, node: NodeId, fd: Option<i64>, bytes: usize) -> Result<()> {
        let file = self.file(node)?;
        let change = file.changes.iter_mut().find(|change| change.call == number).ok_or("a write ends twice")?;
        change.ended = true;
        let mut end = 0;
        if let ChangeKind::Write { at, data } = &mut change.kind {
            data.truncate(bytes);
            end = *at + data.len();
        }
        apply(&mut file.current, &change.kind);
        if let Some((_, position, _)) = fd.and_then(|fd| self.descriptors.get_mut(&fd)) {
            *position = end;
        }
        Ok(())
    }

    fn done(&mut self, number: u64, call: Call, result: i64) -> Result<()> {
        match call {
            Call::Open { path, create, truncate, append } => {
                if self.find(&path).is_none() && create {
                    self.add(number, &path, Node::File(FileNode::default()))?;
                }
                let node = self.found(&path)?;
                if truncate && !self.file(node)?.current.is_empty() {
                    self.set_length(number, node, 0)?;
                }
                self.descriptors.insert(result, (node, 0, append));
            }
            Call::Close { fd } => drop(self.descriptors.remove(&fd)),
            Call::Seek { fd } => {
                if let Some((_, position, _)) = self.descriptors.get_mut(&fd) {
                    *position = usize::try_from(result).unwrap_or(0);
                }
            }
            Call::Truncate { path, len } => {
                if let Some(node) = self.find(&path) {
                    self.set_length(number, node, usize::try_from(len).map_err(|_| "a length is too large")?)?;
                }
            }
            Call::Rename { from, to } => self.move_name(number, &from, &to, NameChange::Rename)?,
            Call::Exchange { from, to } => self.move_name(number, &from, &to, NameChange::Exchange)?,
            Call::Remove { path } => self.change(number, &path, NameChange::Remove)?,
            Call::MakeDir { path } => self.add(number, &path, Node::Dir(DirNode::default()))?,
            Call::Write { .. } | Call::Sync { .. } => {}
        }
        Ok(())
    }

    /// Changes two names of one directory.
    fn move_name(
        &mut self,
        call: u64,
        from: &[String],
        to: &[String],
        change: fn(String, String) -> NameChange,
    ) -> Result<()> {
        let (name, dir) = to.split_last().ok_or("the directory itself is renamed")?;
        if from.split_last().map(|(_, dir)| dir) != Some(dir) {
            return Err("a rename from one directory to another".to_owned());
        }
        self.change(call, from, |from| change(from, name.clone()))
    }

    fn set_length(&mut self, call: u64, node: NodeId, len: usize) -> Result<()> {
        let file = self.file(node)?;
        let kind = ChangeKind::Length(len);
        apply(&mut file.current, &kind);
        file.changes.push(Change { call, ended: true, kind });
        Ok(())
    }

    /// Returns writes without a seen end, with their place and bytes.
    pub(crate) fn interrupted(&self) -> Vec<(u64, Parts, usize, &[u8])> {
        let mut writes = Vec::new();
        for (path, node) in self.walk() {
            if let Some(Node::File(file)) = self.nodes.get(node) {
                for change in
                    file.changes.iter().filter(|change| !change.ended && self.begun.contains_key(&change.call))
                {
                    if let ChangeKind::Write { at, data } = &change.kind {
                        writes.push((change.call, path.clone(), *at, data.as_slice()));
                    }
                }
            }
        }
        writes
    }

    /// Returns calls that a kill interrupted, except writes.
    pub(crate) fn interrupted_changes(&self) -> impl Iterator<Item = (u64, &Call)> {
        self.begun.iter().filter_map(|(number, begun)| match begun {
            Begun::Done(call) => Some((*number, call)),
            Begun::Write { .. } | Begun::Sync { .. } => None,
        })
    }

    /// Returns everything that has a name now.
    fn walk(&self) -> Vec<(Parts, NodeId)> {
        let mut found = Vec::new();
        let mut dirs = vec![(Parts::new(), 0)];
        while let Some((path, node)) = dirs.pop() {
            if let Some(Node::Dir(dir)) = self.nodes.get(node) {
                for (name, child) in &dir.current {
                    let path: Parts = path.iter().chain([name]).cloned().collect();
                    if matches!(self.nodes.get(*child), Some(Node::Dir(_))) {
                        dirs.push((path.clone(), *child));
                    }
                    found.push((path, *child));
                }
            }
        }
        found
    }

    /// Compares the content that a reader sees with a real directory.
    ///
    /// # Errors
    /// They differ: the trace is incomplete.
    pub(crate) fn compare(&self, real: &Path) -> Result<()> {
        let mut names = 0;
        for (path, node) in self.walk() {
            let at = real.join(path.join("/"));
            names += 1;
            if let Some(Node::File(file)) = self.nodes.get(node) {
                let found = fs::read(&at).map_err(|error| format!("{}: {error}", at.display()))?;
                let differ = found.iter().zip(&file.current).position(|(a, b)| a != b);
                if differ.is_some() || found.len() != file.current.len() {
                    let (was, is) = (file.current.len(), found.len());
                    return Err(format!("{}: of {was} bytes are {is}, and byte {differ:?} differs", at.display()));
                }
            }
        }
        let found = count(real).map_err(|error| error.to_string())?;
        if found == names { Ok(()) } else { Err(format!("{found} names, and the trace has {names}")) }
    }

    /// Simulates a loss of power. `unit` is the number of bytes that the disk writes whole.
    pub(crate) fn cut(&self, unit: usize, loss: Loss, random: &mut Rng) -> Image {
        let mut image = Image::default();
        let mut dirs = vec![(Parts::new(), 0)];
        while let Some((path, node)) = dirs.pop() {
            match self.nodes.get(node) {
                Some(Node::Dir(dir)) => {
                    let reached = reached(dir.changes.len(), loss, random);
                    let mut names = dir.synced.clone();
                    dir.changes.iter().take(reached).for_each(|(_, change)| rename(&mut names, change));
                    image.lost_names += (dir.changes.len() - reached) as u64;
                    for (name, child) in names {
                        dirs.push((path.iter().cloned().chain([name]).collect(), child));
                    }
                    image.dirs.push(path);
                }
                Some(Node::File(file)) => {
                    let (bytes, lost) = file.cut(unit, loss, random);
                    image.lost += lost;
                    image.files.push((path, bytes));
                }
                None => {}
            }
        }
        image
    }
}

/// Counts the entries below a directory.
fn count(dir: &Path) -> io::Result<usize> {
    let mut found = 0;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        found += 1 + if path.is_dir() { count(&path)? } else { 0 };
    }
    Ok(found)
}

impl Image {
    /// Writes the image into a directory.
    ///
    /// # Errors
    /// Faults of the file system.
    pub(crate) fn write(&self, to: &Path) -> io::Result<()> {
        for dir in &self.dirs {
            fs::create_dir_all(to.join(dir.join("/")))?;
        }
        for (path, bytes) in &self.files {
            fs::write(to.join(path.join("/")), bytes)?;
        }
        Ok(())
    }
}
