//! Answers of a store, before and after a flip.

use std::collections::BTreeMap;

use mortise_resource::pb;
use mortise_store::{Backend, Batch, Consistency, Mutation, RecordKind, SledBackend, StoreError};

use super::target::{NAMES, WRITERS};
use crate::{
    Outcome,
    ledger::Content,
    resources::{State, id, name, resource},
    writer::content,
};

/// Whole content of a store.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Saying {
    pub(super) content: Content,
    pub(super) by_owner: BTreeMap<String, Vec<String>>,
    pub(super) types: usize,
    /// Records by kind and sequence.
    pub(super) records: BTreeMap<(RecordKind, u64), Vec<u8>>,
    pub(super) sequence: u64,
}

/// Comparison of the content with an earlier one.
pub(super) struct Found {
    /// Wrong answers: those that differ from before the flip, without an error.
    pub(super) wrong: Vec<String>,
    pub(super) errors: Vec<String>,
}

pub(super) async fn saying(store: &SledBackend) -> Outcome<Saying> {
    let content = content(store).await?;
    let mut by_owner = BTreeMap::new();
    for (key, owner) in owners(&content) {
        by_owner.insert(key, children(&store.list_by_owner(&owner).await?));
    }
    let mut snapshot = store.snapshot().await?;
    let sequence = snapshot.head().sequence;
    let mut records = BTreeMap::new();
    while let Some(page) = snapshot.next().await? {
        records.extend(page.into_iter().map(|record| ((record.kind, record.sequence), record.payload)));
    }
    Ok(Saying { content, by_owner, types: store.types().await?.len(), records, sequence })
}

/// Returns ids of owners, by name and incarnation.
fn owners(content: &Content) -> BTreeMap<String, pb::Id> {
    let owners = content.values().filter_map(|state| state.owner.as_ref());
    owners.map(|(name, incarnation)| (format!("{name}@{incarnation}"), id(name, *incarnation))).collect()
}

fn children(found: &[pb::Resource]) -> Vec<String> {
    let mut children: Vec<_> = found.iter().map(|resource| format!("{resource:?}")).collect();
    children.sort();
    children
}

/// Reads everything, and compares each answer.
pub(super) async fn compare(store: &SledBackend, before: &Saying) -> Found {
    let mut found = Found { wrong: Vec::new(), errors: Vec::new() };
    let answers = |error: StoreError| error.to_string();
    for name in (0..WRITERS).flat_map(|writer| (0..NAMES).map(move |slot| name(writer, slot))) {
        let state = before.content.get(&name);
        let any = pb::Id { uid: String::new(), ..id(&name, 0) };
        match (store.read(Consistency::Consistent, &any).await, state) {
            (Ok(read), Some(state)) if read == resource(&name, state) => {}
            (Err(StoreError::NotFound), None) => {}
            (Err(StoreError::NotFound), Some(_)) => found.wrong.push(format!("{name} is missing")),
            (Ok(_), _) => found.wrong.push(format!("{name} differs")),
            (Err(error), _) => found.errors.push(answers(error)),
        }
    }
    match content(store).await {
        Ok(content) if content == before.content => {}
        Ok(_) => found.wrong.push("lists have something else".to_owned()),
        Err(error) => match error.downcast::<StoreError>() {
            Ok(error) => found.errors.push(answers(*error)),
            Err(error) => found.wrong.push(error.to_string()),
        },
    }
    for (key, owner) in owners(&before.content) {
        match store.list_by_owner(&owner).await {
            Ok(listed) if before.by_owner.get(&key) == Some(&children(&listed)) => {}
            Ok(_) => found.wrong.push(format!("{key} owns other resources")),
            Err(error) => found.errors.push(answers(error)),
        }
    }
    match saying(store).await {
        Ok(now) => {
            for (key, payload) in &before.records {
                if now.records.get(key) != Some(payload) {
                    found.wrong.push(format!("in a snapshot, {key:?} is missing, or differs"));
                }
            }
            if now.records.keys().any(|key| !before.records.contains_key(key)) {
                found.wrong.push("a snapshot has more".to_owned());
            }
            if (now.types, now.sequence) != (before.types, before.sequence) {
                found.wrong.push(format!("{} types, commit {}", now.types, now.sequence));
            }
        }
        Err(error) => found.errors.push(error.to_string()),
    }
    found
}

/// Returns the fault of the version that a new write gets, if it has one.
pub(super) async fn new_version(store: &SledBackend, before: &Saying, must: bool) -> Option<String> {
    let state = State { number: 77, incarnation: 77, owner: None, version: 0 };
    match store.commit(Batch::single(Mutation::Put(Box::new(resource("after", &state))))).await {
        Ok(answers) => {
            let version = answers.into_iter().flatten().find_map(|stored| stored.version().parse::<u64>().ok());
            let given = before.sequence;
            version
                .is_none_or(|version| version <= given)
                .then(|| format!("a write gets version {version:?} after {given}"))
        }
        Err(error) => must.then(|| format!("the store is right, and a write fails: {error}")),
    }
}
