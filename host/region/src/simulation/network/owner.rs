//! The region that owns the resources: its content in memory, and its messages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mortise_resource::{
    data::{
        ResourceChange, WatchResourcesResponse,
        resource_change::{ChangeType, Current, Removed},
    },
    goten::{Meta, SyncingMeta},
    pb,
};
use mortise_test_guests::Thing;
use tokio::sync::watch;

use crate::simulation::world::{Dice, any, thing_id};

/// Names of the resources.
pub(super) const NAMES: u64 = 6;

/// Uid and version of a resource.
pub(super) type State = (String, u64);

/// A commit of the owner: the new state of a resource, or its end.
#[derive(Debug, Clone)]
struct Commit {
    sequence: u64,
    resource: pb::Resource,
    is_removal: bool,
}

/// Numbers of what the owner sent.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sent {
    pub(super) snapshots: usize,
    pub(super) resumed: usize,
    pub(super) refused_tokens: usize,
    pub(super) repeated: usize,
    pub(super) false_removals: usize,
    pub(super) ended: usize,
}

/// The owner.
pub(super) struct Owner {
    pub(super) region: String,
    pub(super) store_id: String,
    commits: Vec<Commit>,
    content: BTreeMap<String, pb::Resource>,
    /// Sequence of each uid's removal.
    pub(super) removed: BTreeMap<String, u64>,
    /// Every state so far.
    pub(super) states: BTreeSet<State>,
    /// Tokens before it are unknown.
    first_token: u64,
    /// Sequence of the newest commit.
    pub(super) newest: watch::Sender<u64>,
    pub(super) sent: Sent,
    dice: Dice,
}

/// Returns a valid ULID of a number.
fn ulid(number: u64) -> String {
    format!("{number:026}")
}

fn state(resource: &pb::Resource) -> State {
    (resource.id.clone().unwrap_or_default().uid, resource.version.parse().unwrap())
}

fn name(resource: &pb::Resource) -> String {
    resource.id.clone().unwrap_or_default().name
}

fn current(resource: &pb::Resource) -> ResourceChange {
    ResourceChange { change_type: Some(ChangeType::Current(Current { resource: Some(resource.clone()) })) }
}

fn removed(resource: &pb::Resource) -> ResourceChange {
    ResourceChange { change_type: Some(ChangeType::Removed(Removed { name: resource.id.clone(), view_index: 0 })) }
}

impl Owner {
    /// Makes a region without resources.
    pub(super) fn new(region: &str, seed: u64) -> Self {
        Self {
            region: region.to_owned(),
            store_id: ulid(1),
            commits: Vec::new(),
            content: BTreeMap::new(),
            removed: BTreeMap::new(),
            states: BTreeSet::new(),
            first_token: 0,
            newest: watch::Sender::default(),
            sent: Sent::default(),
            dice: Dice(seed),
        }
    }

    /// Writes a resource, or deletes it if there is one.
    pub(super) fn change(&mut self, number: u64, deletes: bool) {
        let (sequence, name) = (*self.newest.borrow() + 1, format!("{}-r{number}", self.region));
        let resource = match (self.content.get(&name), deletes) {
            (None, true) => return,
            (Some(stored), true) => stored.clone(),
            (stored, false) => {
                let uid = stored.map_or_else(|| ulid(100 + sequence), |stored| state(stored).0);
                written(&self.region, &name, uid, sequence)
            }
        };
        if deletes {
            self.removed.insert(state(&resource).0, sequence);
            self.content.remove(&name);
        } else {
            self.states.insert(state(&resource));
            self.content.insert(name, resource.clone());
        }
        self.commits.push(Commit { sequence, resource, is_removal: deletes });
        self.newest.send_replace(sequence);
    }

    /// Forgets the history: earlier tokens lead to a snapshot.
    pub(super) fn trim(&mut self) {
        self.first_token = *self.newest.borrow();
    }

    /// Returns the content after a commit, by name.
    pub(super) fn content_at(&self, sequence: u64) -> BTreeMap<String, State> {
        let mut content = BTreeMap::new();
        for commit in self.commits.iter().take_while(|commit| commit.sequence <= sequence) {
            match commit.is_removal {
                true => content.remove(&name(&commit.resource)),
                false => content.insert(name(&commit.resource), state(&commit.resource)),
            };
        }
        content
    }

    /// Returns the present content, by name.
    pub(super) fn content(&self) -> BTreeMap<String, State> {
        self.content_at(u64::MAX)
    }

    /// Returns the resources with these uids.
    pub(super) fn get(&self, ids: &[pb::Id]) -> Vec<pb::Resource> {
        let has = |resource: &&pb::Resource| ids.iter().any(|id| id.uid == state(resource).0);
        self.content.values().filter(has).cloned().collect()
    }

    /// Begins a watch: returns its first messages, and its position. `None`: the token is refused.
    pub(super) fn begin(&mut self, token: &str) -> Option<(VecDeque<WatchResourcesResponse>, u64)> {
        let known = token.strip_prefix('t').and_then(|token| token.parse::<u64>().ok());
        if known.is_some() && self.dice.below(4) == 0 {
            self.sent.refused_tokens += 1;
            return None;
        }
        if let Some(position) = known.filter(|position| *position >= self.first_token) {
            self.sent.resumed += 1;
            return Some((VecDeque::new(), position));
        }
        self.sent.snapshots += 1;
        let reset = WatchResourcesResponse { is_hard_reset: true, ..WatchResourcesResponse::default() };
        let mut messages: VecDeque<_> = known.is_some().then_some(reset).into_iter().collect();
        if self.dice.below(4) == 0 {
            // The type is registered again amid the first snapshot.
            messages.extend(self.snapshot().into_iter().filter(|message| !message.is_current));
            messages.push_back(WatchResourcesResponse { is_soft_reset: true, ..WatchResourcesResponse::default() });
        }
        messages.extend(self.snapshot());
        Some((messages, *self.newest.borrow()))
    }

    fn snapshot(&mut self) -> Vec<WatchResourcesResponse> {
        let mut changes: Vec<_> = self.content.values().map(current).collect();
        self.shuffle(&mut changes);
        let token = *self.newest.borrow();
        self.chunks(changes, token)
    }

    /// Returns the messages with the commits behind a position, and the position behind them. `None`: the watch ends.
    pub(super) fn next_messages(&mut self, position: u64) -> Option<(VecDeque<WatchResourcesResponse>, u64)> {
        if self.dice.below(20) == 0 {
            self.sent.ended += 1;
            return None;
        }
        let (mut messages, mut position) = (VecDeque::new(), position);
        let behind: Vec<Commit> = self.commits.iter().filter(|commit| commit.sequence > position).cloned().collect();
        let mut rest = behind.as_slice();
        while !rest.is_empty() {
            let number = (1 + usize::try_from(self.dice.below(3)).unwrap()).min(rest.len());
            let (some, behind) = rest.split_at(number);
            rest = behind;
            position = some[number - 1].sequence;
            let mut made = self.message(some, position);
            if self.dice.below(4) == 0 {
                self.sent.repeated += 1;
                made.extend(made.clone());
            }
            messages.extend(made);
        }
        Some((messages, position))
    }

    /// Returns commits as one set of changes, in any order of their names, perhaps with a removal that is not true.
    fn message(&mut self, commits: &[Commit], token: u64) -> Vec<WatchResourcesResponse> {
        let mut by_name: BTreeMap<String, Vec<ResourceChange>> = BTreeMap::new();
        for commit in commits {
            let change = if commit.is_removal { removed(&commit.resource) } else { current(&commit.resource) };
            by_name.entry(name(&commit.resource)).or_default().push(change);
        }
        if self.dice.below(4) == 0 {
            let other = self.content.iter().find(|(name, _)| !by_name.contains_key(*name));
            if let Some((name, resource)) = other {
                self.sent.false_removals += 1;
                by_name.insert(name.clone(), vec![removed(resource)]);
            }
        }
        let mut names: Vec<_> = by_name.into_values().collect();
        self.shuffle(&mut names);
        self.chunks(names.concat(), token)
    }

    /// Returns changes in one or two messages.
    fn chunks(&mut self, mut changes: Vec<ResourceChange>, token: u64) -> Vec<WatchResourcesResponse> {
        let mut messages = Vec::new();
        if changes.len() > 1 && self.dice.below(2) == 0 {
            let rest = changes.split_off(changes.len() / 2);
            messages.push(WatchResourcesResponse { changes, ..WatchResourcesResponse::default() });
            changes = rest;
        }
        let resume_token = format!("t{token}");
        messages.push(WatchResourcesResponse {
            changes,
            is_current: true,
            resume_token,
            ..WatchResourcesResponse::default()
        });
        messages
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            let other = usize::try_from(self.dice.below(last as u64 + 1)).unwrap();
            all.swap(last, other);
        }
    }
}

fn written(region: &str, name: &str, uid: String, version: u64) -> pb::Resource {
    let thing = Thing { text: region.into(), number: i64::try_from(version).unwrap(), ..Thing::default() };
    let syncing = SyncingMeta { owning_region: region.into(), regions: vec!["*".into()], ..SyncingMeta::default() };
    pb::Resource {
        id: Some(pb::Id { uid, ..thing_id("default", name) }),
        version: version.to_string(),
        generation: ulid(version),
        data: any("mortise.test.v1.Thing", &thing),
        meta: Some(Box::new(Meta { syncing: Some(syncing), ..Meta::default() })),
        ..pb::Resource::default()
    }
}
