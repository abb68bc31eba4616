//! Mappers, custom sources, and what goes wrong in them.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt as _, stream::BoxStream};
use mortise_resource::pb;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::{
    kit::{album, artist, id, pointing, refers, resource},
    rig::{Probe, Rig},
};
use crate::{
    Cache, CustomEvent, CustomSource, Definition, Map, Mapper, ReconcileError,
    index::{By, Index, IndexKey},
};

fn watching(mapper: Mapper) -> impl FnOnce(Definition) -> Definition {
    move |d| d.watch(album(), mapper, Vec::new())
}

fn references() -> Mapper {
    Mapper::References(Arc::new(refers))
}

fn owned(version: u64, name: &str, owner: pb::Id) -> pb::Resource {
    pb::Resource { owner: Some(owner), ..resource(&album(), name, version) }
}

async fn fresh(mapper: Mapper) -> Rig {
    let rig = Rig::start(Probe::done(), watching(mapper)).await;
    rig.probe.names();
    rig
}

#[tokio::test(start_paused = true)]
async fn owners() {
    for mapper in [Mapper::Owner, Mapper::OwnerOf(artist())] {
        let any = matches!(mapper, Mapper::Owner);
        let rig = fresh(mapper).await;
        rig.store.put_as(|v| owned(v, "x", id(&artist(), "a")));
        rig.store.put_as(|v| owned(v, "y", id(&album(), "b")));
        rig.store.put(&album(), "z");
        rig.settle().await;
        assert_eq!(rig.probe.names(), ["a"]);
        assert_eq!(rig.status().mapper_skipped, u64::from(any), "an owner of another type is no request");
    }
}

#[tokio::test(start_paused = true)]
async fn same_name_in_the_same_place_whatever_the_uid() {
    let rig = fresh(Mapper::SameName).await;
    rig.store.put(&album(), "a");
    rig.settle().await;
    assert_eq!(rig.probe.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_reference_that_moves_wakes_its_old_and_its_new_target() {
    let rig = fresh(references()).await;
    rig.store.point(&album(), "x", "a");
    rig.settle().await;
    assert_eq!(rig.probe.names(), ["a"]);
    rig.store.point(&album(), "x", "b");
    rig.settle().await;
    assert_eq!(rig.probe.names(), ["b", "a"]);
    rig.store.delete(&album(), "x");
    rig.settle().await;
    assert_eq!(rig.probe.names(), ["b"], "a deletion is mapped with what was there last");
}

#[tokio::test(start_paused = true)]
async fn a_status_write_moves_nothing() {
    let rig = fresh(references()).await;
    rig.store.point(&album(), "x", "a");
    rig.settle().await;
    rig.store.put_as(|v| pb::Resource { generation: "g1".into(), ..pointing(&album(), "x", v, "a") });
    rig.settle().await;
    assert_eq!(rig.probe.names(), ["a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_reference_that_moved_while_nobody_watched_wakes_both() {
    let rig = fresh(references()).await;
    rig.store.point(&album(), "x", "a");
    rig.store.point(&album(), "y", "c");
    rig.pass(3000).await;
    rig.probe.names();
    rig.store.break_watches();
    rig.store.point(&album(), "x", "b");
    rig.store.delete(&album(), "y");
    rig.settle().await;
    assert_eq!(rig.probe.names()[3..], ["b", "a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn through_an_index_of_the_managed_type_or_of_another_one() {
    let keys: crate::index::Keys = Arc::new(|album| Ok(album.id.iter().map(|id| IndexKey::text(&id.name)).collect()));
    let genre: crate::index::Keys =
        Arc::new(|r| Ok(r.metadata.get("genre").map(|g| IndexKey::text(g)).into_iter().collect()));
    let of = |d: Definition| {
        let found = Mapper::Index { of: artist(), index: "genre".into(), keys, then: None };
        d.index(Index::new("genre", By::Keys(genre))).watch(album(), found, Vec::new())
    };
    let rig = Rig::new(Probe::done());
    for (name, genre) in [("a", "rock"), ("b", "rocksteady"), ("c", "rock")] {
        rig.store.put_as(|v| {
            let mut artist = resource(&artist(), name, v);
            artist.metadata.insert("genre".into(), genre.into());
            artist
        });
    }
    rig.register(of);
    rig.settle().await;
    rig.probe.names();
    rig.store.put(&album(), "rock");
    rig.settle().await;
    assert_eq!(rig.probe.names(), ["a", "c"]);

    let label = mortise_resource::types::Gvk::new("demo", "v1", "Label").to_pb();
    let all: crate::index::Keys = Arc::new(|_| Ok(vec![IndexKey::all()]));
    let then = Some(Box::new(Mapper::Owner));
    let via = Mapper::Index { of: album(), index: "id".into(), keys: all, then };
    let rig = Rig::start(Probe::done(), |d| {
        d.watch(album(), Mapper::Owner, Vec::new()).watch(label.clone(), via, Vec::new())
    })
    .await;
    rig.store.put_as(|v| owned(v, "x", id(&artist(), "a")));
    rig.settle().await;
    rig.probe.names();
    rig.store.put(&label, "l");
    rig.settle().await;
    assert_eq!(rig.probe.names(), ["a"]);
}

type Answers = Box<dyn Fn(&str, u64) -> Result<Vec<pb::Id>, ReconcileError> + Send + Sync>;

/// Answers what its script says about a name and a version, and writes down what it was asked.
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
    async fn map(&self, _: &Arc<Cache>, resource: &Arc<pb::Resource>) -> Result<Vec<pb::Id>, ReconcileError> {
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
    let rig = fresh(Mapper::Custom(code.clone())).await;
    for name in ["x", "y", "z"] {
        rig.store.put(&album(), name);
    }
    rig.pass(16).await;
    assert_eq!(rig.probe.names(), ["z"]);
    assert_eq!(*code.asked.lock(), ["x1", "y2", "z3", "x1", "y2", "x1", "y2"], "after 5 and 10 ms more");
    let status = rig.status();
    assert_eq!((status.mapper_errors, status.mapper_queue_depth, status.errors), (6, 2, 0));
    assert_eq!(&*status.failures[0].place, "map demo.v2.Album");
    assert_eq!(status.failures[0].message, "panic [recovered]: no ys");
    assert_eq!(status.failures[1].message, "no xs");
    rig.lease.0.send_replace(false);
    rig.settle().await;
    assert_eq!(rig.status().mapper_queue_depth, 0, "another server maps everything anew");
}

#[tokio::test(start_paused = true)]
async fn results_of_a_wrong_type_or_without_a_name_are_left_out_and_others_kept() {
    let code =
        Code::new(0, |_, _| Ok(vec![id(&album(), "a"), pb::Id::default(), id(&artist(), ""), id(&artist(), "b")]));
    let rig = fresh(Mapper::Custom(code)).await;
    rig.store.put(&album(), "x");
    rig.settle().await;
    assert_eq!(rig.probe.names(), ["b"]);
    assert_eq!((rig.status().mapper_skipped, rig.status().mapper_errors), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn an_item_that_waits_for_its_mapper_has_the_newest_content() {
    let code = Code::new(10, |_, _| Ok(Vec::new()));
    let rig = fresh(Mapper::Custom(code.clone())).await;
    for name in ["x", "y", "x", "y", "y"] {
        rig.store.put(&album(), name);
        rig.settle().await;
    }
    rig.pass(100).await;
    assert_eq!(*code.asked.lock(), ["x1", "y5", "x3"], "one more for what changed while it was mapped");
}

#[tokio::test(start_paused = true)]
async fn every_former_version_that_was_not_mapped_is() {
    // The mapper is busy with another item while x moves from a to b to c.
    let refers = Arc::new(|r: &pb::Resource| refers(r));
    let rig = Rig::new(Probe::done());
    let busy = Mutex::new(true);
    let mapper = Mapper::References(Arc::new(move |r| {
        if std::mem::replace(&mut *busy.lock(), false) { Err("busy".into()) } else { refers(r) }
    }));
    rig.register(watching(mapper));
    rig.settle().await;
    rig.probe.names();
    rig.store.point(&album(), "x", "a");
    rig.settle().await;
    rig.store.point(&album(), "x", "b");
    rig.store.point(&album(), "x", "c");
    rig.settle().await;
    assert_eq!(rig.probe.names(), ["c", "a", "b"]);
}

struct Bell {
    events: Mutex<Option<mpsc::Receiver<CustomEvent>>>,
}

#[async_trait]
impl CustomSource for Bell {
    fn name(&self) -> &str {
        "bell"
    }

    fn open(&self) -> BoxStream<'static, CustomEvent> {
        let events = self.events.lock().take();
        futures::stream::unfold(events, |events| async {
            let mut events = events?;
            events.recv().await.map(|event| (event, Some(events)))
        })
        .boxed()
    }

    async fn map(&self, _: &Cache, event: &CustomEvent) -> Result<Vec<pb::Id>, ReconcileError> {
        let name = event.payload.downcast_ref::<&str>().ok_or("no name")?;
        Ok(vec![id(&artist(), name)])
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_source_wakes_and_may_end_without_error() {
    let (ring, events) = mpsc::channel(16);
    let bell = Arc::new(Bell { events: Mutex::new(Some(events)) });
    let rig = Rig::start(Probe::done(), |d| d.custom(bell)).await;
    rig.probe.names();
    for name in ["a", "b"] {
        ring.send(CustomEvent { key: "door".into(), payload: Arc::new(name) }).await.unwrap();
        rig.settle().await;
    }
    assert_eq!(rig.probe.names(), ["a", "b"]);
    drop(ring);
    rig.store.put(&artist(), "c");
    rig.pass(60_000).await;
    assert_eq!((rig.probe.names(), rig.status().restarts), (vec!["c".to_owned()], 0));
}

/// Cannot even be opened.
struct Mute;

#[async_trait]
impl CustomSource for Mute {
    fn name(&self) -> &str {
        "mute"
    }

    fn open(&self) -> BoxStream<'static, CustomEvent> {
        panic!("no clapper")
    }

    async fn map(&self, _: &Cache, _: &CustomEvent) -> Result<Vec<pb::Id>, ReconcileError> {
        Ok(Vec::new())
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_source_that_panics_ends_the_run_which_begins_anew() {
    let rig = Rig::start(Probe::done(), |d| d.custom(Arc::new(Mute))).await;
    rig.pass(5000).await;
    let status = rig.status();
    assert!(status.restarts > 2 && status.last_error.as_ref().unwrap().contains("no clapper"), "{status:?}");
}
