//! mortise.v1.PluginService: install, remove, roll back, disable, enable, inspect.

use std::fs;

use crate::support::{
    PATIENCE, Server, Setup, hookless,
    plugins::{Plugins as _, Seen, sha256},
    refusal, thing, until,
};
use mortise_resource::{data, pb};
use mortise_test_guests::{Thing, component};
use tonic::{Code, Status};

const NAME: &str = "version-stamp";

fn guest(name: &str) -> Vec<u8> {
    fs::read(component(name)).unwrap()
}

fn stamped() -> pb::Resource {
    thing("version_stamp", "thing", &Thing::default())
}

async fn version(server: &Server) -> Result<String, Status> {
    server.write(stamped()).await.map(|r| r.metadata["mutated-by"].clone())
}

fn name() -> String {
    NAME.to_owned()
}

#[tokio::test]
async fn install_serves_and_is_durable() {
    let data = tempfile::tempdir().unwrap();
    let server = Setup::new().data_dir(data.path()).start().await;
    let one = guest("version-stamp-1");
    let installed = server.install(NAME, &one).await.unwrap();
    assert!(!installed.unchanged);
    let seen = Seen::from(installed.plugin.unwrap());
    assert_eq!((seen.reason.as_str(), seen.data.digest.as_str()), ("Serving", sha256(&one).as_str()));
    assert_eq!(version(&server).await.unwrap(), "1.0.0");
    assert_eq!(fs::read(server.plugin_dir.join("version-stamp.wasm")).unwrap(), one);
    assert!(server.install(NAME, &one).await.unwrap().unchanged);
    let two = server.install(NAME, &guest("version-stamp-2")).await.unwrap();
    assert_eq!(Seen::from(two.plugin.unwrap()).data.previous_version, "1.0.0");
    assert_eq!(version(&server).await.unwrap(), "2.0.0");
}

/// Begins an upload that never ends.
async fn idle_upload(server: &Server) -> impl Future<Output = (Code, String)> + Send + use<> {
    let mut client = server.plugins().await;
    async move {
        let (name, sha256) = ("idle".to_owned(), sha256(b"x"));
        let start = data::InstallRequest { name, sha256, chunk: b"x".to_vec(), ..Default::default() };
        let request = tokio_stream::StreamExt::chain(tokio_stream::iter([start]), tokio_stream::pending());
        refusal(client.install(request).await)
    }
}

/// Uploads that begin and then stall give way to the next one, long before their time limit.
#[tokio::test]
async fn idle_uploads_make_room() {
    let one = guest("version-stamp-1");
    let server = Setup::new().env("MORTISE_GRPC_UPLOAD_TIMEOUT_MS", 600_000).start().await;
    let mut idle = tokio::task::JoinSet::new();
    for _ in 0..4 {
        idle.spawn(idle_upload(&server).await);
    }
    // Until they are under way, an upload finds a place, or one of them does not.
    let (code, said) = until("an idle upload ends for another one", async || {
        if let Err(status) = server.install(NAME, &one).await {
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
            assert!(status.message().contains("plugins are being uploaded already"), "{status}");
        }
        let (code, said) = idle.try_join_next().ok_or("all go on")?.unwrap();
        if code == Code::ResourceExhausted {
            idle.spawn(idle_upload(&server).await);
            return Err("one was refused");
        }
        Ok((code, said))
    })
    .await;
    assert_eq!(code, Code::Aborted, "{said}");
    assert!(said.contains("ended for another one"), "{said}");
    assert_eq!(version(&server).await.unwrap(), "1.0.0", "the other one was installed");
}

#[tokio::test]
async fn an_idle_upload_ends_at_its_limit() {
    let server = Setup::new().env("MORTISE_GRPC_UPLOAD_TIMEOUT_MS", 1_000).start().await;
    let (code, said) = idle_upload(&server).await.await;
    assert_eq!(code, Code::DeadlineExceeded, "{said}");
    assert!(said.contains("within 1000 ms (limit grpc.upload_timeout_ms)"), "{said}");
}

#[tokio::test]
async fn refused_commands_change_nothing() {
    let server = Setup::new().env("MORTISE_SANDBOX_COMPONENT_BYTES", 4 << 20).start().await;
    let good = guest("version-stamp-1");
    let mut client = server.plugins().await;
    let mut send = async |name: &str, sha256: String, chunk: Vec<u8>| {
        let request = data::InstallRequest { name: name.into(), sha256, chunk, ..Default::default() };
        refusal(client.install(tokio_stream::iter([request])).await)
    };
    for (name, digest, bytes, code, says) in [
        (NAME, sha256(b"other"), good.clone(), Code::InvalidArgument, "the content's SHA-256 is"),
        (NAME, String::new(), good.clone(), Code::InvalidArgument, "sha256 is required"),
        ("", sha256(&good), good.clone(), Code::InvalidArgument, "name is required"),
        ("Bad Name", sha256(&good), good.clone(), Code::InvalidArgument, "name invalid"),
        ("other", sha256(&good), good.clone(), Code::InvalidArgument, "it is named \"version-stamp\""),
        (NAME, sha256(b"junk"), b"junk".to_vec(), Code::InvalidArgument, "NotAComponent"),
        (NAME, sha256(&vec![0; 5 << 20]), vec![0; 5 << 20], Code::ResourceExhausted, "sandbox.component_bytes"),
        ("demo", sha256(&good), good.clone(), Code::FailedPrecondition, "bundled"),
    ] {
        let (got, message) = send(name, digest, bytes).await;
        assert_eq!(got, code, "{message}");
        assert!(message.contains(says), "{message}");
    }
    let sha256_of_junk = sha256(b"junk");
    let (name, sha256, signature) = (NAME.to_owned(), sha256(&good), "a".to_owned());
    let both =
        data::InstallRequest { name, sha256, chunk: good, signature, signature_file: vec![b'a'], ..Default::default() };
    let (code, message) = refusal(client.install(tokio_stream::iter([both])).await);
    assert!(code == Code::InvalidArgument && message.contains("exclude each other"), "{message}");
    let two = data::InstallRequest {
        name: NAME.to_owned(),
        named_by_manifest: true,
        sha256: "a".into(),
        ..Default::default()
    };
    let (code, message) = refusal(client.install(tokio_stream::iter([two])).await);
    assert!(code == Code::InvalidArgument && message.contains("exclude each other"), "{message}");
    let (sha256, chunk) = (sha256_of_junk, b"junk".to_vec());
    let junk = data::InstallRequest { named_by_manifest: true, sha256, chunk, ..Default::default() };
    let (code, message) = refusal(client.install(tokio_stream::iter([junk])).await);
    assert!(code == Code::InvalidArgument && message.contains("NotAComponent"), "{message}");
    assert_eq!(fs::read_dir(&server.plugin_dir).unwrap().count(), 0);
    assert_eq!(server.plugin_names().await, ["catalog", "demo"]);
}

/// The component is in the folder by then, where the next start would load it.
#[tokio::test]
async fn an_install_that_fails_at_its_last_step_is_undone() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let setup = || Setup::new().data_dir(data.path()).plugin_dir(folder.path());
    let (one, file) = (guest("version-stamp-1"), folder.path().join("version-stamp.wasm"));
    let signature = folder.path().join("version-stamp.wasm.minisig");
    let refused = async |had: Option<&[u8]>| {
        let server = setup().env("FAILPOINT_FAIL_AT", "Installing version-stamp.wasm").start().await;
        let (code, message) = refusal(server.install(NAME, &guest("version-stamp-2")).await);
        assert_eq!(code, Code::Internal, "{message}");
        assert!(message.contains("a test asked for this failure"), "{message}");
        assert_eq!(fs::read(&file).ok().as_deref(), had);
        server
    };
    let server = refused(None).await;
    assert!(server.is_unknown("version_stamp.v1.Thing").await);
    assert!(server.stop().await.success());

    let server = setup().start().await;
    server.install(NAME, &one).await.unwrap();
    assert!(server.stop().await.success());
    fs::write(&signature, "of another time").unwrap();
    let server = refused(Some(one.as_slice())).await;
    assert_eq!(fs::read_to_string(&signature).unwrap(), "of another time");
    assert_eq!(version(&server).await.unwrap(), "1.0.0");
    assert!(server.stop().await.success());
    assert_eq!(version(&setup().start().await).await.unwrap(), "1.0.0");
}

#[tokio::test]
async fn rollback_goes_back_and_stays_until_the_file_changes() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let setup = || Setup::new().data_dir(data.path()).plugin_dir(folder.path());
    let server = setup().start().await;
    server.install(NAME, &guest("version-stamp-1")).await.unwrap();
    let mut client = server.plugins().await;
    let (code, message) = refusal(client.rollback(data::RollbackRequest { name: name() }).await);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(message.contains("no version before 1.0.0"), "{message}");
    server.install(NAME, &guest("version-stamp-2")).await.unwrap();

    let back = client.rollback(data::RollbackRequest { name: name() }).await.unwrap().into_inner();
    let seen = Seen::from(back.plugin.unwrap());
    assert!(seen.data.rolled_back);
    assert_eq!((seen.data.version.as_str(), seen.data.previous_version.as_str()), ("1.0.0", "2.0.0"));
    assert_eq!(version(&server).await.unwrap(), "1.0.0");
    assert!(server.stop().await.success());

    let server = setup().start().await;
    assert_eq!(version(&server).await.unwrap(), "1.0.0");
    assert_eq!(server.plugin(NAME).await.unwrap().data, seen.data);
    // Back to the version in the file: the hold ends.
    let mut client = server.plugins().await;
    client.rollback(data::RollbackRequest { name: name() }).await.unwrap();
    assert_eq!(version(&server).await.unwrap(), "2.0.0");
    assert!(!server.plugin(NAME).await.unwrap().data.rolled_back);
    client.rollback(data::RollbackRequest { name: name() }).await.unwrap();
    // A second installation.
    server.install(NAME, &guest("version-stamp-2")).await.unwrap();
    assert_eq!(version(&server).await.unwrap(), "2.0.0");
    assert!(!server.plugin(NAME).await.unwrap().data.rolled_back);
}

#[tokio::test]
async fn disable_and_enable_hold_over_restarts() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let setup = || Setup::new().data_dir(data.path()).plugin_dir(folder.path());
    let server = setup().start().await;
    server.install(NAME, &guest("version-stamp-1")).await.unwrap();
    let stored = server.write(stamped()).await.unwrap();
    let mut client = server.plugins().await;
    for _ in 0..2 {
        client.disable(data::DisableRequest { name: name() }).await.unwrap();
    }
    assert!(server.stop().await.success());
    let server = setup().start().await;
    let seen = server.plugin(NAME).await.unwrap();
    assert!(seen.data.disabled);
    assert_eq!(seen.reason, "Disabled");
    let (code, message) = refusal(version(&server).await);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(message.contains("is disabled; enable it"), "{message}");
    assert_eq!(server.read(stored.id.as_ref().unwrap()).await.unwrap(), stored);
    let mut client = server.plugins().await;
    for _ in 0..2 {
        client.enable(data::EnableRequest { name: name() }).await.unwrap();
    }
    assert_eq!(version(&server).await.unwrap(), "1.0.0");
    assert_eq!(server.plugin(NAME).await.unwrap().reason, "Serving");
}

/// The plugin stays disabled wherever its file is moved, with any content, and whether or not the folder is scanned.
#[tokio::test]
async fn disabled_plugins_stay_so_until_enabled_or_removed() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = |name: &str| folder.path().join(name);
    let setup = || Setup::new().data_dir(data.path()).plugin_dir(folder.path()).limit("plugin_rescan_ms", 200);
    fs::write(file("a.wasm"), guest("version-stamp-1")).unwrap();
    let server = setup().start().await;
    version(&server).await.unwrap();
    let mut client = server.plugins().await;
    client.disable(data::DisableRequest { name: name() }).await.unwrap();
    let is_off_in = |source: &'static str| {
        move |seen: &Seen| seen.reason == "Disabled" && seen.data.disabled && seen.data.source == source
    };

    fs::rename(file("a.wasm"), file("b.wasm")).unwrap();
    server.plugin_until(NAME, is_off_in("b.wasm")).await;
    fs::remove_file(file("b.wasm")).unwrap();
    server.plugin_until(NAME, |seen| seen.reason == "Removed" && seen.data.disabled).await;
    let (code, message) = refusal(client.enable(data::EnableRequest { name: name() }).await);
    assert!(code == Code::FailedPrecondition && message.contains("put it back"), "{message}");
    let (code, message) = refusal(server.install(NAME, &guest("version-stamp-1")).await);
    assert!(code == Code::FailedPrecondition && message.contains("remove the plugin first"), "{message}");
    fs::write(file("c.wasm"), guest("version-stamp-1")).unwrap();
    server.plugin_until(NAME, is_off_in("c.wasm")).await;
    assert!(refusal(version(&server).await).1.contains("is disabled; enable it"));

    assert!(server.stop().await.success());
    fs::rename(file("c.wasm"), file("d.wasm")).unwrap();
    let server = setup().start().await;
    let seen = server.plugin(NAME).await.unwrap();
    assert!(is_off_in("d.wasm")(&seen), "{seen:?}");
    assert!(refusal(version(&server).await).1.contains("is disabled; enable it"));
    fs::write(file("d.wasm"), guest("version-stamp-2")).unwrap();
    fs::write(file("later.wasm"), hookless(&["good.v1.Thing"])).unwrap();
    server.plugin_until("good", |seen| seen.reason == "Serving").await;
    let seen = server.plugin(NAME).await.unwrap();
    assert!(is_off_in("d.wasm")(&seen), "{seen:?}");

    let mut client = server.plugins().await;
    client.enable(data::EnableRequest { name: name() }).await.unwrap();
    assert_eq!(version(&server).await.unwrap(), "2.0.0");
    client.disable(data::DisableRequest { name: name() }).await.unwrap();
    let left = client.remove(data::RemoveRequest { name: name() }).await.unwrap().into_inner();
    assert!(!Seen::from(left.plugin.unwrap()).data.disabled);
    server.install(NAME, &guest("version-stamp-1")).await.unwrap();
    assert_eq!(version(&server).await.unwrap(), "1.0.0");
}

#[tokio::test]
async fn remove_takes_the_file_and_inspect_tells_everything() {
    let server = Server::start().await;
    server.install(NAME, &guest("version-stamp-1")).await.unwrap();
    let mut client = server.plugins().await;
    let (code, _) = refusal(server.install(NAME, b"junk").await);
    assert_eq!(code, Code::InvalidArgument);
    let seen = client.inspect(data::InspectRequest { name: name() }).await.unwrap().into_inner();
    let failure = seen.last_failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.stage.as_str()), ("NotAComponent", "Compiling"));
    assert_eq!(failure.digest, sha256(b"junk"));
    assert_eq!(seen.stage, "NotAComponent");
    assert_eq!(version(&server).await.unwrap(), "1.0.0");

    let removed = client.remove(data::RemoveRequest { name: name() }).await.unwrap().into_inner();
    assert_eq!(Seen::from(removed.plugin.unwrap()).reason, "Removed");
    assert!(!server.plugin_dir.join("version-stamp.wasm").exists());
    let (code, message) = refusal(version(&server).await);
    assert_eq!(code, Code::FailedPrecondition, "{message}");
    // An installation brings it back.
    server.install(NAME, &guest("version-stamp-2")).await.unwrap();
    assert_eq!(version(&server).await.unwrap(), "2.0.0");

    for (code, message) in [
        refusal(client.remove(data::RemoveRequest { name: "nobody".into() }).await),
        refusal(client.inspect(data::InspectRequest { name: "nobody".into() }).await),
        refusal(client.reset(data::ResetRequest { name: "nobody".into() }).await),
    ] {
        assert_eq!((code, message.as_str()), (Code::NotFound, "no plugin is named \"nobody\""));
    }
    let (code, message) = refusal(client.remove(data::RemoveRequest { name: "demo".into() }).await);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(message.contains("bundled"), "{message}");
    client.reset(data::ResetRequest { name: name() }).await.unwrap();
}

/// The first `count` lines of a log, or all until it ends.
async fn lines(stream: &mut tonic::Streaming<data::LogLine>, count: usize) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while found.len() < count {
        let Some(line) = tokio::time::timeout(PATIENCE, stream.message()).await.unwrap().unwrap() else {
            break;
        };
        assert_eq!((line.plugin.as_str(), line.level, line.at.is_some()), ("log-flood", 3, true));
        assert!(line.message.starts_with("flood "), "{line:?}");
        found.push((line.hook, line.fields["line"].clone()));
    }
    found
}

#[tokio::test]
async fn logs_are_kept_and_followed() {
    let server = Setup::new().guest("log-flood").start().await;
    let flood = |name: &str, number| thing("log_flood", name, &Thing { number, ..Thing::default() });
    let line = |hook: &str, number: u32| (hook.to_owned(), number.to_string());
    server.write(flood("boom-mutate", 3)).await.unwrap();
    let mut client = server.plugins().await;
    let wanted = data::LogsRequest { name: "log-flood".into(), last: 2, follow: false, level: 0 };
    let mut kept = client.logs(wanted.clone()).await.unwrap().into_inner();
    assert_eq!(lines(&mut kept, 9).await, [line("mutate", 1), line("mutate", 2)], "the last two, and the end");

    let mut errors =
        client.logs(data::LogsRequest { last: 100, level: 1, ..wanted.clone() }).await.unwrap().into_inner();
    assert_eq!(lines(&mut errors, 1).await, [], "nothing was an error");

    // Kept lines first, then new ones, without repetitions and without lines of other plugins.
    let mut live = client.logs(data::LogsRequest { follow: true, ..wanted.clone() }).await.unwrap().into_inner();
    assert_eq!(lines(&mut live, 2).await, [line("mutate", 1), line("mutate", 2)]);
    server.write(flood("boom-validate", 2)).await.unwrap();
    assert_eq!(lines(&mut live, 2).await, [line("validate", 0), line("validate", 1)]);

    let unknown = client.logs(data::LogsRequest { name: "nobody".into(), ..wanted }).await;
    assert_eq!(refusal(unknown).0, Code::NotFound);
    let ended = tokio::spawn(async move { live.message().await });
    assert!(server.stop().await.success());
    assert!(ended.await.unwrap().is_ok_and(|line| line.is_none()), "the server's end is the log's");
}

/// Commands for another plugin do not wait while `describe` of one plugin's new file does not return.
#[tokio::test]
async fn one_plugin_does_not_wait_for_another() {
    let server = Setup::new()
        .component("version-stamp", guest("version-stamp-1"))
        .component("prior", guest("prior"))
        .env("MORTISE_SANDBOX_FUEL", 1_i64 << 60)
        .env("MORTISE_SANDBOX_DESCRIBE_DEADLINE_MS", 300_000)
        .env("MORTISE_SHUTDOWN_GRACE_MS", 500)
        .start()
        .await;
    fs::write(server.plugin_dir.join("prior.wasm"), guest("describe-loop")).unwrap();
    server.plugin_until("prior", |p| p.reason == "Compiling").await;
    let work = async {
        let mut plugins = server.plugins().await;
        plugins.disable(data::DisableRequest { name: name() }).await.unwrap();
        plugins.enable(data::EnableRequest { name: name() }).await.unwrap();
        server.install(NAME, &guest("version-stamp-2")).await.unwrap();
        assert_eq!(version(&server).await.unwrap(), "2.0.0");
        fs::write(server.plugin_dir.join("version-stamp.wasm"), guest("version-stamp-1")).unwrap();
        server.plugin_until(NAME, |p| p.reason == "Serving" && p.data.version == "1.0.0").await;
    };
    tokio::time::timeout(PATIENCE, work).await.expect("no plugin waits for another");

    // Commands for the same plugin wait, in the order of their arrival.
    let mut plugins = server.plugins().await;
    let own = tokio::spawn(async move { plugins.disable(data::DisableRequest { name: "prior".into() }).await });
    let seen = server.plugin("prior").await.unwrap();
    assert_eq!((seen.reason.as_str(), seen.data.disabled), ("Compiling", false));
    assert!(!own.is_finished());
    assert!(server.stop().await.success(), "what is under way ends with the server");
    assert!(own.await.unwrap().is_err());
}
