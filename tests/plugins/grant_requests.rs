//! Grants that a plugin requests in its manifest, and grants of its operator.

use std::{fs, path::Path};

use mortise_resource::{
    manifest::{self, GrantRequest, GrantRequests, grant_request::Wants},
    pb::condition::State,
};
use mortise_test_guests::{Thing, good_manifest, manifest_only};
use prost::Message as _;

use crate::support::{Server, Setup, controllers::condition_until, id, mortise, thing};

const CONFIG: &str = "[plugin.good.grants]\n\
                      read = [\"demo.v2.Artist\"]\n\
                      secrets = { token = { env = \"HOME\" } }\n\
                      http = [\"*.example.net\"]\n";

fn asking(requests: Option<Vec<Wants>>) -> Vec<u8> {
    let mut manifest: manifest::Manifest = good_manifest();
    manifest.requests = requests.map(|wants| GrantRequests {
        requests: wants
            .into_iter()
            .map(|wants| GrantRequest { wants: Some(wants), reason: "to sing".into() })
            .collect(),
    });
    manifest_only(&manifest.encode_to_vec())
}

async fn start(component: Vec<u8>) -> Server {
    Setup::new().component("good", component).config(CONFIG).start().await
}

#[tokio::test]
async fn inspection_shows_requested_granted_and_missing_permissions() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("good.wasm");
    let wants = vec![
        Wants::Read("demo.v2.Artist".into()),
        Wants::Http("api.example.net".into()),
        Wants::Directory("out".into()),
    ];
    fs::write(&file, asking(Some(wants.clone()))).unwrap();
    let (code, out, err) = mortise(&["plugin", "inspect", file.to_str().unwrap()], &[]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("requests    read demo.v2.Artist: to sing\n"), "{out}");
    assert!(out.contains("requests    directories.out: to sing\n"), "{out}");

    let server = start(asking(Some(wants))).await;
    let addr = server.grpc.to_string();
    let (code, out, err) = mortise(&["plugin", "inspect", "good", "--grpc-addr", &addr], &[]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    for says in [
        "read demo.v2.Artist (granted): to sing\n",
        "http api.example.net (granted): to sing\n",
        "directories.out (not granted): to sing\n",
        "http *.example.net\n",
        "secrets.token (no effect: it does not request this)\n",
    ] {
        assert!(out.contains(says), "{says:?} in {out}");
    }
    let (code, out, err) = mortise(&["describe", "plugin", "good", "--grpc-addr", &addr], &[]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    for says in ["grant: directories.out", "reason: to sing", "granted: true", "unrequested:", "secrets.token"] {
        assert!(out.contains(says), "{says:?} in {out}");
    }
}

#[tokio::test]
async fn a_component_without_requests_has_whatever_is_granted() {
    let server = start(asking(None)).await;
    let addr = server.grpc.to_string();
    let (code, out, err) = mortise(&["plugin", "inspect", "good", "--grpc-addr", &addr], &[]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("secrets.token, http *.example.net, read demo.v2.Artist\n"), "{out}");
    assert!(out.contains("it requests nothing by name, so it has all of them"), "{out}");
}

#[tokio::test]
async fn a_request_that_cannot_be_read_refuses_the_plugin() {
    let server = Setup::new().component("bad", asking(Some(vec![Wants::Http("ftp://x".into())]))).start().await;
    let line = server.refused_file("/bad.wasm");
    assert!(
        line.contains("manifest: requests: \"ftp://x\" is not a host for grants.http: the scheme is http or https"),
        "{line}"
    );
}

/// A permission that is only granted, and one that is only requested, are both denied, each with a remedy.
#[tokio::test]
async fn permissions_need_a_request_and_a_grant() {
    let dir = tempfile::tempdir().unwrap();
    let places = ["out", "other"].map(|name| dir.path().join(name));
    places.iter().for_each(|place| fs::create_dir(place).unwrap());
    let [out, other] = &places;
    let grants = |names: &[(&str, &Path)]| {
        let granted: Vec<_> =
            names.iter().map(|(name, path)| format!("{name} = {{ path = {path:?}, write = true }}")).collect();
        format!("[plugin.reconcile-asking.grants]\ndirectories = {{ {} }}\n", granted.join(", "))
    };
    let server = Setup::new().guest("reconcile-asking").config(grants(&[("other", other)])).start().await;
    let written = async |name: &str, is: State| {
        let id = id("reconcile_asking.v1.Thing", name);
        condition_until(&server, &id, "reconcile-asking/things", "Written", |c| c.state() == is).await
    };
    for name in ["out", "other"] {
        let data = Thing { text: name.into(), ..Thing::default() };
        server.write(thing("reconcile_asking", name, &data)).await.unwrap();
    }
    let denied = written("other", State::False).await;
    assert_eq!(denied.reason, "Code7", "{denied:?}");
    assert!(denied.message.contains("does not ask for it"), "{denied:?}");
    let denied = written("out", State::False).await;
    assert_eq!(denied.reason, "Code7", "{denied:?}");
    assert!(denied.message.contains("plugin.reconcile-asking.grants.directories.out = "), "{denied:?}");

    server.configure(grants(&[("other", other), ("out", out)]));
    written("out", State::True).await;
    assert_eq!(written("other", State::False).await.reason, "Code7");
    assert_eq!(fs::read_dir(out).unwrap().count(), 1);
    assert_eq!(fs::read_dir(other).unwrap().count(), 0, "granted, and not asked for");
}
