//! Error texts of commands that use files and no server: certificates, keys, and settings that a server refuses before
//! it starts.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

use crate::support::transcript::Transcript;

/// An address without a server.
const NOWHERE: &str = "127.0.0.1:1";

/// Runs a command and ignores its output.
async fn prepare(t: &Transcript, args: &[&str]) {
    let ran = t.command(args).output().await.unwrap();
    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// An expired certificate, of an authority or of a server.
fn expired(is_ca: bool) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    if is_ca {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// An authority that may have no other one below it.
fn lone_authority() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

#[tokio::test]
async fn certificates_that_cannot_be_made_or_shown() {
    let mut t = Transcript::at("errors_tls", NOWHERE);
    t.file("file", "");
    for words in [["--host", "http://a"], ["--client", "a b"], ["--client", "ca"], ["--days", "0"], ["--mesh", "*.a"]] {
        t.fails(2, &["tls", "init", words[0], words[1]]).await;
    }
    t.fails(2, &["tls", "init", "--dir", "file/below"]).await;
    t.fails(2, &["tls", "show"]).await;
    prepare(&t, &["tls", "init", "--host", "localhost"]).await;
    t.fails(2, &["tls", "init", "--host", "other.example"]).await;

    let tls = t.dir().join("tls");
    let whole = |name: &str| fs::read_to_string(tls.join(name)).unwrap();
    let (ca, ca_key, server, server_key) = (whole("ca.pem"), whole("ca.key"), whole("server.pem"), whole("server.key"));
    fs::remove_file(tls.join("server.key")).unwrap();
    t.fails(2, &["tls", "init"]).await;
    t.file("tls/server.key", &server_key);
    fs::remove_file(tls.join("ca.key")).unwrap();
    t.fails(2, &["tls", "init"]).await;
    // A key of another pair, no key, no certificate, and a certificate that belongs to no authority.
    t.file("tls/ca.key", &server_key);
    t.fails(2, &["tls", "init"]).await;
    t.file("tls/ca.key", "x");
    t.fails(2, &["tls", "init"]).await;
    t.file("tls/ca.key", &ca_key);
    t.file("tls/ca.pem", "x");
    t.fails(2, &["tls", "init"]).await;
    t.file("tls/ca.pem", &server);
    t.fails(2, &["tls", "init"]).await;
    let (old, old_key) = expired(true);
    t.file("tls/ca.pem", &old);
    t.file("tls/ca.key", &old_key);
    t.fails(2, &["tls", "init"]).await;

    let (lone, lone_key) = lone_authority();
    t.file("tls/ca.pem", &lone);
    t.file("tls/ca.key", &lone_key);
    t.fails(2, &["tls", "init", "--mesh", "mesh.example"]).await;

    t.fails(2, &["tls", "certify", "w\u{e9}b.mesh.example"]).await;
    t.file("identity/key.pem", "x");
    t.fails(2, &["tls", "certify", "web.mesh.example"]).await;
    t.fails(2, &["auth", "can-i", "certify", "web.mesh.example", "more"]).await;

    t.file("empty/notes.txt", "");
    t.fails(2, &["tls", "show", "empty"]).await;
    t.fails(2, &["tls", "show", "file"]).await;
    t.file("broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    t.fails(2, &["tls", "show", "broken.pem"]).await;
    t.file("both.pem", ca + &expired(false).0);
    // The table contains the current dates.
    let shown = t.command(&["tls", "show", "both.pem"]).output().await.unwrap();
    assert_eq!(shown.status.code(), Some(1));
    t.note("tls show both.pem", &shown.stderr);
    t.fails(3, &["tls", "show", "--server", NOWHERE]).await;
    t.finish();
}

#[tokio::test]
async fn keys_and_signatures_that_are_refused() {
    let mut t = Transcript::at("errors_keys", NOWHERE);
    t.file("plugin.wasm", "x");
    for name in ["release", "other"] {
        prepare(&t, &["plugin", "keygen", name, "--without-password"]).await;
    }
    t.fails(2, &["plugin", "keygen", "release", "--without-password"]).await;
    t.fails(2, &["plugin", "keygen", "third", "--password", ""]).await;
    t.fails(2, &["plugin", "keygen", "third", "--password-file", "missing"]).await;
    t.fails(2, &["plugin", "keygen", "plugin.wasm/third", "--without-password"]).await;

    t.fails(1, &["plugin", "verify", "plugin.wasm", "--key", "release.pub"]).await;
    t.fails(2, &["plugin", "verify", "plugin.wasm", "--key", "nonsense"]).await;
    t.fails(2, &["plugin", "verify", "missing.wasm", "--key", "release.pub"]).await;
    t.fails(2, &["plugin", "sign", "missing.wasm", "--key", "release.key"]).await;
    t.fails(2, &["plugin", "sign", "plugin.wasm", "--key", "missing.key"]).await;
    t.fails(2, &["plugin", "sign", "plugin.wasm", "--key", "release.pub", "--password", "x"]).await;
    t.works(&["plugin", "sign", "plugin.wasm", "--key", "release.key", "--comment", "1"]).await;
    t.fails(2, &["plugin", "sign", "plugin.wasm", "--key", "release.key"]).await;
    for name in ["release", "other"] {
        let public = fs::read_to_string(t.dir().join(format!("{name}.pub"))).unwrap();
        let id = public.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned();
        t.call(&id, if name == "release" { "<release>" } else { "<other>" });
    }
    t.fails(1, &["plugin", "verify", "plugin.wasm", "--key", "other.pub"]).await;
    t.file("plugin.wasm", "y");
    t.fails(1, &["plugin", "verify", "plugin.wasm", "--key", "release.pub"]).await;
    t.file("plugin.wasm.minisig", "x");
    t.fails(1, &["plugin", "verify", "plugin.wasm", "--key", "release.pub"]).await;
    t.file("plugin.wasm.minisig", "x".repeat(1 << 20));
    t.fails(2, &["plugin", "install", "plugin.wasm"]).await;
    t.finish();
}

#[tokio::test]
async fn input_that_cannot_be_kept() {
    let mut t = Transcript::at("errors_input", NOWHERE);
    let missing = [("TMPDIR", "missing")];
    let ran = t.run_with(&["restore", "-", "--data-dir", "data"], "x", &missing).await;
    assert_ne!(ran.code, Some(0), "{}", ran.err);
    t.fails(2, &["backup", "--force", "verify", "x"]).await;
    t.fails(2, &["backup", "verify", "missing.tar.gz"]).await;
    t.works(&["backup", "list", "missing"]).await;
    t.fails(2, &["backup", "restore", "--from", "missing.tar.gz", "--data-dir", "data"]).await;
    t.finish();
}

/// Configuration files, each with its fault.
const SETTINGS: [&str; 40] = [
    "grpc_adr = \"127.0.0.1:0\"\n",
    "grpc_addr = \n",
    "grpc_addr = \"here\"\n",
    "[store]\ncache_bytes = 1\n",
    "[store]\nmax_resource_bytes = \"1 Mb\"\n",
    "[store]\nengine = \"etcd\"\nmax_resource_bytes = \"2 MiB\"\n",
    "[store.etcd]\nendpoints = [\"etcd\"]\n",
    "[store.etcd]\nprefix = \"mortise\"\n",
    "[store.etcd]\nusername = \"mortise\"\n",
    "[audit]\nwhen_full = \"wait\"\n",
    "[audit]\nsinks = [\"file\"]\n",
    "[http]\nallowed_hosts = [\"http://a\"]\n",
    "[http]\nallowed_origins = [\"https://a.example/page\"]\n",
    "[http]\nallowed_origins = [\"*\"]\n",
    "[destination]\nzone = \"Cluster.\"\n",
    "[dns]\nshort_zone = \"cluster.local\"\n",
    "[dns]\nprefer_zone = \"a\\tb\"\n",
    "[dns]\nprefer_zone_alone_from = 2\n",
    "[tls]\ncert_file = \"a.pem\"\n",
    "[tls]\nkey_file = \"a.key\"\n",
    "[tls]\nclient_ca_file = \"ca.pem\"\n",
    "[tls]\ncert_file = \"a.pem\"\nkey_file = \"a.key\"\nclient_certs = \"required\"\n",
    "[acl]\nenabled = false\n[identity]\ncert_file = \"a.pem\"\nkey_file = \"a.key\"\ntrust_domain = \"mesh.example\"\n",
    "[plugins]\nbundled = [\"nothing\"]\n",
    "[plugins]\nrequire_signed = true\n",
    "[plugins]\npinned = [\"12\"]\n",
    "[backup]\nschedule = \"evry 6h\"\n",
    "[backup]\nschedule = \"0 3 31 4 *\"\n",
    "[log]\nlevel = \"mortise\"\n",
    "[log]\nlevel = \"a=b=c\"\n",
    "[plugin.demo]\nlog_level = \"loud\"\n",
    "[plugin.demo.settings]\nratio = inf\n",
    "[plugin.demo]\nsource = \"ghcr.io/acme/demo\"\n",
    "[plugin.Demo]\nsource = \"oci://ghcr.io/acme/demo\"\n",
    "[plugin.catalog]\nsource = \"oci://ghcr.io/acme/catalog\"\n",
    "[plugin.x]\nsource = \"oci://me:secret@ghcr.io/acme/x\"\n",
    "[plugin.x]\nupdate = \"patch\"\n",
    "[plugin.x]\nsource = \"oci://ghcr.io/acme/x:1.2.0\"\nupdate = \"major\"\n",
    "[plugin.x]\nsource = \"oci://ghcr.io/acme/x\"\nupdate = \"patch\"\n",
    "[plugin.x]\nsource = \"oci://ghcr.io/acme/x@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"\n\
     update = \"minor\"\n",
];

/// Configuration files with valid settings that name something invalid.
const NAMES: [&str; 4] = [
    "[plugins]\ntrusted_keys = [\"nothing\"]\n",
    "[plugins]\nage_identity_file = \"missing\"\n",
    "[plugins]\nage_identity_file = \"data/identity\"\n",
    "[tls]\ncert_file = \"a.pem\"\nkey_file = \"a.key\"\n",
];

#[tokio::test]
async fn settings_with_which_no_server_starts() {
    let mut t = Transcript::at("errors_settings", "127.0.0.1:0");
    let data = ["--data-dir", "data", "--http-addr", "127.0.0.1:0"];
    t.file("data/identity", "");
    t.fails(2, &[&["serve", "--config", "missing.toml"], &data[..]].concat()).await;
    for text in SETTINGS {
        t.file("config.toml", text);
        t.say(text);
        t.fails(2, &[&["serve", "--config", "config.toml"], &data[..]].concat()).await;
    }
    for (variable, text) in [
        ("MORTISE_STORE_CACHE_BYTES", "many"),
        ("MORTISE_STORE_CACHE_BYTES", "99999999999999999999"),
        ("MORTISE_STORE_CACHE_BYTES", "1"),
        ("MORTISE_ACL_ENABLED", "perhaps"),
        ("MORTISE_GRPC_ADDR", "here"),
        ("MORTISE_GRPC_ADDR", "0.0.0.0:8502"),
        ("MORTISE_AUDIT_EVENTS", "few"),
    ] {
        let ran = t.run_with(&[&["serve"], &data[..]].concat(), "", &[(variable, text)]).await;
        assert_eq!(ran.code, Some(2), "{variable}={text}: {}", ran.err);
    }
    let loose = [("MORTISE_GRPC_ADDR", "0.0.0.0:8502"), ("MORTISE_ACL_ENABLED", "false")];
    assert_eq!(t.run_with(&[&["serve"], &data[..]].concat(), "", &loose).await.code, Some(2));

    let quiet = [("MORTISE_LOG_LEVEL", "off")];
    for text in NAMES {
        t.file("config.toml", text);
        t.say(text);
        let ran = t.run_with(&[&["serve", "--config", "config.toml"], &data[..]].concat(), "", &quiet).await;
        assert_eq!(ran.code, Some(1), "{text}: {}", ran.err);
    }
    t.file("fresh/bootstrap-token", "");
    let args = ["serve", "--data-dir", "fresh", "--http-addr", "127.0.0.1:0"];
    let ran = t.run_with(&args, "", &quiet).await;
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    t.finish();
}
