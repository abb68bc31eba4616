//! Several servers over one cluster.

use std::sync::Arc;

use mortise_resource::{
    data::{OnDelete, ReferenceRecord},
    pb,
};
use mortise_store::{
    Backend, Batch, ChangeStep, Consistency, Expectation, ExpectedId, ExpectedReferrers, Mutation, ReferrerSet,
    ScanPart, StoreError,
    conformance::{
        QUOTAS,
        fixtures::{
            Event, everything, id, labelled, list, next, number, numbered, query, resource, resource_in, tenancy,
            type_of, watch, write,
        },
    },
};
use mortise_store_etcd::EtcdBackend;

use crate::{copy_in, etcd};

/// Servers over one prefix, each with a copy of its own.
pub(crate) struct Servers {
    pub(crate) servers: Vec<Arc<EtcdBackend>>,
    prefix: String,
    dir: tempfile::TempDir,
}

impl Servers {
    pub(crate) async fn start(count: usize) -> Option<Self> {
        let mut started = Self { servers: Vec::new(), prefix: etcd::prefix(), dir: tempfile::tempdir().unwrap() };
        for _ in 0..count {
            let another = started.open(started.servers.len()).await?;
            started.servers.push(another);
        }
        Some(started)
    }

    /// Opens the server with this number.
    async fn open(&self, number: usize) -> Option<Arc<EtcdBackend>> {
        let options = etcd::options(&self.prefix)?;
        let copy = copy_in(&self.dir.path().join(number.to_string()));
        Some(Arc::new(EtcdBackend::open(&options, copy).await.unwrap()))
    }
}

async fn consistent(server: &EtcdBackend, id: &pb::Id) -> Option<pb::Resource> {
    server.read(Consistency::Consistent, id).await.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_read_consistently_on_every_server_with_the_same_version() {
    let Some(cluster) = Servers::start(3).await else { return };
    let servers = &cluster.servers;
    for turn in 0..30 {
        let stored = write(&*servers[turn % 3], &resource(&format!("r-{turn}"))).await;
        for server in servers {
            assert_eq!(consistent(server, &id(&stored)).await.as_ref(), Some(&stored));
        }
    }
    let lists = [list(&*servers[0], &everything()).await, list(&*servers[1], &everything()).await];
    assert_eq!((lists[0].len(), &lists[0]), (30, &lists[1]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_writers_with_the_same_version_on_all_servers_one_wins() {
    let Some(cluster) = Servers::start(3).await else { return };
    let mut stored = write(&*cluster.servers[0], &resource("contended")).await;
    for round in 1..=20 {
        let writers = cluster.servers.iter().map(|server| {
            let (server, next) = (server.clone(), numbered(stored.clone(), round));
            tokio::spawn(async move { server.write_cas(next).await })
        });
        let mut won = Vec::new();
        for writer in writers.collect::<Vec<_>>() {
            match writer.await.unwrap() {
                Ok(written) => won.push(written),
                Err(StoreError::CasFailure { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(won.len(), 1, "round {round}");
        stored = won.remove(0);
    }
    assert_eq!(number(&stored), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_increment_of_every_server_counts() {
    let Some(cluster) = Servers::start(3).await else { return };
    let first = write(&*cluster.servers[0], &resource("counter")).await;
    let counters = cluster.servers.iter().map(|server| {
        let (server, id) = (server.clone(), id(&first));
        tokio::spawn(async move {
            let mut done = 0;
            while done < 15 {
                // An eventual read never waits, so a loop of them would keep the copy's task from its thread.
                let stored = consistent(&server, &id).await.unwrap();
                let next = numbered(stored.clone(), number(&stored) + 1);
                match server.write_cas(next).await {
                    Ok(_) => done += 1,
                    Err(StoreError::CasFailure { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        })
    });
    for counter in counters.collect::<Vec<_>>() {
        counter.await.unwrap();
    }
    assert_eq!(number(&consistent(&cluster.servers[2], &id(&first)).await.unwrap()), 45);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_of_all_servers_have_the_same_events_in_the_same_order() {
    let Some(cluster) = Servers::start(3).await else { return };
    let mut watches = Vec::new();
    for server in &cluster.servers {
        watches.push(watch(&**server, &everything()).await.1);
    }
    let readers = watches.into_iter().map(|mut watch| {
        tokio::spawn(async move {
            let mut order: Vec<Event> = Vec::new();
            for _ in 0..(20 + 7) * 3 {
                order.push(next(&mut watch).await);
            }
            order
        })
    });
    let readers: Vec<_> = readers.collect();
    let writers = cluster.servers.iter().enumerate().map(|(number, server)| {
        let server = server.clone();
        tokio::spawn(async move {
            for turn in 0..20 {
                let stored = write(&*server, &resource(&format!("s{number}-{turn}"))).await;
                if turn % 3 == 0 {
                    server.delete_cas(&id(&stored), &stored.version).await.unwrap();
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let mut orders = Vec::new();
    for reader in readers {
        orders.push(reader.await.unwrap());
    }
    assert!(orders[0] == orders[1] && orders[1] == orders[2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_of_one_server_is_followed_by_another_and_after_a_restart() {
    let Some(cluster) = Servers::start(2).await else { return };
    let first = write(&*cluster.servers[0], &resource("a")).await;
    let opened = cluster.servers[0].open_changes(&everything(), &ScanPart::default(), &[]).await.unwrap();
    let stored = write(&*cluster.servers[0], &numbered(first, 1)).await;
    write(&*cluster.servers[0], &resource("b")).await;

    let follow = |server: Arc<EtcdBackend>| async move {
        let changes = server.changes_after(&everything(), &ScanPart::default(), &[], opened.position).await.unwrap();
        let mut names = Vec::new();
        let mut changes = changes.expect("the history has the position");
        loop {
            match changes.next().await.unwrap() {
                ChangeStep::Change(change) => names.push(change.now.unwrap().decode().unwrap().version),
                ChangeStep::CaughtUp(_) => return names,
            }
        }
    };
    let seen = follow(cluster.servers[1].clone()).await;
    assert_eq!((seen.len(), &seen[0]), (2, &stored.version));

    let Servers { mut servers, prefix, dir } = cluster;
    servers.pop();
    let cluster = Servers { servers, prefix, dir };
    let again = cluster.open(1).await.unwrap();
    assert_eq!(follow(again).await, seen, "a copy that was closed and opened");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_server_has_everything_with_the_versions_of_the_others() {
    let Some(cluster) = Servers::start(1).await else { return };
    for turn in 0..1_200 {
        if turn % 400 == 0 {
            let batch = (0..100).map(|n| Mutation::Put(Box::new(resource(&format!("batch-{turn}-{n}"))))).collect();
            cluster.servers[0].commit(Batch::new(batch)).await.unwrap();
        }
        if turn % 4 == 0 {
            write(&*cluster.servers[0], &labelled(resource(&format!("r-{turn}")), "n", &turn.to_string())).await;
        }
    }
    let late = cluster.open(1).await.unwrap();
    let (one, other) = (list(&*cluster.servers[0], &everything()).await, list(&*late, &everything()).await);
    assert_eq!(one.len(), 600);
    assert!(one == other);
    let stored = write(&*late, &resource("later")).await;
    assert!(one.iter().all(|old| old.version.parse::<u64>().unwrap() < stored.version.parse().unwrap()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_and_a_creation_that_expects_the_deleted_never_both_succeed_on_two_servers() {
    let Some(cluster) = Servers::start(2).await else { return };
    let (one, other) = (&cluster.servers[0], &cluster.servers[1]);
    let mut created = 0;
    for round in 0..20 {
        let parent = write(&**one, &resource(&format!("parent-{round}"))).await;
        let expected = Expectation { id: ExpectedId::from(&id(&parent)), generation: None, is_unmarked: false };
        let child = resource(&format!("child-{round}"));
        let batch = Batch { expect: vec![expected], ..Batch::single(Mutation::Put(Box::new(child.clone()))) };
        let id_of_parent = id(&parent);
        let (removed, made) = tokio::join!(one.delete_cas(&id_of_parent, &parent.version), other.commit(batch));
        removed.unwrap();
        match made {
            Ok(_) => created += 1,
            Err(StoreError::ExpectationFailed { expectation: 0 }) => {
                assert_eq!(consistent(one, &id(&child)).await, None);
            }
            Err(error) => panic!("{error}"),
        }
    }
    println!("{created} of 20 creations came before the deletion");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_held_by_one_server_spread_and_handed_over() {
    let Some(mut cluster) = Servers::start(2).await else { return };
    let names: Vec<String> = (0..20).map(|n| format!("plugin/controller-{n}")).collect();
    let hold = |server: &Arc<EtcdBackend>| -> Vec<_> { names.iter().map(|name| server.hold(name)).collect() };
    let mut held = [hold(&cluster.servers[0]), hold(&cluster.servers[1])];
    let changed = Arc::new(tokio::sync::Notify::new());
    for mut one in held.iter().flatten().cloned() {
        let changed = changed.clone();
        tokio::spawn(async move {
            while one.changed().await.is_ok() {
                changed.notify_one();
            }
        });
    }
    let settled = async {
        loop {
            let counts = held.each_ref().map(|all| all.iter().filter(|held| *held.borrow()).count());
            // Each server was seen alone for a moment, before the other one joined.
            if counts[0] + counts[1] == names.len() && counts.iter().all(|count| *count >= 3) {
                return counts;
            }
            changed.notified().await;
        }
    };
    let counts = tokio::time::timeout(std::time::Duration::from_secs(60), settled).await.expect("the work is spread");
    println!("{counts:?} of {} are held", names.len());

    // A batch of held work is stored by the holder alone.
    let of_first = held[0].iter().position(|held| *held.borrow()).unwrap();
    let work =
        || Batch::single(Mutation::Put(Box::new(resource("by-holder")))).held(Some(names[of_first].as_str().into()));
    let other = cluster.servers[1].commit(work()).await;
    assert!(matches!(&other, Err(StoreError::NotHeld(name)) if *name == names[of_first]), "{other:?}");
    cluster.servers[0].commit(work()).await.unwrap();

    // A clean stop hands over everything.
    cluster.servers[0].give_up().await;
    drop(cluster.servers.remove(0));
    for held in &mut held[1] {
        let all = tokio::time::timeout(std::time::Duration::from_secs(60), held.wait_for(|held| *held)).await;
        all.expect("it is handed over").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_expects_no_referrer_never_comes_after_one_of_another_server() {
    let Some(cluster) = Servers::start(2).await else { return };
    let (one, other) = (&cluster.servers[0], &cluster.servers[1]);
    let (mut deleted, mut refused) = (0, 0);
    for round in 0..40 {
        let target = write(&**one, &resource(&format!("target-{round}"))).await;
        let id_of_target = id(&target);
        let (resource_type, place) = (id_of_target.r#type.clone().unwrap(), id_of_target.tenancy.clone().unwrap());
        let reference = ReferenceRecord {
            group: resource_type.group,
            kind: resource_type.kind,
            partition: place.partition,
            namespace: place.namespace,
            name: id_of_target.name.clone(),
            field: "a".into(),
            on_delete: OnDelete::Block.into(),
            ..ReferenceRecord::default()
        };
        let referrer = pb::Resource { references: vec![reference], ..resource(&format!("referrer-{round}")) };
        let (_, mut events) = watch(&**one, &query("default", "default", "")).await;
        let expected = ExpectedReferrers {
            id: ExpectedId { uid: String::new(), ..ExpectedId::from(&id_of_target) },
            at_commit: ReferrerSet::default(),
            deferred: None,
        };
        let delete = Mutation::Delete { id: id_of_target.clone(), version: target.version.clone() };
        let deletion = Batch { referrers: vec![expected], ..Batch::single(delete) };
        let (gone, _) = tokio::join!(one.commit(deletion), write(&**other, &referrer));
        match gone {
            Ok(_) => {
                deleted += 1;
                assert_eq!(next(&mut events).await, Event::Delete(target), "round {round}: the referrer came first");
            }
            Err(StoreError::ReferrersChanged) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    println!("{deleted} deletions came first, {refused} were refused");
    assert!(deleted > 0 && refused > 0, "{deleted} deletions came first, {refused} were refused");
}

/// Writers of one server share the last place of a tenancy exactly, however their batches fall into transactions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_writers_of_a_server_share_the_last_place() {
    let Some(cluster) = Servers::start(1).await else { return };
    let server = &cluster.servers[0];
    for turn in 0..100 {
        let place = |name: String| resource_in(type_of("v1", "A"), tenancy("default", &format!("t-{turn}")), &name);
        let filled = (1..QUOTAS.resources).map(|n| Mutation::Put(Box::new(place(format!("r-{n}")))));
        server.commit(Batch::new(filled.collect())).await.unwrap();
        let writers: Vec<_> = (0..6)
            .map(|writer| {
                let (server, resource) = (server.clone(), place(format!("w-{writer}")));
                tokio::spawn(async move { server.put_limited(resource).await })
            })
            .collect();
        let mut taken = 0;
        for writer in writers {
            match writer.await.unwrap() {
                Ok(_) => taken += 1,
                Err(StoreError::QuotaExceeded(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(taken, 1, "turn {turn}");
    }
}

/// More writers than the committer has places: the others wait, and each write is stored once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_writers_than_places_are_all_answered() {
    const WRITERS: usize = 3_000;
    let Some(cluster) = Servers::start(2).await else { return };
    let writers: Vec<_> = (0..WRITERS)
        .map(|n| {
            let server = cluster.servers[0].clone();
            tokio::spawn(async move { server.write_cas(resource(&format!("r-{n}"))).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    let listed = cluster.servers[1].list(Consistency::Consistent, &everything()).await.unwrap();
    assert_eq!(listed.len(), WRITERS);
}
