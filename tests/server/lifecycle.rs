//! The server from start to end: signals, kills, restarts, kept data and its lock; and a plugin crate of another
//! author.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};

use crate::support::{
    Client, Server, Setup, any, artist, eventually, gvk, id, is_left_out_over_etcd, mortise, refusal, resource,
};
use mortise_resource::pb;
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest,
};

/// Acknowledged writes: name to the counter in its metadata, and the version.
type Acknowledged = Arc<Mutex<BTreeMap<String, (u64, u64)>>>;

/// Writes one artist repeatedly, counting in its metadata, until the server stops; returns the code of the last call.
async fn write_until_gone(mut client: Client, name: String, from: u64, acknowledged: Acknowledged) -> Code {
    for count in from.. {
        let mut resource = artist(&name);
        resource.metadata.insert("count".into(), count.to_string());
        match client.write(pb::WriteRequest { resource: Some(resource) }).await {
            Ok(written) => {
                let version = version(&written.into_inner().resource.unwrap());
                let known = acknowledged.lock().unwrap().insert(name.clone(), (count, version));
                assert!(known.is_none_or(|(_, before)| before < version), "versions only grow");
            }
            Err(status) => return status.code(),
        }
    }
    unreachable!("more writes than there are numbers")
}

fn version(resource: &pb::Resource) -> u64 {
    resource.version.parse().unwrap()
}

fn count(resource: &pb::Resource) -> u64 {
    resource.metadata["count"].parse().unwrap()
}

fn writers(server: &Server, number: usize, acknowledged: &Acknowledged) -> JoinSet<Code> {
    let mut writers = JoinSet::new();
    for writer in 0..number {
        let name = format!("writer-{writer}");
        let from = acknowledged.lock().unwrap().get(&name).map_or(0, |(count, _)| count + 1);
        writers.spawn(write_until_gone(server.client(), name, from, acknowledged.clone()));
    }
    writers
}

/// Waits until every writer has had this many more writes acknowledged.
async fn until_written(acknowledged: &Acknowledged, writers: usize, more: u64) {
    let counts = || acknowledged.lock().unwrap().values().map(|(count, _)| *count).collect::<Vec<_>>();
    let before = counts();
    let reached = |now: &[u64]| {
        now.len() == writers && now.iter().enumerate().all(|(n, count)| *count >= before.get(n).unwrap_or(&0) + more)
    };
    eventually("all writers have written", async || reached(&counts())).await;
}

/// Asserts that every acknowledged write, or a later one, is stored.
async fn all_there(server: &Server, acknowledged: &Acknowledged) {
    let acknowledged = acknowledged.lock().unwrap().clone();
    for (name, (acknowledged_count, acknowledged_version)) in acknowledged {
        let stored = server.read(&id("demo.v2.Artist", &name)).await.unwrap();
        assert!(count(&stored) >= acknowledged_count, "{name}: {} < {acknowledged_count}", count(&stored));
        assert!(version(&stored) >= acknowledged_version, "{name}");
        if count(&stored) == acknowledged_count {
            assert_eq!(version(&stored), acknowledged_version, "{name}");
        }
    }
}

#[tokio::test]
async fn term_and_int_stop_cleanly_with_calls_in_flight() {
    for name in ["TERM", "INT"] {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Setup::new().data_dir(dir.path()).start().await;
        let mut watch = server.watch(gvk("demo.v2.Album"), None, "").await.unwrap();
        watch.snapshot().await;
        let acknowledged = Acknowledged::default();
        let writers = writers(&server, 8, &acknowledged);
        until_written(&acknowledged, 8, 3).await;
        server.signal(name);
        let exit = server.ended().await;
        assert_eq!(exit.code(), Some(0), "SIG{name}: {}", server.log());
        assert!(server.log().contains(&format!("SIG{name}: stopping")), "{}", server.log());
        assert!(server.log().trim_end().ends_with("stopped"), "{}", server.log());
        watch.next().await.unwrap_err();
        for code in writers.join_all().await {
            assert!(!matches!(code, Code::InvalidArgument | Code::Internal | Code::NotFound), "{code:?}");
        }
        assert_eq!(acknowledged.lock().unwrap().len(), 8, "all writers got something done");

        let server = Setup::new().data_dir(dir.path()).start().await;
        all_there(&server, &acknowledged).await;
    }
}

/// A server without one of its tasks would look alive: the process ends with an error instead, so that a supervisor
/// restarts it.
#[tokio::test]
async fn a_task_that_panics_ends_the_process() {
    let tasks = [
        "the watch of the plugins' files",
        "the start and stop of controllers",
        "the clean-up of tenancies",
        "the watch of tokens and policies",
        "the thread of the audit log",
    ];
    let of_the_ports = [
        "the task that reports health",
        "the HTTP port",
        "the DNS port",
        "the upkeep of metrics",
        "the supervision of answers",
    ];
    let tasks = tasks.map(|task| (task, format!("{task} panicked (")));
    let of_the_ports = of_the_ports.map(|task| (task, format!("{task} ended by itself, so the server stops")));
    for (task, said) in tasks.into_iter().chain(of_the_ports) {
        let mut server = Setup::new()
            .serve()
            .acl()
            .env("MORTISE_DNS_ENABLED", true)
            .env("FAILPOINT_PANIC_OF_TASK", task)
            .start()
            .await;
        let exit = server.ended().await;
        assert_eq!(exit.code(), Some(1), "{task}: {}", server.log());
        assert!(
            server.log().contains(&said) && server.log().contains("a test asked for this panic"),
            "{task}: {}",
            server.log()
        );
    }
}

/// An open watch ends with a status after which clients come back.
#[tokio::test]
async fn a_stopping_server_tells_its_watches() {
    let server = Server::start().await;
    let mut watch = server.watch(gvk("demo.v2.Album"), None, "").await.unwrap();
    watch.snapshot().await;
    server.signal("TERM");
    let ended = watch.next().await.unwrap_err();
    assert_eq!((ended.code(), ended.message()), (Code::Unavailable, "the server is stopping"));
}

/// A client that never reads does not delay the stop.
#[tokio::test]
async fn idle_watches_and_connections_do_not_delay_the_end() {
    let server = Setup::new().long_grace().start().await;
    let _watch = server.watch(gvk("demo.v2.Artist"), None, "").await.unwrap();
    let _http = tokio::net::TcpStream::connect(server.http).await.unwrap();
    assert!(server.stop().await.success());
}

/// Watches of health get a message when the server stops; they and reflection end by themselves.
#[tokio::test]
async fn health_watches_and_reflection_do_not_delay_the_end() {
    let mut server = Setup::new().long_grace().start().await;
    let mut health = HealthClient::new(server.channel().await);
    let mut watches = Vec::new();
    for service in ["", "hashicorp.consul.resource.ResourceService"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let mut watch = health.watch(request).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving, "{service:?}");
        watches.push(watch);
    }
    let question = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let questions = tokio_stream::once(question).chain(tokio_stream::pending());
    let mut reflection = ServerReflectionClient::new(server.channel().await);
    let mut answers = reflection.server_reflection_info(questions).await.unwrap().into_inner();
    assert!(answers.message().await.unwrap().is_some(), "the stream is open");

    server.signal("TERM");
    let stopping = (Code::Unavailable, "the server is stopping".to_owned());
    for mut watch in watches {
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
        assert_eq!(refusal(watch.message().await), stopping);
    }
    assert_eq!(refusal(answers.message().await), stopping);
    assert!(server.ended().await.success(), "{}", server.log());
}

#[tokio::test]
async fn data_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data_dir(dir.path()).start().await;
    let written = server.write(artist("korn")).await.unwrap();
    assert!(server.stop().await.success());
    let server = Setup::new().data_dir(dir.path()).start().await;
    assert_eq!(server.read(written.id.as_ref().unwrap()).await.unwrap(), written);
    let next = server.write(artist("next")).await.unwrap();
    assert!(version(&next) > version(&written), "no version is given twice");
}

#[tokio::test]
async fn no_acknowledged_write_is_lost_to_sigkill() {
    let dir = tempfile::tempdir().unwrap();
    let acknowledged = Acknowledged::default();
    for round in 0..10_u64 {
        let mut server = Setup::new().data_dir(dir.path()).start().await;
        all_there(&server, &acknowledged).await;
        let writers = writers(&server, 16, &acknowledged);
        // At a different moment of the writes in each round.
        until_written(&acknowledged, 16, 1 + 2 * round).await;
        server.signal("KILL");
        server.ended().await;
        for code in writers.join_all().await {
            assert!(!matches!(code, Code::InvalidArgument | Code::NotFound), "{code:?}");
        }
    }
    let server = Setup::new().data_dir(dir.path()).start().await;
    assert_eq!(acknowledged.lock().unwrap().len(), 16);
    all_there(&server, &acknowledged).await;
}

#[tokio::test]
async fn a_second_process_is_refused_and_the_first_serves_on() {
    let server = Server::start().await;
    let dir = server.data_dir.to_str().unwrap();
    let (code, out, err) = mortise(&["serve", "--data-dir", dir], &[]).await;
    assert_eq!(code, Some(1), "{err}");
    assert_eq!(out, "");
    assert!(err.contains(dir) && err.contains("is in use by another process; stop it"), "{err}");
    server.write(artist("korn")).await.unwrap();
}

#[tokio::test]
async fn a_newer_format_is_refused_and_left_alone() {
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data_dir(dir.path()).start().await;
    let written = server.write(artist("korn")).await.unwrap();
    assert!(server.stop().await.success());
    let format = dir.path().join("store/store/format");
    assert_eq!(std::fs::read_to_string(&format).unwrap(), "mortise-store 1\n");
    std::fs::write(&format, "mortise-store 2\n").unwrap();
    let text = dir.path().to_str().unwrap();
    let (code, _, err) = mortise(&["serve", "--data-dir", text], &[]).await;
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains(text), "{err}");
    assert!(err.contains("has store format 2, this release knows up to 1; use the release that wrote it"), "{err}");
    assert_eq!(std::fs::read_to_string(&format).unwrap(), "mortise-store 2\n");

    std::fs::write(&format, "mortise-store 1\n").unwrap();
    let server = Setup::new().data_dir(dir.path()).start().await;
    assert_eq!(server.read(written.id.as_ref().unwrap()).await.unwrap(), written);
}

#[tokio::test]
async fn http_answers_and_health_is_serving() {
    let server = Server::start().await;
    assert_eq!(server.get("/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(server.get("/readyz").await, (200, "ready\n".to_owned()));
    assert_eq!(server.get("/nothing").await.0, 404);
    server.write(artist("korn")).await.unwrap();
    let metrics = server.metrics().await;
    assert!(metrics.lines().any(|line| line.starts_with("# TYPE mortise_")), "{metrics}");

    let mut health = HealthClient::new(server.channel().await);
    for service in ["", "hashicorp.consul.resource.ResourceService"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = health.check(request).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service:?}");
    }
    let unknown = HealthCheckRequest { service: "nobody".to_owned() };
    assert_eq!(refusal(health.check(unknown).await).0, Code::NotFound);
}

/// The documentation's example crate, built as its author would, and loaded.
#[tokio::test]
async fn the_example_plugin_builds_and_serves() {
    /// A `jukebox.v1.Song`, as declared by a client that does not know the crate.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Song {
        #[prost(string, tag = "1")]
        title: String,
        #[prost(uint32, tag = "2")]
        beats_per_minute: u32,
    }

    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plugin-from-scratch");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("example-plugin");
    let build = move || mortise_guest_build::Build::manifest_dir(examples).target_dir(target).run();
    let built = tokio::task::spawn_blocking(build).await.unwrap().unwrap_or_else(|e| panic!("{e}"));
    let bytes = std::fs::read(built.component("jukebox").unwrap()).unwrap();
    let server = Setup::new().component("jukebox", bytes).start().await;

    let song = |title: &str, beats_per_minute| {
        let data = Song { title: title.into(), beats_per_minute };
        resource(id("jukebox.v1.Song", "twist"), Some(any("jukebox.v1.Song", &data)))
    };
    let decode =
        |r: &pb::Resource| <Song as prost::Message>::decode(r.data.as_ref().unwrap().value.as_slice()).unwrap();
    let written = server.write(song("The Twist", 0)).await.unwrap();
    assert_eq!(decode(&written).beats_per_minute, 120, "the default");
    let written = server.write(song("The Twist", 160)).await.unwrap();
    assert_eq!(decode(&written).beats_per_minute, 160);
    for (refused, says) in [(song("", 0), "song.title required"), (song("x", 900), "beats_per_minute")] {
        let (code, message) = refusal(server.write(refused).await);
        assert_eq!(code, Code::InvalidArgument);
        assert!(message.contains(says), "{message}");
    }
}
