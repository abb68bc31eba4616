//! `mortise plugin push`, `pull`, `search`, `outdated`, `export` and `import`, and installs from a registry.

use std::{fs, path::Path};

use mortise_test_guests::component;

use crate::support::{
    Setup, mortise,
    test_registry::{Login, Mischief, TestRegistry},
    transcript::Transcript,
};

/// An address without a server.
const NOWHERE: &str = "127.0.0.1:1";

/// The smallest component, with a custom section that tells it from others.
fn small(more: u8) -> Vec<u8> {
    [&b"\0asm\x0d\0\x01\0"[..], &[0, 2, 1, more]].concat()
}

/// A transcript with the keys `release` and `other`, and a registry that it calls `<registry>`.
async fn prepared(name: &'static str, registry: &TestRegistry) -> Transcript {
    let mut t = Transcript::at(name, NOWHERE);
    t.call(&registry.addr.to_string(), "<registry>");
    for name in ["release", "other"] {
        let made = t.command(&["plugin", "keygen", name, "--without-password"]).output().await.unwrap();
        assert!(made.status.success());
        let public = fs::read_to_string(t.dir().join(format!("{name}.pub"))).unwrap();
        let id = public.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned();
        t.call(&id, if name == "release" { "<release>" } else { "<other>" });
    }
    t
}

/// Signs a file with the key `release`.
async fn sign(t: &Transcript, file: &str) {
    let args = ["plugin", "sign", file, "--key", "release.key", "--comment", "signed", "--force"];
    assert!(t.command(&args).output().await.unwrap().status.success());
}

#[tokio::test]
async fn plugins_go_to_a_registry_and_come_back_with_their_signatures() {
    for (name, has_referrers) in [("registries", true), ("registries_by_tag", false)] {
        let registry = TestRegistry::start(has_referrers).await;
        let mut t = prepared(name, &registry).await;
        let (one, two) = (registry.reference("acme/demo:1.0.0"), registry.reference("acme/demo:1.1.0"));
        t.file("demo.wasm", small(b'a'));
        sign(&t, "demo.wasm").await;
        t.works(&["plugin", "push", "demo.wasm", &one]).await;
        t.say("The same content may come again, other content may not.");
        t.works(&["plugin", "push", "demo.wasm", &one]).await;
        fs::remove_file(t.dir().join("demo.wasm.minisig")).unwrap();
        t.file("demo.wasm", small(b'b'));
        t.fails(1, &["plugin", "push", "demo.wasm", &one]).await;
        t.file("other.wasm", small(b'a'));
        t.fails(1, &["plugin", "push", "other.wasm", &one]).await;
        t.works(&["plugin", "push", "demo.wasm", &two]).await;
        t.say("Without a tag it is the tag `latest`, which moves.");
        t.works(&["plugin", "push", "demo.wasm", &registry.reference("acme/other"), "--as-version", "3.0.0"]).await;
        t.file("demo.wasm", small(b'c'));
        t.works(&["plugin", "push", "demo.wasm", &registry.reference("acme/other")]).await;

        let place = registry.addr.to_string();
        t.works(&["plugin", "search", &place]).await;
        t.works(&["plugin", "search", &format!("{place}/acme/demo")]).await;
        t.fails(1, &["plugin", "search", &format!("{place}/nothing")]).await;

        t.works(&["plugin", "pull", &one, "-o", "got.wasm", "--key", "other.pub", "--key", "release.pub"]).await;
        assert_eq!(fs::read(t.dir().join("got.wasm")).unwrap(), small(b'a'));
        t.works(&["plugin", "verify", "got.wasm", "--key", "release.pub"]).await;
        t.fails(2, &["plugin", "pull", &one, "-o", "got.wasm"]).await;
        t.say("The signature of what was there goes with it.");
        t.works(&["plugin", "pull", &two, "-o", "got.wasm", "--force"]).await;
        assert_eq!(fs::read(t.dir().join("got.wasm")).unwrap(), small(b'b'));
        assert!(!t.dir().join("got.wasm.minisig").exists());
        for (reference, key) in [(&one, "other.pub"), (&two, "release.pub")] {
            t.fails(1, &["plugin", "pull", reference, "-o", "refused.wasm", "--key", key]).await;
        }
        assert!(!t.dir().join("refused.wasm").exists() && !t.dir().join("refused.wasm.minisig").exists());
        t.finish();
    }
}

#[tokio::test]
async fn faults_of_registries_are_named() {
    let registry = TestRegistry::start(true).await;
    let mut t = prepared("errors_registries", &registry).await;
    let one = registry.reference("acme/demo:1.0.0");
    let digest = format!("{}@sha256:{}", registry.reference("acme/demo"), "0".repeat(64));
    t.file("demo.wasm", small(b'a'));
    t.works(&["plugin", "push", "demo.wasm", &one]).await;
    t.fails(2, &["plugin", "push", "demo.wasm", &digest]).await;
    t.fails(2, &["plugin", "push", "demo.wasm", &one, "--as-version", "new"]).await;
    t.fails(2, &["plugin", "push", "missing.wasm", &one]).await;
    t.file("bad.wasm", small(b'b'));
    t.file("bad.wasm.minisig", "no signature");
    t.fails(2, &["plugin", "push", "bad.wasm", &registry.reference("acme/bad:1.0.0")]).await;
    t.fails(2, &["plugin", "outdated", &one]).await;
    t.fails(2, &["plugin", "push", "demo.wasm", "acme/demo:1.0.0"]).await;
    t.file("text.wasm", "text");
    t.fails(1, &["plugin", "push", "text.wasm", &registry.reference("acme/text:1.0.0")]).await;
    fs::remove_file(t.dir().join("demo.wasm")).unwrap();
    t.fails(1, &["plugin", "pull", &digest]).await;
    t.fails(1, &["plugin", "pull", &registry.reference("acme/demo:9.0.0")]).await;
    t.fails(2, &["plugin", "pull", &one, "--registry-config", "missing.json"]).await;
    t.fails(2, &["plugin", "pull", &one, "--registry-timeout", "never"]).await;
    t.fails(2, &["plugin", "pull", "oci://10.0.0.1/demo", "--registry-ca", "missing.pem"]).await;
    registry.misbehave("/blobs/", Mischief::Body(small(b'z')));
    t.fails(1, &["plugin", "pull", &one]).await;
    registry.behave();
    registry.misbehave("/manifests/", Mischief::Stuck);
    t.fails(5, &["plugin", "pull", &one, "--registry-timeout", "300ms"]).await;
    registry.behave();

    // base64 of name:password
    registry.want(Login::Basic("Basic bmFtZTpwYXNzd29yZA==".to_owned()));
    t.fails(1, &["plugin", "pull", &one]).await;
    let auth = |secret: &str| format!(r#"{{"auths": {{"{}": {{"auth": "{secret}"}}}}}}"#, registry.addr);
    t.file("wrong.json", auth("bmFtZTp3cm9uZw=="));
    t.fails(1, &["plugin", "pull", &one, "--registry-config", "wrong.json"]).await;
    t.file(".docker/config.json", auth("bmFtZTpwYXNzd29yZA=="));
    t.say("The credentials of `docker login` count by themselves.");
    t.works(&["plugin", "pull", &one]).await;

    t.fails(2, &["plugin", "install", "demo.wasm", "--key", "release.pub"]).await;
    t.fails(2, &["plugin", "install", "oci://"]).await;
    // The rest of the text has a random name.
    let mut nowhere = t.command(&["plugin", "install", &one]);
    let ran = nowhere.env("TMPDIR", "/proc/no-such-folder").output().await.unwrap();
    assert_eq!(ran.status.code(), Some(1));
    t.note("plugin install (TMPDIR is missing)", ran.stderr.split(|byte| *byte == b'(').next().unwrap());
    t.say("Without a server, the plugin was pulled for nothing.");
    t.fails(3, &["plugin", "install", &one]).await;
    registry.stop();
    t.fails(3, &["plugin", "pull", &one, "-o", "late.wasm"]).await;
    t.finish();
}

#[tokio::test]
async fn a_set_goes_where_no_registry_is_reached() {
    let registry = TestRegistry::start(true).await;
    let mut t = prepared("registries_set", &registry).await;
    let (one, two) = (registry.reference("acme/demo:1.0.0"), registry.reference("tools/dns:2.0.0"));
    for (file, more, reference) in [("demo.wasm", b'a', &one), ("dns.wasm", b'b', &two)] {
        t.file(file, small(more));
        sign(&t, file).await;
        assert!(t.command(&["plugin", "push", file, reference]).output().await.unwrap().status.success());
    }
    t.works(&["plugin", "export", &one, &two, "-o", "set.tar", "--key", "release.pub"]).await;
    t.fails(2, &["plugin", "export", &one, "-o", "set.tar"]).await;
    t.fails(1, &["plugin", "export", &one, "-o", "other.tar", "--key", "other.pub"]).await;
    let many = vec![one.as_str(); 65];
    let ran =
        t.command(&[&["plugin", "export"], many.as_slice(), &["-o", "many.tar"]].concat()).output().await.unwrap();
    assert_eq!(ran.status.code(), Some(2));
    t.note("plugin export (65 plugins) -o many.tar", &ran.stderr);

    // The registry of the export is not there any more.
    let digest = registry.raw_manifest("acme/demo", "1.0.0").unwrap();
    registry.stop();
    fs::create_dir(t.dir().join("folder")).unwrap();
    t.fails(1, &["plugin", "import", "set.tar", "folder", "--key", "other.pub"]).await;
    assert!(fs::read_dir(t.dir().join("folder")).unwrap().next().is_none());
    t.works(&["plugin", "import", "set.tar", "folder", "--key", "release.pub"]).await;
    t.works(&["plugin", "verify", "folder/dns.wasm", "--key", "release.pub"]).await;
    t.fails(2, &["plugin", "import", "set.tar", "folder"]).await;
    t.works(&["plugin", "import", "set.tar", "folder", "--force"]).await;
    t.fails(2, &["plugin", "import", "set.tar", "missing"]).await;
    t.fails(1, &["plugin", "import", "demo.wasm", "folder"]).await;
    let inner = TestRegistry::start(false).await;
    t.call(&inner.addr.to_string(), "<inner>");
    t.works(&["plugin", "import", "set.tar", &inner.reference("mirror")]).await;
    assert_eq!(inner.raw_manifest("mirror/acme/demo", "1.0.0").unwrap(), digest, "manifests keep their digests");
    t.works(&["plugin", "pull", &inner.reference("mirror/acme/demo:1.0.0"), "-o", "back.wasm", "--key", "release.pub"])
        .await;

    t.say("Two plugins of a set with one name would be one file.");
    let same = [inner.reference("mirror/acme/demo:1.0.0"), inner.reference("mirror/tools/dns:2.0.0")];
    t.file("demo.wasm", small(b'c'));
    let third = inner.reference("else/demo:1.0.0");
    assert!(t.command(&["plugin", "push", "demo.wasm", &third]).output().await.unwrap().status.success());
    t.works(&["plugin", "export", &same[0], &third, "-o", "same.tar"]).await;
    fs::create_dir(t.dir().join("empty")).unwrap();
    t.fails(2, &["plugin", "import", "same.tar", "empty"]).await;
    assert!(fs::read_dir(t.dir().join("empty")).unwrap().next().is_none());
    t.finish();
}

/// Pushes a guest under a version, signed or not.
async fn push(registry: &TestRegistry, keys: &Path, guest: &str, version: &str, key: Option<&str>) -> String {
    let file = keys.join("version-stamp.wasm");
    fs::copy(component(guest), &file).unwrap();
    let path = file.to_str().unwrap();
    if let Some(key) = key {
        let key = keys.join(key);
        let (code, _, err) = mortise(&["plugin", "sign", path, "--key", key.to_str().unwrap(), "--force"], &[]).await;
        assert_eq!(code, Some(0), "{err}");
    }
    let reference = registry.reference(&format!("acme/version-stamp:{version}"));
    let (code, out, err) = mortise(&["plugin", "push", path, &reference], &[]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    drop(fs::remove_file(keys.join("version-stamp.wasm.minisig")));
    reference
}

#[tokio::test]
async fn a_server_gets_plugins_from_a_registry_updates_and_goes_back() {
    let keys = tempfile::tempdir().unwrap();
    let path = |name: &str| keys.path().join(name).to_str().unwrap().to_owned();
    for name in ["release", "other"] {
        let (code, ..) = mortise(&["plugin", "keygen", &path(name), "--without-password"], &[]).await;
        assert_eq!(code, Some(0));
    }
    let public = fs::read_to_string(path("release.pub")).unwrap().lines().nth(1).unwrap().to_owned();
    let registry = TestRegistry::start(false).await;
    let one = push(&registry, keys.path(), "version-stamp-1", "1.0.0", Some("release.key")).await;
    let server = Setup::new()
        .env("MORTISE_PLUGINS_REQUIRE_SIGNED", true)
        .env("MORTISE_PLUGINS_TRUSTED_KEYS", &public)
        .start()
        .await;
    let addr = server.grpc.to_string();
    let run = async |args: &[&str]| {
        let (code, out, err) = mortise(&[&["plugin"], args, &["--grpc-addr", &addr]].concat(), &[]).await;
        (code, format!("{out}{err}"))
    };
    let (code, said) = run(&["install", &one, "--key", &path("release.pub")]).await;
    assert!(code == Some(0) && said.starts_with("plugin version-stamp: version 1.0.0"), "{said}");

    // Signed by a stranger, and without a signature: the server refuses both, and a key refuses them here.
    let strange = push(&registry, keys.path(), "version-stamp-2", "2.0.0-other", Some("other.key")).await;
    let unsigned = push(&registry, keys.path(), "version-stamp-2", "2.0.0-unsigned", None).await;
    for refused in [&strange, &unsigned] {
        let (code, said) = run(&["install", refused]).await;
        assert!(code == Some(1) && said.contains("sign"), "{said}");
        let (code, said) = run(&["install", refused, "--key", &path("release.pub")]).await;
        assert!(code == Some(1) && said.contains("is not signed"), "{said}");
    }
    let (_, said) = run(&["outdated", &registry.reference("acme/version-stamp")]).await;
    assert!(said.lines().nth(1).is_some_and(|row| row.ends_with('-')), "a pre-release does not count: {said}");

    let two = push(&registry, keys.path(), "version-stamp-2", "2.0.0", Some("release.key")).await;
    let (code, said) = run(&["outdated", &registry.reference("acme/version-stamp")]).await;
    assert!(code == Some(0) && said.contains("1.0.0") && said.contains(&two), "{said}");
    let (_, said) = run(&["outdated", &registry.reference("acme/version-stamp"), "--within", "minor"]).await;
    assert!(!said.contains(&two), "{said}");
    let (code, said) = run(&["install", &two]).await;
    assert!(code == Some(0) && said.contains("version 2.0.0"), "{said}");
    // The registry is not needed to go back.
    registry.stop();
    let (code, said) = run(&["rollback", "version-stamp"]).await;
    assert!(code == Some(0) && said.contains("version 1.0.0"), "{said}");
    let (code, said) = run(&["outdated", &registry.reference("acme/version-stamp")]).await;
    assert_eq!(code, Some(3), "{said}");
}
