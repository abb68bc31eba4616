//! The reports of a writer about its writes, and the contents that a store may therefore have.
//!
//! The writer reports each write before it begins, and its answer afterwards. Each line reaches the ledger in that
//! order, however the writer ends. So each resource has one acknowledged state, and at most one write in flight, whose
//! outcome is open: the store has the whole batch of the write, or no part of it.
//!
//! | line | meaning |
//! |---|---|
//! | `begin` write edits | the write begins |
//! | `try` write edits | as `begin`, and the store must refuse it |
//! | `done` write versions | the write was acknowledged, with the version of each edit (0 for a deletion) |
//! | `refused` write | the write was refused |
//! | `found` name`=`state | a life of the writer begins, and it reads this |
//! | `opened` | the reading is complete |
//!
//! An edit is `+name=state`, `-name`, or `~name=state` for another form under the same version; edits and versions are
//! separated by commas.

use std::collections::{BTreeMap, BTreeSet};

use crate::resources::State;

/// Whole content of a store.
pub(crate) type Content = BTreeMap<String, State>;

/// A change of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edit {
    /// Creates or replaces; the version is not known yet.
    Put(String, State),
    /// Deletes.
    Delete(String),
    /// Replaces under the same version.
    Rewrite(String, State),
}

impl Edit {
    /// Encodes the edit in one word.
    pub(crate) fn to_word(&self) -> String {
        match self {
            Self::Put(name, state) => format!("+{name}={}", state.to_word()),
            Self::Delete(name) => format!("-{name}"),
            Self::Rewrite(name, state) => format!("~{name}={}", state.to_word()),
        }
    }

    fn of_word(word: &str) -> Option<Self> {
        let (sign, rest) = word.split_at_checked(1)?;
        let both = || rest.split_once('=').and_then(|(name, state)| Some((name.to_owned(), State::of_word(state)?)));
        match sign {
            "+" => both().map(|(name, state)| Self::Put(name, state)),
            "-" => Some(Self::Delete(rest.to_owned())),
            "~" => both().map(|(name, state)| Self::Rewrite(name, state)),
            _ => None,
        }
    }

    fn name(&self) -> &String {
        match self {
            Self::Put(name, _) | Self::Delete(name) | Self::Rewrite(name, _) => name,
        }
    }
}

#[derive(Debug, Clone)]
struct Write {
    edits: Vec<Edit>,
    /// Whether the store must refuse the write.
    wrong: bool,
}

/// All acknowledged and open writes of a store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    acknowledged: Content,
    in_flight: BTreeMap<u64, Write>,
    /// Versions given in this life of the store.
    given: BTreeSet<u64>,
    /// The newest version ever given.
    pub(crate) newest: u64,
    /// The newest version of earlier lives; a new version must be higher.
    bar: u64,
    /// Content that the present life read when it began.
    found: Content,
    /// Number of acknowledged writes.
    pub(crate) writes: u64,
    /// Number of writes that were refused, as they had to be.
    pub(crate) refusals: u64,
}

/// Outcome of the writes in flight.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Differences from the possible contents.
    pub(crate) faults: Vec<String>,
    /// Writes in flight that are there.
    pub(crate) present: u64,
    /// Writes in flight that are missing.
    pub(crate) absent: u64,
}

impl Ledger {
    /// Makes a ledger with this content, without writes in flight.
    #[cfg(test)]
    fn of(acknowledged: Content) -> Self {
        Self { acknowledged, ..Self::default() }
    }

    /// Whether a write is in flight.
    pub(crate) fn is_writing(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Begins a life, also after one that was killed while it read.
    pub(crate) fn begin_life(&mut self) {
        self.found.clear();
    }

    /// Takes in a line.
    ///
    /// # Errors
    /// The line reports a fault, or cannot be understood.
    pub(crate) fn hear(&mut self, line: &str) -> Result<Comparison, String> {
        let nonsense = || format!("not a line of a ledger: {line:?}");
        let mut words = line.split(' ');
        let (Some(verb), subject, object) = (words.next(), words.next(), words.next()) else { return Err(nonsense()) };
        let number = || subject.and_then(|word| word.parse::<u64>().ok()).ok_or_else(nonsense);
        match verb {
            "begin" | "try" => {
                let edits = object.unwrap_or_default().split(',').map(Edit::of_word).collect::<Option<Vec<_>>>();
                let edits = edits.ok_or_else(nonsense)?;
                self.in_flight.insert(number()?, Write { edits, wrong: verb == "try" });
            }
            "done" => {
                let versions = object.unwrap_or_default().split(',').map(str::parse).collect::<Result<Vec<u64>, _>>();
                let versions = versions.map_err(|_| nonsense())?;
                let write = self.in_flight.remove(&number()?).ok_or_else(nonsense)?;
                self.acknowledge(&write, &versions).map_err(|fault| format!("{line:?}: {fault}"))?;
            }
            "refused" => {
                let write = self.in_flight.remove(&number()?).ok_or_else(nonsense)?;
                if !write.wrong {
                    return Err(format!("a write was refused without a reason: {:?}", write.edits));
                }
                self.refusals += 1;
            }
            "found" => {
                let (name, state) = subject.and_then(|word| word.split_once('=')).ok_or_else(nonsense)?;
                self.found.insert(name.to_owned(), State::of_word(state).ok_or_else(nonsense)?);
            }
            "opened" => {
                let found = std::mem::take(&mut self.found);
                return Ok(self.settle(&found));
            }
            _ => return Err(nonsense()),
        }
        Ok(Comparison::default())
    }

    fn acknowledge(&mut self, write: &Write, versions: &[u64]) -> Result<(), String> {
        if write.wrong {
            return Err("the store had to refuse the write".to_owned());
        }
        if versions.len() != write.edits.len() {
            return Err("the line needs a version for each edit".to_owned());
        }
        for (edit, version) in write.edits.iter().zip(versions) {
            match edit {
                Edit::Put(name, state) => {
                    if *version <= self.bar {
                        return Err(format!("version {version} was given, and {} before this life", self.bar));
                    }
                    if !self.given.insert(*version) {
                        return Err(format!("version {version} was given twice"));
                    }
                    self.newest = self.newest.max(*version);
                    self.acknowledged.insert(name.clone(), State { version: *version, ..state.clone() });
                }
                Edit::Delete(name) => drop(self.acknowledged.remove(name)),
                Edit::Rewrite(name, state) if state.version == *version => {
                    self.acknowledged.insert(name.clone(), state.clone());
                }
                Edit::Rewrite(..) => return Err(format!("a rewrite got version {version}")),
            }
        }
        self.writes += 1;
        Ok(())
    }

    /// Compares with the whole content of a store, and takes that as acknowledged from here on, without writes in
    /// flight.
    pub(crate) fn settle(&mut self, found: &Content) -> Comparison {
        let mut comparison = Comparison::default();
        let mut expected = std::mem::take(&mut self.acknowledged);
        for write in std::mem::take(&mut self.in_flight).into_values() {
            let there = write.edits.iter().filter(|edit| self.is_done(edit, found)).count();
            if there == write.edits.len() && !write.wrong {
                comparison.present += 1;
                for name in write.edits.iter().map(Edit::name) {
                    match found.get(name) {
                        Some(state) => drop(expected.insert(name.clone(), state.clone())),
                        None => drop(expected.remove(name)),
                    }
                }
            } else {
                // Its parts that are there nevertheless are found below.
                comparison.absent += 1;
            }
        }
        for name in expected.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
            let (wanted, found) = (expected.get(name), found.get(name));
            if wanted != found {
                comparison.faults.push(format!("{name} is {}, and should be {}", shown(found), shown(wanted)));
            }
        }
        self.acknowledged = found.clone();
        let newest = found.values().map(|state| state.version).max().unwrap_or(0);
        self.newest = self.newest.max(newest);
        self.bar = self.newest;
        self.given.clear();
        comparison
    }

    /// Whether an edit in flight is there.
    fn is_done(&self, edit: &Edit, found: &Content) -> bool {
        match edit {
            // Other writes of this life may have newer versions.
            Edit::Put(name, state) => found.get(name).is_some_and(|found| {
                let new = found.version > self.bar && !self.given.contains(&found.version);
                new && State { version: state.version, ..found.clone() } == *state
            }),
            Edit::Delete(name) => !found.contains_key(name),
            Edit::Rewrite(name, state) => found.get(name) == Some(state),
        }
    }
}

fn shown(state: Option<&State>) -> String {
    state.map_or("absent".to_owned(), State::to_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(number: u64, version: u64) -> State {
        State { number, incarnation: 1, owner: None, version }
    }

    fn content(states: &[(&str, State)]) -> Content {
        states.iter().map(|(name, state)| ((*name).to_owned(), state.clone())).collect()
    }

    #[test]
    fn what_was_acknowledged_has_to_be_there() {
        let mut ledger = Ledger::default();
        for line in ["opened", "begin 1 +a=1:1::0", "done 1 5"] {
            assert_eq!(ledger.hear(line).unwrap(), Comparison::default());
        }
        assert_eq!(ledger.clone().settle(&content(&[("a", state(1, 5))])).faults, [""; 0]);
        for wrong in [content(&[]), content(&[("a", state(1, 6))]), content(&[("a", state(2, 5))])] {
            assert_eq!(ledger.clone().settle(&wrong).faults.len(), 1, "{wrong:?}");
        }
        // No version may be given twice, neither in this life nor in the next.
        ledger.hear("begin 2 +b=2:1::0").unwrap();
        assert!(ledger.clone().hear("done 2 5").unwrap_err().contains("given twice"));
        ledger.settle(&content(&[("a", state(1, 5))]));
        ledger.hear("begin 2 +b=2:1::0").unwrap();
        assert!(ledger.hear("done 2 4").unwrap_err().contains("before this life"));
    }

    #[test]
    fn a_write_in_flight_is_there_whole_or_not_at_all() {
        let before = content(&[("a", state(1, 5)), ("b", state(2, 6))]);
        let mut ledger = Ledger::of(before.clone());
        ledger.bar = 6;
        ledger.hear("begin 1 +a=3:1::0,-b").unwrap();
        let outcome = |found: &Content| {
            let Comparison { faults, present, absent } = ledger.clone().settle(found);
            (faults.len(), present, absent)
        };
        assert_eq!(outcome(&before), (0, 0, 1));
        assert_eq!(outcome(&content(&[("a", state(3, 7))])), (0, 1, 0));
        assert_eq!(outcome(&content(&[("a", state(3, 7)), ("b", state(2, 6))])), (1, 0, 1));
        assert_eq!(outcome(&content(&[("a", state(1, 5))])), (1, 0, 1));
        assert_eq!(outcome(&content(&[("a", state(3, 6))])), (2, 0, 1), "a version that was given");
    }

    #[test]
    fn a_refused_write_must_not_appear() {
        let mut ledger = Ledger::of(content(&[("a", state(1, 5))]));
        ledger.hear("try 1 +a=3:1::0").unwrap();
        assert_eq!(ledger.clone().settle(&content(&[("a", state(3, 7))])).faults.len(), 1);
        assert_eq!(ledger.clone().settle(&content(&[("a", state(1, 5))])).faults.len(), 0);
        assert!(ledger.clone().hear("done 1 7").unwrap_err().contains("had to refuse the write"));
        ledger.hear("refused 1").unwrap();
        assert_eq!(ledger.refusals, 1);
    }
}
