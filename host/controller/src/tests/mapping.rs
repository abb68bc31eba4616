//! Mappers and their failures.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use mortise_resource::pb;
use parking_lot::Mutex;

use super::{
    harness::{Harness, Probe},
    kit::{album, artist, id, pointing, refers, resource},
};
use crate::{By, Context, Definition, Index, IndexKey, Keys, Map, Mapper, ReconcileError};

fn watching(mapper: Mapper) -> impl FnOnce(Definition) -> Definition {
    move |d| d.watch(album(), mapper, Vec::new())
}

fn references() -> Mapper {
    Mapper::References(Arc::new(refers))
}

fn owned(version: u64, name: &str, owner: pb::Id) -> pb::Resource {
    pb::Resource { owner: Some(owner), ..resource(&album(), name, version) }
}

async fn fresh(mapper: Mapper) -> Harness {
    let harness = Harness::start(Probe::done(), watching(mapper)).await;
    harness.probe.names();
    harness
}

#[tokio::test(start_paused = true)]
async fn owners() {
    let harness = fresh(Mapper::Owner).await;
    harness.store.put_as(|v| owned(v, "x", id(&artist(), "a")));
    harness.store.put_as(|v| owned(v, "y", id(&album(), "b")));
    harness.store.put(&album(), "z");
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["a"]);
    assert_eq!(harness.status().mapper_skipped, 0, "an owner of another type is no request");
}

#[tokio::test(start_paused = true)]
async fn same_name_in_the_same_place_whatever_the_uid() {
    let harness = fresh(Mapper::SameName).await;
    harness.store.put(&album(), "a");
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_reference_that_moves_wakes_its_old_and_its_new_target() {
    let harness = fresh(references()).await;
    harness.store.point(&album(), "x", "a");
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["a"]);
    harness.store.point(&album(), "x", "b");
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["b", "a"]);
    harness.store.delete(&album(), "x");
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["b"], "a deletion is mapped with what was there last");
}

#[tokio::test(start_paused = true)]
async fn a_status_write_moves_nothing() {
    let harness = fresh(references()).await;
    harness.store.point(&album(), "x", "a");
    harness.settle().await;
    harness.store.put_as(|v| pb::Resource { generation: "g1".into(), ..pointing(&album(), "x", v, "a") });
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_reference_that_moved_while_nobody_watched_wakes_both() {
    let harness = fresh(references()).await;
    harness.store.point(&album(), "x", "a");
    harness.store.point(&album(), "y", "c");
    harness.pass(3000).await;
    harness.probe.names();
    harness.store.break_watches();
    harness.store.point(&album(), "x", "b");
    harness.store.delete(&album(), "y");
    harness.settle().await;
    assert_eq!(harness.probe.names()[3..], ["b", "a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn through_an_index_of_the_managed_type() {
    let keys: Keys = Arc::new(|album| Ok(album.id.iter().map(|id| IndexKey::text(&id.name)).collect()));
    let genre: Keys = Arc::new(|r| Ok(r.metadata.get("genre").map(|g| IndexKey::text(g)).into_iter().collect()));
    let fault = |d: Definition| {
        let found = Mapper::Index { kind: artist(), index: "genre".into(), keys };
        d.index(Index::new("genre", By::Keys(genre))).watch(album(), found, Vec::new())
    };
    let harness = Harness::new(Probe::done());
    for (name, genre) in [("a", "rock"), ("b", "rocksteady"), ("c", "rock")] {
        harness.store.put_as(|v| {
            let mut artist = resource(&artist(), name, v);
            artist.metadata.insert("genre".into(), genre.into());
            artist
        });
    }
    harness.register(fault);
    harness.settle().await;
    harness.probe.names();
    harness.store.put(&album(), "rock");
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["a", "c"]);
}

type Answers = Box<dyn Fn(&str, u64) -> Result<Vec<pb::Id>, ReconcileError> + Send + Sync>;

/// Answers by its script for a name and a version, and records its calls.
struct Code {
    answers: Answers,
    asked: Mutex<Vec<String>>,
    takes: Duration,
}

impl Code {
    fn new(
        takes: u64,
        answers: impl Fn(&str, u64) -> Result<Vec<pb::Id>, ReconcileError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { answers: Box::new(answers), asked: Mutex::default(), takes: Duration::from_millis(takes) })
    }
}

#[async_trait]
impl Map for Code {
    async fn map(&self, _: &Context, resource: &pb::Resource) -> Result<Vec<pb::Id>, ReconcileError> {
        let name = resource.id.as_ref().unwrap().name.clone();
        self.asked.lock().push(format!("{name}{}", resource.version));
        tokio::time::sleep(self.takes).await;
        (self.answers)(&name, resource.version.parse().unwrap())
    }

    fn follows(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_mapper_that_fails_holds_up_nothing_but_that_item() {
    let code = Code::new(0, |name, _| {
        assert!(name != "y", "no ys");
        if name == "x" { Err("no xs".into()) } else { Ok(vec![id(&artist(), name)]) }
    });
    let harness = fresh(Mapper::Custom(code.clone())).await;
    for name in ["x", "y", "z"] {
        harness.store.put(&album(), name);
    }
    harness.pass(16).await;
    assert_eq!(harness.probe.names(), ["z"]);
    assert_eq!(*code.asked.lock(), ["x1", "y2", "z3", "x1", "y2", "x1", "y2"], "after 5 and 10 ms more");
    let status = harness.status();
    assert_eq!((status.mapper_errors, status.mapper_queue_depth, status.errors), (6, 2, 0));
    assert_eq!(&*status.failures[0].place, "map demo.v2.Album");
    assert_eq!(status.failures[0].message, "panic [recovered]: no ys");
    assert_eq!(status.failures[1].message, "no xs");
    harness.lease.0.send_replace(false);
    harness.settle().await;
    assert_eq!(harness.status().mapper_queue_depth, 0, "another server maps everything again");
}

#[tokio::test(start_paused = true)]
async fn an_item_that_breaks_the_mapper_is_quarantined_however_often_it_changes() {
    let code = Code::new(0, |name, _| match name {
        "poison" => Err(ReconcileError::fault("trapped")),
        name => Ok(vec![id(&artist(), name)]),
    });
    let harness = fresh(Mapper::Custom(code.clone())).await;
    for n in 0..65 {
        harness.store.put(&album(), "poison");
        harness.store.put(&album(), &format!("fine-{n}"));
        harness.pass(100).await;
    }
    let poisoned = code.asked.lock().iter().filter(|asked| asked.starts_with("poison")).count();
    assert_eq!(poisoned, 3, "at 0, 1 and 3 seconds; the next is at 7");
    assert_eq!((harness.status().mapper_errors, harness.probe.names().len()), (3, 65));
    harness.pass(1_000).await;
    assert_eq!(harness.status().mapper_errors, 4);
}

#[tokio::test(start_paused = true)]
async fn results_of_a_wrong_type_or_without_a_name_are_left_out_and_others_kept() {
    let code =
        Code::new(0, |_, _| Ok(vec![id(&album(), "a"), pb::Id::default(), id(&artist(), ""), id(&artist(), "b")]));
    let harness = fresh(Mapper::Custom(code)).await;
    harness.store.put(&album(), "x");
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["b"]);
    assert_eq!((harness.status().mapper_skipped, harness.status().mapper_errors), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn an_item_that_waits_for_its_mapper_has_the_newest_content() {
    let code = Code::new(10, |_, _| Ok(Vec::new()));
    let harness = fresh(Mapper::Custom(code.clone())).await;
    for name in ["x", "y", "x", "y", "y"] {
        harness.store.put(&album(), name);
        harness.settle().await;
    }
    harness.pass(100).await;
    assert_eq!(*code.asked.lock(), ["x1", "y5", "x3"], "one more for what changed while it was mapped");
}

#[tokio::test(start_paused = true)]
async fn every_former_version_that_was_not_mapped_is() {
    // The mapper is busy with another item while x moves from a to b to c.
    let refers = Arc::new(|r: &pb::Resource| refers(r));
    let harness = Harness::new(Probe::done());
    let busy = Mutex::new(true);
    let mapper = Mapper::References(Arc::new(move |r| {
        if std::mem::replace(&mut *busy.lock(), false) { Err("busy".into()) } else { refers(r) }
    }));
    harness.register(watching(mapper));
    harness.settle().await;
    harness.probe.names();
    harness.store.point(&album(), "x", "a");
    harness.settle().await;
    harness.store.point(&album(), "x", "b");
    harness.store.point(&album(), "x", "c");
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["c", "a", "b"]);
}

/// A mapper by reference; the closure gets the version and the number of calls with it before, and may fail.
fn failing(fails: impl Fn(u64, usize) -> Result<(), ReconcileError> + Send + Sync + 'static) -> Mapper {
    let calls = Mutex::new(std::collections::HashMap::<u64, usize>::new());
    Mapper::References(Arc::new(move |r| {
        let version = r.version.parse().unwrap();
        let before = {
            let mut calls = calls.lock();
            let count = calls.entry(version).or_default();
            *count += 1;
            *count - 1
        };
        fails(version, before)?;
        refers(r)
    }))
}

/// The old target is reconciled after a wait; the new one without.
#[tokio::test(start_paused = true)]
async fn a_former_version_on_which_the_mapper_fails_is_mapped_again() {
    type Failure = fn() -> ReconcileError;
    let failures: [(Failure, u64); 4] = [
        (|| ReconcileError::refused("quarantined", Duration::from_millis(200)), 200),
        (|| ReconcileError::fault("trapped"), 1_000),
        (|| "starved".into(), 5),
        (|| panic!("broken"), 5),
    ];
    for (failure, wait) in failures {
        // The first version is mapped as the present one, fails once as a former one, and then not again.
        let harness = fresh(failing(move |version, before| match (version, before) {
            (1, 1) => Err(failure()),
            _ => Ok(()),
        }))
        .await;
        harness.store.point(&album(), "x", "a");
        harness.settle().await;
        assert_eq!(harness.probe.names(), ["a"]);
        harness.store.point(&album(), "x", "b");
        harness.pass(wait - 1).await;
        assert_eq!(harness.probe.names(), ["b"], "the present version is not delayed");
        harness.pass(2).await;
        assert_eq!(harness.probe.names(), ["a"], "and not mapped again");
        let status = harness.status();
        assert!(status.failures.iter().all(|failure| failure.resolved), "{:?}", status.failures);
        assert!(status.failures.iter().all(|failure| failure.message.starts_with("former version 1: ")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_former_version_waits_with_a_change_that_comes_meanwhile() {
    let harness = fresh(failing(|version, before| match (version, before) {
        (1, 1) => Err(ReconcileError::refused("quarantined", Duration::from_millis(200))),
        _ => Ok(()),
    }))
    .await;
    harness.store.point(&album(), "x", "a");
    harness.settle().await;
    harness.store.point(&album(), "x", "b");
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["a", "b"]);
    harness.store.point(&album(), "x", "c");
    harness.pass(250).await;
    assert_eq!(harness.probe.names(), ["c", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_former_version_that_breaks_the_mapper_delays_no_later_version_nor_is_it_given_up_for_them() {
    let harness = fresh(failing(|version, before| match (version, before) {
        (1, 1..) => Err(ReconcileError::fault("trapped")),
        _ => Ok(()),
    }))
    .await;
    harness.store.point(&album(), "x", "a");
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["a"]);
    // As many changes as a former version has attempts, within its first wait.
    for number in 0..20 {
        harness.store.point(&album(), "x", &format!("b{number}"));
        harness.settle().await;
        assert!(harness.probe.names().contains(&format!("b{number}")), "{number}");
    }
    assert_eq!(harness.status().mapper_errors, 1);
    harness.pass(1_001).await;
    assert_eq!(harness.status().mapper_errors, 2, "its own wait decides");
}

#[tokio::test(start_paused = true)]
async fn a_former_version_that_keeps_failing_is_given_up_and_holds_up_no_other_version() {
    let harness = fresh(failing(|version, _| if version == 2 { Err("no".into()) } else { Ok(()) })).await;
    harness.store.point(&album(), "x", "a");
    harness.settle().await;
    harness.store.point(&album(), "x", "b");
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["a", "a"], "former versions are mapped even if the present one cannot be");
    let while_present = harness.status().mapper_errors;
    harness.store.point(&album(), "x", "c");
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["c"]);
    harness.pass(10_000_000).await;
    let status = harness.status();
    assert_eq!((status.mapper_errors - while_present, status.mapper_queue_depth), (16, 0));
    assert!(status.failures[0].resolved && harness.probe.names().is_empty());
}
