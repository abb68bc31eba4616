//! WatchList under load and at its limits: order, freshness, slow readers, too many watches, shutdown.

use std::collections::HashMap;

use crate::support::{Server, Setup, Watch, concept, eventually, gvk, id, id_of, noted, owned, refusal, tenancy};
use mortise_resource::pb::{self, watch_event::Event};
use tonic::Code;

const CONCEPT: &str = "demo.v1.Concept";

/// Writes and deletes few names from several tasks, as fast as they can.
async fn race(server: &Server, workers: u64, rounds: u64) {
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..workers {
        let mut client = server.client();
        tasks.spawn(async move {
            for round in 0..rounds {
                let name = format!("x{}", (worker + round) % 5);
                if round % 4 == 3 {
                    let id = Some(id(CONCEPT, &name));
                    let _ = client.delete(pb::DeleteRequest { id, version: String::new() }).await;
                } else {
                    let resource = noted(concept(&name), &[("by", &format!("{worker}-{round}"))]);
                    // Of many unconditional writes to one name, some may fail.
                    let _ = client.write(pb::WriteRequest { resource: Some(resource) }).await;
                }
            }
        });
    }
    tasks.join_all().await;
}

/// Reads events up to one named `mark`.
async fn until_mark(watch: &mut Watch) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let event = watch.next().await.unwrap();
        if matches!(&event, Event::Upsert(u) if id_of(u.resource.as_ref().unwrap()).name == "mark") {
            return events;
        }
        events.push(event);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_watch_hears_the_commits_in_order_and_none_twice() {
    let server = Server::start().await;
    let mut early = server.watch(gvk(CONCEPT), None, "").await.unwrap();
    early.snapshot().await;
    let writing = race(&server, 8, 60);
    let watching = async {
        let mut late = Vec::new();
        for _ in 0..12 {
            let mut watch = server.watch(gvk(CONCEPT), None, "").await.unwrap();
            let snapshot = watch.snapshot().await;
            late.push((watch, snapshot));
        }
        late
    };
    let ((), late) = tokio::join!(writing, watching);
    server.write(concept("mark")).await.unwrap();
    let all = until_mark(&mut early).await;

    // The events of the early watch form a history: each version comes once, and a delete is of the resource that
    // existed.
    let mut state: HashMap<String, pb::Resource> = HashMap::new();
    let mut states = vec![state.clone()];
    let mut versions = std::collections::HashSet::new();
    for event in &all {
        match event {
            Event::Upsert(upsert) => {
                let resource = upsert.resource.clone().unwrap();
                assert!(versions.insert(resource.version.clone()), "twice: {resource:?}");
                if let Some(before) = state.insert(id_of(&resource).name, resource.clone()) {
                    assert_eq!(id_of(&before).uid, id_of(&resource).uid, "one incarnation follows another by a delete");
                }
            }
            Event::Delete(delete) => {
                let resource = delete.resource.as_ref().unwrap();
                assert_eq!(state.remove(&id_of(resource).name).as_ref(), Some(resource));
            }
            Event::EndOfSnapshot(_) => panic!("a second end of snapshot"),
        }
        states.push(state.clone());
    }
    // Every other watch saw a state of this history, and then the rest of it.
    for (mut watch, snapshot) in late {
        let rest = until_mark(&mut watch).await;
        let begun = all.len() - rest.len();
        assert_eq!(all[begun..], rest);
        let snapshot: HashMap<_, _> = snapshot.into_iter().map(|r| (id_of(&r).name, r)).collect();
        assert_eq!(states[begun], snapshot);
    }
    // The end of the history is the stored state.
    let mut stored: HashMap<_, _> = HashMap::new();
    for resource in server.list(gvk(CONCEPT), tenancy("", ""), "x").await.unwrap() {
        stored.insert(id_of(&resource).name, resource);
    }
    assert_eq!(state, stored);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_snapshot_is_older_than_the_call() {
    let server = Server::start().await;
    let mut keep_alive = server.watch(gvk(CONCEPT), None, "").await.unwrap();
    keep_alive.snapshot().await;
    for round in 0..50 {
        let written = server.write(noted(concept("x"), &[("round", &round.to_string())])).await.unwrap();
        let mut watch = server.watch(gvk(CONCEPT), None, "").await.unwrap();
        assert_eq!(watch.snapshot().await, [written]);
        server.delete(&id(CONCEPT, "x"), "").await.unwrap();
        let mut watch = server.watch(gvk(CONCEPT), Some(tenancy("", "")), "x").await.unwrap();
        assert!(watch.snapshot().await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_in_events_can_be_read() {
    let server = Server::start().await;
    let mut watch = server.watch(gvk(CONCEPT), None, "").await.unwrap();
    watch.snapshot().await;
    let owner = server.write(concept("owner")).await.unwrap();
    assert_eq!(watch.upsert().await, owner);
    let mut tasks = tokio::task::JoinSet::new();
    let mut client = server.client();
    tasks.spawn(async move {
        for n in 0..100 {
            let resource = Some(noted(owned(concept("child"), &id_of(&owner)), &[("n", &n.to_string())]));
            client.write(pb::WriteRequest { resource }).await.unwrap();
            let child = Some(id(CONCEPT, "child"));
            client.delete(pb::DeleteRequest { id: child, version: String::new() }).await.unwrap();
        }
    });
    let number = |r: &pb::Resource| r.metadata["n"].parse::<u32>().unwrap();
    for n in 0..100 {
        let heard = watch.upsert().await;
        assert_eq!(number(&heard), n);
        match server.read(&id_of(&heard)).await {
            Ok(read) => assert_eq!(read, heard),
            Err(status) => assert_eq!(status.code(), Code::NotFound, "it is deleted already: {status}"),
        }
        if let Ok(next) = server.read(&id(CONCEPT, "child")).await {
            assert!(number(&next) >= n, "older than what was heard");
        }
        let gone = watch.deleted().await;
        let read = server.read(&id_of(&gone)).await;
        assert_eq!(read.unwrap_err().code(), Code::NotFound);
    }
    tasks.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_falls_behind_gets_an_error() {
    const COUNT: usize = 1500;
    let server = Setup::new().limit("watch_buffer", 16).start().await;
    let mut slow = server.watch(gvk(CONCEPT), None, "").await.unwrap();
    slow.snapshot().await;
    let mut quick = server.watch(gvk(CONCEPT), None, "mark").await.unwrap();
    quick.snapshot().await;
    let big = "x".repeat(40_000);
    let mut versions = Vec::new();
    for _ in 0..COUNT {
        versions.push(server.write(noted(concept("big"), &[("big", &big)])).await.unwrap().version);
    }
    let mut heard = 0;
    let status = loop {
        match slow.next().await {
            Ok(Event::Upsert(upsert)) => {
                assert_eq!(upsert.resource.unwrap().version, versions[heard], "in order, without a gap");
                heard += 1;
            }
            Ok(other) => panic!("{other:?}"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::Aborted, "{status}");
    assert!(heard > 0 && heard < COUNT, "{heard}");
    assert!(status.message().contains("watch was closed"), "{status}");
    // Other watches, and a new one, are not affected.
    let mut again = server.watch(gvk(CONCEPT), None, "").await.unwrap();
    assert_eq!(again.snapshot().await[0].version, versions[COUNT - 1]);
    server.write(concept("mark")).await.unwrap();
    assert_eq!(id_of(&again.upsert().await).name, "mark");
    assert_eq!(id_of(&quick.upsert().await).name, "mark", "what a watch does not ask for does not end it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_may_take_its_time_within_the_bound() {
    let server = Server::start().await;
    let mut slow = server.watch(gvk(CONCEPT), None, "").await.unwrap();
    slow.snapshot().await;
    let big = "x".repeat(2_000);
    let mut versions = Vec::new();
    for _ in 0..500 {
        versions.push(server.write(noted(concept("big"), &[("big", &big)])).await.unwrap().version);
    }
    for version in versions {
        assert_eq!(slow.upsert().await.version, version);
    }
}

#[tokio::test]
async fn one_watch_too_many_is_refused() {
    let server = Setup::new().env("MORTISE_SERVICE_MAX_WATCHES", 2).start().await;
    let mut first = server.watch(gvk(CONCEPT), None, "").await.unwrap();
    first.snapshot().await;
    let mut second = server.watch(gvk(CONCEPT), None, "").await.unwrap();
    second.snapshot().await;
    let open = async || match server.watch(gvk(CONCEPT), None, "").await {
        Err(status) => Err(status),
        Ok(mut watch) => watch.next().await.map(drop),
    };
    let status = open().await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    let expected = "2 watches are open already (limit service.max_watches)";
    assert_eq!(status.message(), expected);
    // Faults of the request are reported first; other calls and open watches continue.
    let status = server.watch(gvk("demo.v9.Artist"), None, "").await.err();
    if let Some(status) = status {
        assert_eq!(status.code(), Code::InvalidArgument);
    }
    server.write(concept("x")).await.unwrap();
    assert_eq!(id_of(&first.upsert().await).name, "x");
    drop(first);
    eventually("a place is free again", || async { open().await.is_ok() }).await;
}

#[tokio::test]
async fn a_shutdown_ends_watches_with_a_reason() {
    let server = Setup::new().long_grace().start().await;
    let mut idle = server.watch(gvk(CONCEPT), None, "").await.unwrap();
    idle.snapshot().await;
    let mut watch = server.watch(gvk(CONCEPT), None, "").await.unwrap();
    watch.snapshot().await;
    server.write(concept("x")).await.unwrap();
    assert_eq!(id_of(&watch.upsert().await).name, "x");
    let stop = tokio::spawn(server.stop());
    let status = watch.next().await.unwrap_err();
    assert_eq!(refusal(Err::<(), _>(status)), (Code::Unavailable, "the server is stopping".to_owned()));
    assert_eq!(id_of(&idle.upsert().await).name, "x", "what came before is delivered");
    assert_eq!(idle.next().await.unwrap_err().code(), Code::Unavailable);
    assert!(stop.await.unwrap().success());
}
