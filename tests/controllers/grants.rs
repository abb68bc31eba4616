//! Rights of a plugin's reconcilers: their own types, until the operator grants more.

use std::fs;

use crate::support::{
    Setup, artist,
    controllers::{condition_until, report_until},
    decoded, demo, eventually, id, is_gone, thing,
};
use mortise_resource::pb::condition::State;
use mortise_test_guests::Thing;

fn text(text: &str) -> Thing {
    Thing { text: text.into(), ..Thing::default() }
}

#[tokio::test]
async fn types_of_others_have_to_be_granted() {
    let server = Setup::new().guest("reconcile-foreign").config("").start().await;
    server.write(artist("one")).await.unwrap();
    server.write(thing("reconcile_foreign", "one", &text("Second Hand"))).await.unwrap();
    let thing_id = id("reconcile_foreign.v1.Thing", "one");
    let key = "reconcile-foreign/things";
    for (kind, list) in [("Read", "read"), ("Wrote", "write")] {
        let refused = condition_until(&server, &thing_id, key, kind, |c| c.state() == State::False).await;
        assert_eq!(refused.reason, "Code7", "{refused:?}");
        assert!(refused.message.contains("demo.v2.Artist"), "{refused:?}");
        assert!(refused.message.contains(&format!("plugin.reconcile-foreign.grants.{list}")), "{refused:?}");
    }
    assert!(is_gone(&server, &id("demo.v2.Artist", "one-foreign")).await);

    // A grant takes effect when the file changes, and every resource is reconciled once more.
    server.configure("[plugin.reconcile-foreign.grants]\nread = [\"demo.v2.Artist\"]\nwrite = [\"demo.v2.*\"]\n");
    for kind in ["Read", "Wrote"] {
        condition_until(&server, &thing_id, key, kind, |c| c.state() == State::True).await;
    }
    let written = server.read(&id("demo.v2.Artist", "one-foreign")).await.unwrap();
    let data: demo::v2::Artist = decoded(&written);
    assert_eq!(
        (data.name.as_str(), data.genre()),
        ("Second Hand", demo::v2::Genre::Disco),
        "through the type's own hooks"
    );

    // The grant is removed again.
    server.configure("[plugin.reconcile-foreign.grants]\nread = [\"demo.v2.Artist\"]\n");
    condition_until(&server, &thing_id, key, "Wrote", |c| c.state() == State::False).await;
    condition_until(&server, &thing_id, key, "Read", |c| c.state() == State::True).await;
}

#[tokio::test]
async fn directories_and_secrets_have_to_be_granted() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(dir.path().join("token"), "s3cret\n").unwrap();
    let grants = |write: bool| {
        format!(
            "[plugin.reconcile-files.grants]\ndirectories = {{ out = {{ path = {out:?}, write = {write} }} }}\n\
             secrets = {{ token = {{ file = {:?} }} }}\n",
            dir.path().join("token")
        )
    };
    let server = Setup::new().guest("reconcile-files").config("").mask("027").start().await;
    let stored = server.write(thing("reconcile_files", "note", &text("hello"))).await.unwrap();
    let (note, key) = (id("reconcile_files.v1.Thing", "note"), "reconcile-files/things");
    let refused = condition_until(&server, &note, key, "Written", |c| c.state() == State::False).await;
    assert_eq!(refused.reason, "Code7", "{refused:?}");
    assert!(refused.message.contains("plugin.reconcile-files.grants"), "{refused:?}");

    server.configure(grants(false));
    let refused = condition_until(&server, &note, key, "Written", |c| !c.message.contains("secret")).await;
    assert_eq!(refused.reason, "Code7", "read-only: {refused:?}");
    assert!(fs::read_dir(&out).unwrap().next().is_none());

    server.configure(grants(true));
    condition_until(&server, &note, key, "Written", |c| c.state() == State::True).await;
    assert_eq!(fs::read_to_string(out.join("note.txt")).unwrap(), "hello\ns3cret");
    // Other programs read it, so it has the mask of the server's user, unlike the server's own files.
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(out.join("note.txt")).unwrap()) & 0o777;
    assert_eq!(mode, 0o640);
    server.delete(stored.id.as_ref().unwrap(), "").await.unwrap();
    eventually("the file goes", || async { !out.join("note.txt").exists() }).await;
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "nothing is left lying about");
    assert!(!server.log().contains("s3cret"));
    report_until(&server, "reconcile-files/files", |seen| seen.last_errors.is_empty()).await;
}

/// The limit of all directories applies to a grant without its own; a file over the limit is not written at all.
#[tokio::test]
async fn a_granted_directory_holds_no_more_than_its_quota() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(dir.path().join("token"), "s3cret\n").unwrap();
    let grants = |bytes: &str| {
        format!(
            "[plugin.reconcile-files.grants]\ndirectories = {{ out = {{ path = {out:?}, write = true{bytes} }} }}\n\
             secrets = {{ token = {{ file = {:?} }} }}\n",
            dir.path().join("token")
        )
    };
    let server = Setup::new()
        .guest("reconcile-files")
        .config(grants(""))
        .limit("directory_bytes", 11)
        .limit("directory_files", 2)
        .start()
        .await;
    let key = "reconcile-files/things";
    let written = async |name: &str, says: &str| {
        let id = id("reconcile_files.v1.Thing", name);
        condition_until(&server, &id, key, "Written", |c| c.message.contains(says)).await
    };
    // Twelve bytes, including the secret.
    server.write(thing("reconcile_files", "a", &text("hello"))).await.unwrap();
    let refused = written("a", "would hold 12 bytes, more than its limit of 11 (`bytes` in its grant").await;
    assert_eq!((refused.state(), refused.reason.as_str()), (State::False, "Code8"), "{refused:?}");
    assert!(fs::read_dir(&out).unwrap().next().is_none());

    server.configure(grants(", bytes = 30"));
    let id_a = id("reconcile_files.v1.Thing", "a");
    condition_until(&server, &id_a, key, "Written", |c| c.state() == State::True).await;
    assert_eq!(fs::read_to_string(out.join("a.txt")).unwrap(), "hello\ns3cret");
    server.write(thing("reconcile_files", "b", &text("a longer text"))).await.unwrap();
    written("b", "would hold 32 bytes, more than its limit of 30").await;
    server.write(thing("reconcile_files", "b", &text("b"))).await.unwrap();
    let id_b = id("reconcile_files.v1.Thing", "b");
    condition_until(&server, &id_b, key, "Written", |c| c.state() == State::True).await;
    server.write(thing("reconcile_files", "c", &text(""))).await.unwrap();
    written("c", "would hold 3 files, more than the limit of 2; remove some").await;
    assert_eq!(fs::read_dir(&out).unwrap().count(), 2);
}
