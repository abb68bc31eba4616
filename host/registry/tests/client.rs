//! The client against a registry within the test: honest ones with and without referrers, and hostile ones.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod test_registry;

use std::time::Duration;

use mortise_registry::{About, CredentialSource, Digest, Options, Pulled, Reference, Registry, RegistryError};
use serde_json::json;

use test_registry::{Login, Mischief, TestRegistry, digest};

const LIMIT: usize = 64 << 10;

fn component(more: u8) -> Vec<u8> {
    [&b"\0asm\x0d\0\x01\0"[..], &[0, 2, 1, more]].concat()
}

fn options() -> Options {
    Options {
        plain_http: false,
        authorities: None,
        credentials: CredentialSource::Anonymous,
        timeout: Duration::from_secs(60),
        component_bytes: LIMIT,
    }
}

fn client(registry: &TestRegistry) -> Registry {
    Registry::new(&registry.addr.to_string(), options()).unwrap()
}

fn reference(registry: &TestRegistry, name: &str) -> Reference {
    registry.reference(name).parse().unwrap()
}

async fn push(registry: &TestRegistry, name: &str, more: u8, signature: Option<&[u8]>) -> Reference {
    let about = About { file: "demo.wasm", version: Some("1.0.0") };
    let signature = signature.map(<[u8]>::to_vec);
    client(registry).push(&reference(registry, name), component(more), &about, signature).await.unwrap()
}

async fn pull(registry: &TestRegistry, name: &str) -> Result<Pulled, RegistryError> {
    client(registry).pull(&reference(registry, name)).await
}

#[tokio::test]
async fn a_component_and_its_signatures_come_back_with_and_without_referrers() {
    for has_referrers in [true, false] {
        let registry = TestRegistry::start(has_referrers).await;
        let pushed = push(&registry, "acme/demo:1.0.0", b'a', Some(b"untrusted comment: first")).await;
        assert_eq!(
            push(&registry, "acme/demo:1.0.0", b'a', Some(b"untrusted comment: second")).await,
            pushed,
            "it is reproducible"
        );
        let pulled = pull(&registry, "acme/demo:1.0.0").await.unwrap();
        assert_eq!((pulled.component(), &pulled.reference), (component(b'a').as_slice(), &pushed));
        assert_eq!(pulled.version.as_deref(), Some("1.0.0"));
        let mut signatures: Vec<_> = pulled.signatures().collect();
        signatures.sort_unstable();
        assert_eq!(signatures, [&b"untrusted comment: first"[..], b"untrusted comment: second"]);
        // The tag of the fallback exists only where it must, and is no version.
        let tag = pushed.digest.as_ref().unwrap().fallback_tag();
        assert_eq!(registry.manifest("acme/demo", &tag).is_none(), has_referrers);
        assert_eq!(client(&registry).tags(&pushed.repository).await.unwrap().names, ["1.0.0"]);
        let by_digest = client(&registry).pull(&pushed).await.unwrap();
        assert_eq!(by_digest.artifact, pulled.artifact);
    }
}

#[tokio::test]
async fn lists_go_over_pages_and_begin_with_the_prefix() {
    let registry = TestRegistry::start(false).await;
    for name in ["acme/a:1.0.0", "acme/a:1.1.0", "acme/a:1.2.0", "acme/a:latest", "acme/b:x", "other/c:x"] {
        push(&registry, name, b'a', None).await;
    }
    let all = client(&registry).catalog(&format!("{}/acme/", registry.addr).parse().unwrap()).await.unwrap();
    assert_eq!(all.names, ["acme/a", "acme/b"]);
    let tags = client(&registry).tags(&reference(&registry, "acme/a").repository).await.unwrap();
    assert_eq!(tags.names, ["1.0.0", "1.1.0", "1.2.0", "latest"]);
    let error = client(&registry).tags(&reference(&registry, "acme/none").repository).await.unwrap_err();
    assert!(matches!(error, RegistryError::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn changed_content_is_refused_wherever_it_is() {
    let registry = TestRegistry::start(true).await;
    let pushed = push(&registry, "demo:1.0.0", b'a', Some(b"untrusted comment: x")).await;
    let other = registry.manifest("demo", "1.0.0").unwrap().to_string().replace("demo.wasm", "evil.wasm");
    registry.misbehave("/manifests/", Mischief::Body(other.into_bytes()));
    let error = client(&registry).pull(&pushed).await.unwrap_err();
    assert!(matches!(error, RegistryError::WrongDigest { .. }), "{error}");
    registry.behave();
    registry.misbehave(&format!("/blobs/{}", digest(&component(b'a'))), Mischief::Body(component(b'b')));
    let error = pull(&registry, "demo:1.0.0").await.unwrap_err();
    assert!(matches!(error, RegistryError::WrongDigest { .. }), "{error}");
    registry.behave();
    // A signature that cannot be read is as none.
    registry.misbehave(
        &format!("/blobs/{}", digest(b"untrusted comment: x")),
        Mischief::Body(b"untrusted comment: y".to_vec()),
    );
    assert_eq!(pull(&registry, "demo:1.0.0").await.unwrap().signatures.len(), 0);
}

#[tokio::test]
async fn what_has_no_end_ends_at_its_bound() {
    let registry = TestRegistry::start(true).await;
    push(&registry, "demo:1.0.0", b'a', None).await;
    for part in ["/manifests/", "/blobs/sha256:", "/referrers/"] {
        registry.misbehave(part, Mischief::Endless);
        let error = pull(&registry, "demo:1.0.0").await.unwrap_err();
        assert!(matches!(error, RegistryError::TooLarge { .. }), "{part}: {error}");
        registry.behave();
    }
    registry.misbehave("/tags/", Mischief::Endless);
    let error = client(&registry).tags(&reference(&registry, "demo").repository).await.unwrap_err();
    assert!(matches!(error, RegistryError::TooLarge { .. }), "{error}");
    registry.behave();
    // A size above the bound is refused before the content is asked for.
    let manifest = registry.manifest("demo", "1.0.0").unwrap().to_string();
    let manifest = manifest.replace(&format!("\"size\":{}", component(b'a').len()), &format!("\"size\":{}", LIMIT + 1));
    registry.put_manifest("demo", "large", "application/vnd.oci.image.manifest.v1+json", manifest.as_bytes());
    registry.asked();
    let error = pull(&registry, "demo:large").await.unwrap_err();
    assert!(matches!(error, RegistryError::TooLarge { .. }), "{error}");
    assert!(registry.asked().iter().all(|asked| !asked.path.contains("/blobs/")));
}

#[tokio::test]
async fn a_registry_that_stops_in_the_middle_does_not_hold_its_client() {
    let registry = TestRegistry::start(true).await;
    push(&registry, "demo:1.0.0", b'a', None).await;
    let quick = Options { timeout: Duration::from_millis(200), ..options() };
    let client = Registry::new(&registry.addr.to_string(), quick).unwrap();
    for part in ["/manifests/", "/blobs/", "/referrers/"] {
        registry.misbehave(part, Mischief::Stuck);
        let error = client.pull(&reference(&registry, "demo:1.0.0")).await.unwrap_err();
        // A blob of 12 bytes ends at its bound before.
        assert!(matches!(error, RegistryError::TooLate { .. } | RegistryError::TooLarge { .. }), "{part}: {error}");
        registry.behave();
    }
}

/// The credentials of `me`, in a file as docker writes it.
fn credentials(host: &str) -> (tempfile::TempDir, CredentialSource, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    std::fs::write(&path, json!({"auths": {host: {"auth": "bWU6c2VjcmV0"}}}).to_string()).unwrap();
    (dir, CredentialSource::File(path), "Basic bWU6c2VjcmV0".to_owned())
}

#[tokio::test]
async fn both_kinds_of_login_work_and_go_to_their_own_registry_alone() {
    let (one, other) = (TestRegistry::start(true).await, TestRegistry::start(true).await);
    push(&one, "demo:1.0.0", b'a', None).await;
    other.put_blob(&component(b'a'));
    let (_dir, source, header) = credentials(&one.addr.to_string());
    let with_login = Options { credentials: source, ..options() };
    for login in [Login::Basic(header.clone()), Login::Token(header)] {
        one.want(login);
        let error = pull(&one, "demo:1.0.0").await.unwrap_err();
        assert!(matches!(&error, RegistryError::Denied { has_login: false, .. }), "{error}");
        assert!(error.step().contains("log in"), "{error}");
        let client = Registry::new(&one.addr.to_string(), with_login.clone()).unwrap();
        let reference = reference(&one, "demo:1.0.0");
        assert_eq!(client.pull(&reference).await.unwrap().component(), component(b'a'));
        // Another server has the layer, and gets no credentials.
        let blob = format!("/blobs/{}", digest(&component(b'a')));
        one.misbehave(&blob, Mischief::Redirect(format!("http://{}/v2/demo{blob}", other.addr)));
        assert_eq!(client.pull(&reference).await.unwrap().component(), component(b'a'));
        let asked = other.asked();
        assert!(!asked.is_empty() && asked.iter().all(|asked| asked.authorization.is_none()), "{asked:?}");
        // Not even if it asks for them.
        other.want(Login::Basic("Basic x".to_owned()));
        let error = client.pull(&reference).await.unwrap_err();
        assert!(matches!(error, RegistryError::Denied { .. }), "{error}");
        assert!(other.asked().iter().all(|asked| asked.authorization.is_none()));
        other.want(Login::None);
        one.behave();
    }
    one.want(Login::Basic("Basic another".to_owned()));
    let client = Registry::new(&one.addr.to_string(), with_login).unwrap();
    let error = client.pull(&reference(&one, "demo:1.0.0")).await.unwrap_err();
    assert!(matches!(error, RegistryError::Denied { has_login: true, .. }), "{error}");
    assert!(!error.to_string().contains("secret") && !format!("{error:?}").contains("bWU6"), "{error:?}");
}

#[tokio::test]
async fn redirects_end_and_never_leave_encryption_or_this_machine_unasked() {
    let registry = TestRegistry::start(true).await;
    push(&registry, "demo:1.0.0", b'a', None).await;
    for (to, fault) in [
        ("/v2/demo/blobs/again".to_owned(), "more than five times"),
        ("ftp://127.0.0.1/x".to_owned(), "neither https nor http"),
        ("http://192.0.2.1/x".to_owned(), "over plain http, which only loopback addresses may be"),
    ] {
        registry.misbehave("/blobs/", Mischief::Redirect(to));
        let error = pull(&registry, "demo:1.0.0").await.unwrap_err();
        assert!(error.to_string().contains(fault), "{error}");
        registry.behave();
    }
}

#[tokio::test]
async fn other_artifacts_are_refused_with_what_they_are() {
    let registry = TestRegistry::start(true).await;
    let manifest = "application/vnd.oci.image.manifest.v1+json";
    let put = |tag: &str, layer: &str, content: &[u8]| {
        let config = registry.put_blob(b"{}");
        let blob = registry.put_blob(content);
        let text = json!({"schemaVersion": 2, "config": {"mediaType": "application/vnd.x+json", "digest": config, "size": 2},
            "layers": [{"mediaType": layer, "digest": blob, "size": content.len()}]});
        registry.put_manifest("demo", tag, manifest, text.to_string().as_bytes());
    };
    put("image", "application/vnd.oci.image.layer.v1.tar+gzip", b"x");
    put("module", "application/wasm", b"\0asm\x01\0\0\0");
    put("text", "application/wasm", b"hello");
    let index = "application/vnd.oci.image.index.v1+json";
    registry.put_manifest("demo", "index", index, br#"{"schemaVersion":2,"manifests":[]}"#);
    registry.put_manifest("demo", "broken", manifest, b"{");
    for (tag, fault) in [
        ("image", "it has no layer of the type application/wasm, and is of the type application/vnd.x+json"),
        ("module", "it is a core module of WebAssembly, and not a component"),
        ("text", "it is not WebAssembly"),
        ("index", "it is a list of manifests; name one of them by its digest"),
        ("broken", "its manifest is malformed"),
    ] {
        let error = pull(&registry, &format!("demo:{tag}")).await.unwrap_err();
        assert!(matches!(error, RegistryError::NotComponent { .. }), "{error}");
        assert!(error.to_string().contains(fault), "{tag}: {error}");
    }
    // A component of `oras push demo.wasm:application/wasm`, with a config of its own.
    put("oras", "application/wasm", &component(b'z'));
    assert_eq!(pull(&registry, "demo:oras").await.unwrap().component(), component(b'z'));
    assert_eq!(
        pull(&registry, "demo:none").await.unwrap_err().to_string(),
        format!("{}/demo:none: the registry does not have it", registry.addr)
    );
}

#[tokio::test]
async fn a_registry_s_own_words_are_shown_as_one_line() {
    let registry = TestRegistry::start(true).await;
    registry.misbehave("/manifests/", Mischief::Status(429, "slow\n\x1b[31mdown"));
    let error = pull(&registry, "demo").await.unwrap_err();
    assert!(error.may_pass() && error.to_string().ends_with("429 Too Many Requests: slow  [31mdown"), "{error:?}");
    registry.stop();
    let gone = Registry::new("127.0.0.1:1", options()).unwrap();
    let error = gone.resolve(&"oci://127.0.0.1:1/demo".parse().unwrap()).await.unwrap_err();
    assert!(error.may_pass() && matches!(error, RegistryError::Connect { .. }), "{error}");
    let _ = Digest::of(b"");
}
