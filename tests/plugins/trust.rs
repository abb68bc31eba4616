//! Conditions for loading a component: signatures, pinned digests, the trusted folder, and earlier service.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use mortise_keys::signature::{KeyPair, MAX_BYTES, SecretKey, SigningError, sign};
use mortise_test_guests::{Thing, component};
use tempfile::TempDir;
use tonic::Code;

use crate::support::{
    Server, Setup, is_left_out_over_etcd, mortise,
    plugins::{Plugins as _, Seen, sha256},
    refusal, skipped, thing,
};

const NAME: &str = "version-stamp";
const FILE: &str = "version-stamp.wasm";

fn guest(number: u32) -> Vec<u8> {
    fs::read(component(&format!("version-stamp-{number}"))).unwrap()
}

/// The version that serves, stamped by its guest.
async fn version(server: &Server) -> String {
    let written = server.write(thing("version_stamp", "thing", &Thing::default())).await.unwrap();
    written.metadata["mutated-by"].clone()
}

/// A key pair in files.
struct Key {
    dir: TempDir,
    public: String,
    secret: SecretKey,
}

impl Key {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pair = KeyPair::generate(None).unwrap();
        fs::write(dir.path().join("k.key"), &pair.secret).unwrap();
        fs::write(dir.path().join("k.pub"), &pair.public).unwrap();
        let none = || -> Result<String, SigningError> { Err(SigningError::PasswordMissing) };
        let secret = SecretKey::read(&dir.path().join("k.key"), none).unwrap();
        Self { dir, public: pair.public.lines().nth(1).unwrap().to_owned(), secret }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn sign(&self, content: &[u8]) -> String {
        sign(content, FILE, &self.secret, Some("release 7")).unwrap()
    }
}

/// A folder of plugins and a data directory that outlive a server.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.folder()).unwrap();
        place
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("folder")
    }

    fn put(&self, bytes: &[u8], signature: Option<&[u8]>) {
        put(&self.folder(), bytes, signature);
    }

    /// A server with the settings as shipped.
    fn setup(&self) -> Setup {
        let setup = Setup::new().serve_as_shipped().limit("plugin_rescan_ms", 100);
        setup.plugin_dir(&self.folder()).data_dir(&self.0.path().join("data"))
    }
}

/// Writes a component after its signature, so that they appear together as far as possible.
fn put(folder: &Path, bytes: &[u8], signature: Option<&[u8]>) {
    let signature_file = folder.join("version-stamp.wasm.minisig");
    match signature {
        Some(text) => fs::write(signature_file, text).unwrap(),
        None => drop(fs::remove_file(signature_file)),
    }
    fs::write(folder.join(FILE), bytes).unwrap();
}

/// The same plugin with different content: one custom section more.
fn changed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.extend([0, 2, 1, b'x']);
    bytes
}

/// Number of files below a directory.
fn walk(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { walk(&path) } else { 1 }).sum()
}

async fn until_reason(server: &Server, reason: &str) -> Seen {
    server.plugin_until(NAME, |seen| seen.reason == reason).await
}

/// Every kind of invalid signature: the signer, the change, and the error.
#[tokio::test]
async fn a_folder_is_not_trusted_and_only_the_right_signature_helps() {
    let (key, other) = (Key::new(), Key::new());
    let place = Place::new();
    let one = guest(1);
    let right = key.sign(&one);
    let middle = right.len() / 2;
    let cases: Vec<(&str, Option<Vec<u8>>, &str)> = vec![
        ("no signature", None, "it has no signature"),
        ("another key's", Some(other.sign(&one).into()), "which is not trusted"),
        ("another file's", Some(key.sign(&guest(2)).into()), "does not match the content, or was changed"),
        (
            "another comment",
            Some(right.replace("release 7", "release 8").into()),
            "does not match the content, or was changed",
        ),
        ("truncated", Some(right[..middle].into()), "not in minisign's format"),
        ("empty", Some(Vec::new()), "not in minisign's format"),
        ("no text", Some(vec![0xff; 300]), "not in minisign's format: its second line"),
        ("too large", Some(vec![b'a'; MAX_BYTES + 1]), "more than 16384 bytes"),
    ];
    let cache = tempfile::tempdir().unwrap();
    let compiled = || walk(cache.path());
    let setup = place.setup().env("MORTISE_CACHE_DIR", cache.path().display());
    let server = setup.env("MORTISE_PLUGINS_TRUSTED_KEYS", &key.public).start().await;
    let before = compiled();
    for (what, signature, says) in &cases {
        place.put(&one, signature.as_deref());
        let seen = server.plugin_until(NAME, |seen| seen.reason == "NotTrusted" && seen.message.contains(says)).await;
        assert!(seen.message.contains("no version of it serves") && seen.data.version.is_empty(), "{what}: {seen:?}");
        assert!(seen.message.contains(&sha256(&one)), "{what}: {}", seen.message);
    }
    // A pipe has no end, and is not a regular file.
    let pipe = place.folder().join("version-stamp.wasm.minisig");
    fs::remove_file(&pipe).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    server.plugin_until(NAME, |seen| seen.message.contains("it is not a regular file")).await;
    assert!(server.is_unknown("version_stamp.v1.Thing").await);
    assert_eq!(compiled(), before, "nothing of it was compiled");

    fs::remove_file(&pipe).unwrap();
    fs::write(&pipe, &right).unwrap();
    let seen = until_reason(&server, "Serving").await;
    assert!(seen.data.trust.starts_with("signed by the key ") && seen.data.trust.ends_with(": release 7"), "{seen:?}");
    assert_eq!(version(&server).await, "1.0.0");
    assert!(compiled() > before);

    // The serving version stays while another one is refused.
    place.put(&guest(2), Some(right.as_bytes()));
    let seen = until_reason(&server, "NotTrusted").await;
    assert!(seen.message.contains("version 1.0.0") && seen.message.contains("continues to serve"), "{}", seen.message);
    assert_eq!(version(&server).await, "1.0.0");
    place.put(&guest(2), Some(key.sign(&guest(2)).as_bytes()));
    server.plugin_until(NAME, |seen| seen.data.version == "2.0.0").await;
    assert_eq!(version(&server).await, "2.0.0");
}

#[tokio::test]
async fn a_pinned_digest_and_a_trusted_folder_need_no_signature() {
    let pinned = Place::new();
    pinned.put(&guest(1), None);
    let pins = format!("{},{}", sha256(b"another"), sha256(&guest(1)).to_uppercase());
    let server = pinned.setup().env("MORTISE_PLUGINS_PINNED", pins).start().await;
    let seen = until_reason(&server, "Serving").await;
    assert_eq!(seen.data.trust, "its SHA-256 is in plugins.pinned");
    pinned.put(&changed(&guest(1)), None);
    until_reason(&server, "NotTrusted").await;
    assert_eq!(version(&server).await, "1.0.0");

    let trusted = Place::new();
    trusted.put(&changed(&guest(1)), Some(b"garbage"));
    let server = trusted.setup().env("MORTISE_PLUGINS_LOAD_UNSIGNED", true).start().await;
    assert_eq!(until_reason(&server, "Serving").await.data.trust, "plugins.load_unsigned");
}

#[tokio::test]
async fn a_server_for_development_loads_everything_unless_signatures_are_required() {
    let (key, place) = (Key::new(), Place::new());
    place.put(&guest(1), None);
    let setup = || Setup::new().plugin_dir(&place.folder()).limit("plugin_rescan_ms", 100);
    let server = setup().start().await;
    assert_eq!(until_reason(&server, "Serving").await.data.trust, "plugins.load_unsigned");
    drop(server);
    let server = setup().env("MORTISE_PLUGINS_LOAD_UNSIGNED", false).start().await;
    until_reason(&server, "NotTrusted").await;
    drop(server);
    let server = setup()
        .env("MORTISE_PLUGINS_REQUIRE_SIGNED", true)
        .env("MORTISE_PLUGINS_TRUSTED_KEYS", key.path("k.pub").display())
        .start()
        .await;
    let seen = until_reason(&server, "NotSigned").await;
    assert!(seen.message.contains("plugins.require_signed is set, and it has no signature"), "{}", seen.message);
    assert_eq!(server.plugin("demo").await.unwrap().reason, "Serving", "what is inside the binary is trusted");
    place.put(&guest(1), Some(key.sign(&guest(1)).as_bytes()));
    until_reason(&server, "Serving").await;
}

/// Only signatures count with `require_signed`, wherever a component comes from.
#[tokio::test]
async fn required_signatures_hold_for_installs_rollbacks_and_restarts() {
    let (key, other, place) = (Key::new(), Key::new(), Place::new());
    let (one, two) = (guest(1), guest(2));
    let setup = || {
        place
            .setup()
            .env("MORTISE_PLUGINS_TRUSTED_KEYS", &key.public)
            .env("MORTISE_PLUGINS_REQUIRE_SIGNED", true)
            .env("MORTISE_PLUGINS_LOAD_UNSIGNED", true)
            .env("MORTISE_PLUGINS_PINNED", sha256(&one))
            .env("MORTISE_PLUGINS_BUNDLED", "demo")
    };
    let server = setup().start().await;
    for (signature, says) in [
        (String::new(), "it has no signature"),
        (other.sign(&one), "which is not trusted"),
        (key.sign(&two), "does not match the content"),
        ("garbage".to_owned(), "not in minisign's format"),
    ] {
        let (code, message) = refusal(server.install_signed(NAME, &one, &signature).await);
        assert_eq!(code, Code::FailedPrecondition, "{message}");
        assert!(message.starts_with("NotSigned: ") && message.contains(says), "{says}: {message}");
    }
    let (code, message) = refusal(server.install_signed(NAME, &one, &"x".repeat(MAX_BYTES + 1)).await);
    assert_eq!((code, message.contains("16384 bytes")), (Code::InvalidArgument, true), "{message}");
    assert!(server.plugin(NAME).await.is_none() && fs::read_dir(place.folder()).unwrap().next().is_none());

    server.install_signed(NAME, &one, &key.sign(&one)).await.unwrap();
    server.install_signed(NAME, &two, &key.sign(&two)).await.unwrap();
    let beside = place.folder().join("version-stamp.wasm.minisig");
    assert!(fs::read_to_string(&beside).unwrap().contains("release 7"), "it is put beside the component");
    let rollback = mortise_resource::data::RollbackRequest { name: NAME.into() };
    server.plugins().await.rollback(rollback.clone()).await.unwrap();
    assert_eq!(version(&server).await, "1.0.0", "the signature was kept with the component");
    assert!(server.stop().await.success());

    let server = setup().start().await;
    let seen = until_reason(&server, "Serving").await;
    assert_eq!((version(&server).await.as_str(), seen.data.rolled_back), ("1.0.0", true));
    assert!(server.stop().await.success());

    if is_left_out_over_etcd("the shared store has the signatures, too") {
        return;
    }
    // Without the kept signatures a rollback is impossible, and the file in the folder is signed.
    let kept = place.0.path().join("data/plugins").join(NAME);
    for path in fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_some_and(|extension| extension == "minisig") {
            fs::remove_file(path).unwrap();
        }
    }
    let server = setup().start().await;
    let seen = until_reason(&server, "Serving").await;
    assert_eq!(seen.data.version, "2.0.0", "{seen:?}");
    let (code, message) = refusal(server.plugins().await.rollback(rollback).await);
    assert!(code == Code::FailedPrecondition && message.contains("it has no signature"), "{message}");
    assert!(server.stop().await.success());

    fs::remove_file(&beside).unwrap();
    fs::remove_file(kept.join(format!("{}.wasm.minisig", sha256(&two)))).unwrap();
    let server = setup().start().await;
    let seen = until_reason(&server, "NotSigned").await;
    assert!(seen.message.contains("mortise plugin sign"), "{}", seen.message);
    assert_eq!(server.plugin("demo").await.unwrap().reason, "Serving");
    fs::write(&beside, key.sign(&two)).unwrap();
    until_reason(&server, "Serving").await;
    assert_eq!(version(&server).await, "2.0.0");
}

/// A component that an earlier release loaded from a trusted folder still loads; a changed file does not.
#[tokio::test]
async fn components_that_served_before_are_loaded_again_and_no_others() {
    let place = Place::new();
    place.put(&guest(1), None);
    let before = place.setup().env("MORTISE_PLUGINS_LOAD_UNSIGNED", true).start().await;
    assert_eq!(version(&before).await, "1.0.0");
    assert!(before.stop().await.success());

    let server = place.setup().start().await;
    assert_eq!(until_reason(&server, "Serving").await.data.trust, "plugins.load_unsigned", "why it was accepted then");
    assert_eq!(version(&server).await, "1.0.0");
    place.put(&guest(2), None);
    until_reason(&server, "NotTrusted").await;
    assert_eq!(version(&server).await, "1.0.0");
    assert!(server.stop().await.success());

    let server = place.setup().start().await;
    let seen = until_reason(&server, "NotTrusted").await;
    assert!(seen.message.contains("version 1.0.0") && seen.message.contains("continues to serve"), "{}", seen.message);
    assert_eq!(version(&server).await, "1.0.0");

    // A caller with the right to install decides.
    server.install(NAME, &guest(2)).await.unwrap();
    assert!(server.stop().await.success());
    let server = place.setup().start().await;
    assert_eq!(until_reason(&server, "Serving").await.data.trust, "installed by a caller");
    assert_eq!(version(&server).await, "2.0.0");

    // A plugin that an operator removed does not return when its file is put into the folder.
    server.plugins().await.remove(mortise_resource::data::RemoveRequest { name: NAME.into() }).await.unwrap();
    until_reason(&server, "Removed").await;
    place.put(&guest(2), None);
    // A component's plugin is known only after compiling, so the error names the file.
    server.plugin_until("version-stamp-file", |seen| seen.reason == "NotTrusted").await;
    assert!(server.stop().await.success());
    if is_left_out_over_etcd("a start takes the files of removed plugins out of the folder") {
        return;
    }
    let server = place.setup().start().await;
    server.plugin_until("version-stamp-file", |seen| seen.reason == "NotTrusted").await;
    assert_eq!(server.plugin(NAME).await.unwrap().reason, "Removed");
    server.install(NAME, &guest(2)).await.unwrap();
    assert_eq!(version(&server).await, "2.0.0");
}

#[tokio::test]
async fn wrong_settings_of_trust_end_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data").display().to_string();
    let key = Key::new().public;
    for (settings, says) in [
        (
            vec![("MORTISE_PLUGINS_TRUSTED_KEYS", "release.pub")],
            "plugins.trusted_keys: \"release.pub\": release.pub cannot be read",
        ),
        (vec![("MORTISE_PLUGINS_TRUSTED_KEYS", "/dev/null")], "it is not a regular file"),
        (vec![("MORTISE_PLUGINS_REQUIRE_SIGNED", "true")], "plugins.require_signed needs keys in plugins.trusted_keys"),
        (vec![("MORTISE_PLUGINS_PINNED", key.as_str())], "plugins.pinned must have SHA-256 digests"),
    ] {
        let (code, _, said) = mortise(&["serve", "--data-dir", &data, "--grpc-addr", "127.0.0.1:0"], &settings).await;
        assert!(code.is_some_and(|code| code != 0) && said.contains(says), "{settings:?}: {code:?} {said}");
    }
}

/// The commands, with each other and with the program `minisign`.
#[tokio::test]
async fn keys_and_signatures_are_those_of_minisign() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (name, file) = (path("release"), path(FILE));
    fs::write(&file, guest(1)).unwrap();
    let (public, secret) = (path("release.pub"), path("release.key"));
    let run = async |args: &[&str]| mortise(args, &[("MORTISE_SIGNING_PASSWORD", "correct horse")]).await;

    let (code, out, err) = run(&["plugin", "keygen", &name]).await;
    assert!(code == Some(0) && out.contains("trusted_keys = [\"RW"), "{out}{err}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&secret).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(run(&["plugin", "keygen", &name]).await.0, Some(2), "keys are not replaced");
    let sign = ["plugin", "sign", &file, "--key", &secret, "--comment", "by mortise"];
    let (code, out, err) = run(&sign).await;
    assert!(code == Some(0) && out.trim().ends_with(".wasm.minisig"), "{out}{err}");
    assert_eq!(run(&sign).await.0, Some(2), "a signature is not replaced unasked");
    assert_eq!(run(&[sign.as_slice(), &["--force"]].concat()).await.0, Some(0));
    let (code, _, said) =
        mortise(&[sign.as_slice(), &["--force"]].concat(), &[("MORTISE_SIGNING_PASSWORD", "wrong")]).await;
    assert!(code == Some(2) && said.contains("password"), "{said}");
    let line = fs::read_to_string(&public).unwrap().lines().nth(1).unwrap().to_owned();
    let another = Key::new();
    for key in [&public, &line] {
        let (code, out, err) = run(&["plugin", "verify", &file, "--key", &another.public, "--key", key]).await;
        assert!(code == Some(0) && out.contains(": by mortise"), "{out}{err}");
    }
    let (code, _, said) = run(&["plugin", "verify", &file, "--key", &another.public]).await;
    assert!(code == Some(1) && said.contains("which is not trusted"), "{said}");
    fs::write(path("other.wasm"), guest(2)).unwrap();
    let (code, _, said) = run(&["plugin", "verify", &path("other.wasm"), "--key", &public]).await;
    assert!(code == Some(1) && said.contains("is not signed"), "{said}");
    fs::copy(format!("{file}.minisig"), path("other.wasm.minisig")).unwrap();
    let (code, _, said) = run(&["plugin", "verify", &path("other.wasm"), "--key", &public]).await;
    assert!(code == Some(1) && said.contains("does not match the content"), "{said}");

    let Ok(there) = Command::new("minisign").arg("-v").output() else {
        return skipped(
            "the program minisign is not there: that keys and signatures are interchangeable is not tested",
        );
    };
    drop(there);
    let minisign = |args: &[&str]| {
        let output = Command::new("minisign").args(args).current_dir(dir.path()).output().unwrap();
        (
            output.status.success(),
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
        )
    };
    let (works, said) = minisign(&["-V", "-p", "release.pub", "-m", FILE]);
    assert!(works && said.contains("by mortise"), "{said}");
    let (works, said) = minisign(&["-G", "-W", "-f", "-p", "theirs.pub", "-s", "theirs.key"]);
    assert!(works, "{said}");
    for legacy in [&["-l"][..], &[]] {
        let args = ["-S", "-s", "theirs.key", "-t", "by minisign", "-m", FILE];
        let (works, said) = minisign(&[&args, legacy].concat());
        assert!(works, "{said}");
        let (code, out, err) = run(&["plugin", "verify", &file, "--key", &path("theirs.pub")]).await;
        assert!(code == Some(0) && out.contains(": by minisign"), "{legacy:?}: {out}{err}");
    }
    // A key of `minisign` signs here, too.
    let (code, _, err) = run(&["plugin", "sign", &file, "--key", &path("theirs.key"), "--force"]).await;
    assert_eq!(code, Some(0), "{err}");
    let (works, said) = minisign(&["-V", "-p", "theirs.pub", "-m", FILE]);
    assert!(works, "{said}");
}

/// `mortise plugin install` sends the signature beside the file.
#[tokio::test]
async fn the_command_line_installs_with_the_signature() {
    let (key, place) = (Key::new(), Place::new());
    let server = place
        .setup()
        .env("MORTISE_PLUGINS_TRUSTED_KEYS", &key.public)
        .env("MORTISE_PLUGINS_REQUIRE_SIGNED", true)
        .start()
        .await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE).display().to_string();
    fs::write(&file, guest(1)).unwrap();
    let address = server.grpc.to_string();
    let install = ["plugin", "install", &file, "--grpc-addr", &address];
    let (code, _, said) = mortise(&install, &[]).await;
    assert!(code == Some(1) && said.contains("it has no signature"), "{said}");
    fs::write(format!("{file}.minisig"), key.sign(&guest(1))).unwrap();
    let (code, _, said) = mortise(&install, &[]).await;
    assert_eq!(code, Some(0), "{said}");
    let (_, out, _) = mortise(&["plugin", "inspect", NAME, "--grpc-addr", &address], &[]).await;
    assert!(out.contains("trusted") && out.contains("release 7"), "{out}");

    // Not UTF-8, in the comment that is not signed.
    let mut signature = key.sign(&guest(2)).into_bytes();
    signature.insert("untrusted comment: ".len(), 0xe9);
    fs::write(&file, guest(2)).unwrap();
    fs::write(format!("{file}.minisig"), signature).unwrap();
    let (code, _, said) = mortise(&install, &[]).await;
    assert_eq!(code, Some(0), "{said}");
}
