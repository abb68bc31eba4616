//! Knowledge of this server about its own plugins, in files: one for each plugin, with its data and its conditions.
//!
//! A file that is missing or damaged counts as that of an unknown plugin.

use std::{collections::BTreeMap, fs, io, path::PathBuf};

use mortise_resource::{data, pb::Condition};
use prost::Message;

use crate::{
    files::folder,
    plugin_resources::{PluginRecord, condition},
};

/// Content of a file.
#[derive(Clone, PartialEq, Message)]
struct RecordFile {
    #[prost(message, optional, tag = "1")]
    data: Option<data::Plugin>,
    #[prost(message, optional, tag = "2")]
    loaded: Option<Condition>,
    #[prost(message, optional, tag = "3")]
    healthy: Option<Condition>,
}

/// The files of a directory.
#[derive(Debug)]
pub(crate) struct OwnRecords {
    dir: PathBuf,
    written: BTreeMap<String, PluginRecord>,
}

impl OwnRecords {
    /// Reads the files of a directory, which may be missing.
    pub(crate) fn open(dir: PathBuf) -> io::Result<Self> {
        let mut written = BTreeMap::new();
        let entries = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self { dir, written }),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            // A temporary file of an unfinished write has a dot.
            if mortise_resource::name::fault(name).is_some() {
                continue;
            }
            match RecordFile::decode(&*fs::read(&path)?) {
                Ok(RecordFile { data: Some(data), loaded: Some(loaded), healthy: Some(healthy) }) => {
                    written.insert(name.to_owned(), PluginRecord { data, loaded, healthy });
                }
                _ => tracing::warn!(path = %path.display(), "a plugin's record is damaged, and is left out"),
            }
        }
        Ok(Self { dir, written })
    }

    /// Returns all records by the plugins' names.
    pub(crate) fn all(&self) -> Vec<(String, PluginRecord)> {
        self.written.iter().map(|(name, record)| (name.clone(), record.clone())).collect()
    }

    /// Returns whether there is a record of a plugin.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.written.contains_key(name)
    }

    /// Writes a record durably, if it has changed. Returns whether its data has.
    pub(crate) fn put(&mut self, name: &str, record: &PluginRecord) -> io::Result<bool> {
        let earlier = self.written.get(name);
        let is_new_data = earlier.is_none_or(|earlier| earlier.data != record.data);
        if earlier == Some(record) {
            return Ok(false);
        }
        let PluginRecord { data, loaded, healthy } = record.clone();
        let file = RecordFile { data: Some(data), loaded: Some(loaded), healthy: Some(healthy) };
        folder::write_durably(&self.dir, name, &file.encode_to_vec())?;
        self.written.insert(name.to_owned(), record.clone());
        Ok(is_new_data)
    }

    /// Removes a record.
    pub(crate) fn forget(&mut self, name: &str) {
        self.written.remove(name);
        match fs::remove_file(self.dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(plugin = name, %error, "the record of a removed plugin cannot be removed");
            }
            _ => {}
        }
    }
}

/// Conditions of a plugin on all servers: those of the server that is worst off, with its name.
pub(crate) fn worst<'c>(own: &'c Condition, others: impl Iterator<Item = (&'c str, &'c Condition)>) -> Condition {
    use mortise_resource::pb::condition::State;

    let rank = |condition: &Condition| match condition.state() {
        State::False => 2,
        State::Unknown => 1,
        State::True => 0,
    };
    let worst = others.filter(|(_, other)| rank(other) > rank(own)).max_by_key(|(_, other)| rank(other));
    match worst {
        Some((server, found)) => {
            let message = format!("server {server}: {}", found.message);
            condition(&found.r#type, found.state(), &found.reason, message)
        }
        None => own.clone(),
    }
}

#[cfg(test)]
mod tests {
    use mortise_resource::pb::condition::State;

    use super::*;

    fn record(version: &str) -> PluginRecord {
        PluginRecord {
            data: data::Plugin { version: version.to_owned(), ..data::Plugin::default() },
            loaded: condition("Loaded", State::True, "Serving", "text"),
            healthy: condition("Healthy", State::True, "Healthy", ""),
        }
    }

    #[test]
    fn records_come_back_and_a_damaged_one_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plugins");
        let mut records = OwnRecords::open(path.clone()).unwrap();
        assert!(records.put("a", &record("1")).unwrap());
        assert!(!records.put("a", &record("1")).unwrap());
        assert!(records.put("a", &record("2")).unwrap());
        records.put("b", &record("3")).unwrap();
        records.put("gone", &record("4")).unwrap();
        records.forget("gone");
        fs::write(path.join("b"), [0xff]).unwrap();
        fs::write(path.join(".a.tmp"), "x").unwrap();
        assert_eq!(OwnRecords::open(path).unwrap().all(), [("a".to_owned(), record("2"))]);
    }

    #[test]
    fn the_condition_of_all_is_that_of_the_worst() {
        let of = |state, reason: &str| condition("Loaded", state, reason, "why");
        let (serves, waits, refused) =
            (of(State::True, "Serving"), of(State::Unknown, "Compiling"), of(State::False, "TypeLost"));
        let all = |own: &Condition, others: &[(&str, &Condition)]| worst(own, others.iter().copied()).reason;
        assert_eq!(all(&serves, &[]), "Serving");
        assert_eq!(all(&serves, &[("b", &waits), ("c", &refused), ("d", &serves)]), "TypeLost");
        assert_eq!(all(&refused, &[("b", &serves), ("c", &waits)]), "TypeLost");
        let found = worst(&serves, [("c", &refused)].into_iter());
        assert_eq!((found.message.as_str(), found.r#type.as_str()), ("server c: why", "Loaded"));
    }
}
