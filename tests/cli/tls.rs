//! `mortise tls`: an own authority, its certificates, and their expiry.

use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;
use tonic::transport::{Certificate, ClientTlsConfig};

use crate::{
    security::tls::Authority,
    support::{Setup, artist, mortise},
};

/// Runs a command in a directory; `DIR` stands for its path.
async fn run(dir: &TempDir, args: &[&str]) -> (Option<i32>, String, String) {
    let whole = dir.path().join("tls").display().to_string();
    let args: Vec<_> = args.iter().map(|arg| arg.replace("DIR", &whole)).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    mortise(&args, &[]).await
}

fn read(dir: &TempDir, name: &str) -> String {
    std::fs::read_to_string(dir.path().join("tls").join(name)).unwrap()
}

fn write(dir: &TempDir, name: &str, text: &str) {
    std::fs::write(dir.path().join("tls").join(name), text).unwrap();
}

fn names(dir: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(dir.path().join("tls")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The certificates in the output of `tls show`, as JSON.
async fn shown(dir: &TempDir, code: i32) -> Vec<serde_json::Value> {
    let (ended, out, err) = run(dir, &["tls", "show", "DIR", "-o", "json"]).await;
    assert_eq!(ended, Some(code), "{err}");
    serde_json::from_str(&out).unwrap()
}

#[tokio::test]
async fn certificates_of_init_work_for_server_and_clients() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) =
        run(&dir, &["tls", "init", "--dir", "DIR", "--host", "home.test", "--host", "127.0.0.1"]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(names(&dir), ["ca.key", "ca.pem", "client.key", "client.pem", "server.key", "server.pem"]);
    for name in names(&dir) {
        let mode = std::fs::metadata(dir.path().join("tls").join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, if name.ends_with(".key") { 0o600 } else { 0o644 }, "{name}");
    }
    // The printed settings are valid for config.toml, and the printed command works for a client.
    let settings = out.split_once("[tls]").map(|(_, rest)| rest.split_once("\n\n").unwrap().0).unwrap();
    let trust = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(&dir, "ca.pem")));
    let identity = tonic::transport::Identity::from_pem(read(&dir, "client.pem"), read(&dir, "client.key"));
    let setup = Setup::new().config(format!("[tls]{settings}\nclient_certs = \"required\"\n"));
    let server = setup.tls(trust.domain_name("home.test").identity(identity)).start().await;
    server.write(artist("korn")).await.unwrap();
    let command = out.lines().find_map(|line| line.trim().strip_prefix("mortise ")).unwrap();
    let contexts = dir.path().join("contexts.toml").display().to_string();
    let args: Vec<_> = command.split(' ').collect();
    let env = [("MORTISE_CONTEXTS", contexts.as_str()), ("MORTISE_GRPC_ADDR", "")];
    let (code, _, err) = mortise(&args, &env).await;
    assert_eq!(code, Some(0), "{command}: {err}");
    let addr = format!("https://{}", server.grpc);
    let (code, out, err) = mortise(&["get", "artists", "-o", "name", "--grpc-addr", &addr], &env).await;
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("korn"), "{out}");

    let (code, out, err) = mortise(&["tls", "show", "--server", &server.grpc.to_string()], &[]).await;
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("FILE ") && out.contains("home.test,127.0.0.1"), "{out}");
    assert!((out.contains(" 364 ") || out.contains(" 365 ")) && out.contains("valid"), "{out}");
}

#[tokio::test]
async fn nothing_is_written_over_unasked_and_the_authority_never() {
    let dir = tempfile::tempdir().unwrap();
    let init = async |args: &[&str]| run(&dir, &[&["tls", "init", "--dir", "DIR"][..], args].concat()).await;
    assert_eq!(init(&["--client", "laptop"]).await.0, Some(0));
    let before: Vec<_> = ["ca.pem", "server.pem", "laptop.pem"].map(|name| read(&dir, name)).into();
    let subjects = shown(&dir, 0).await;
    let server = subjects.iter().find(|one| one["subject"] == "CN=mortise server").unwrap();
    for name in ["localhost", "127.0.0.1", "::1"] {
        assert!(server["names"].as_array().unwrap().iter().any(|known| known == name), "{server}");
    }
    // One more client; existing files stay.
    let (code, out, _) = init(&["--client", "phone", "--client", "laptop"]).await;
    assert_eq!(code, Some(0));
    assert!(out.contains("laptop.pem, laptop.key") && out.contains("kept, expires"), "{out}");
    assert_eq!(before, ["ca.pem", "server.pem", "laptop.pem"].map(|name| read(&dir, name)));
    assert!(names(&dir).contains(&"phone.pem".to_owned()));
    // Other hosts for an existing certificate.
    let (code, _, err) = init(&["--host", "elsewhere.test"]).await;
    assert_eq!(code, Some(2));
    assert!(err.contains("server.pem exists") && err.contains("--force issues it again"), "{err}");
    // A pair of another authority in the same directory.
    let foreign = Authority::new("foreign").server();
    write(&dir, "nginx.pem", &foreign.cert);
    write(&dir, "nginx.key", &foreign.key);
    // A renewal keeps names and clients.
    assert_eq!(init(&["--force", "--days", "30"]).await.0, Some(0));
    let after: Vec<_> = ["ca.pem", "server.pem", "laptop.pem"].map(|name| read(&dir, name)).into();
    assert_eq!(before[0], after[0], "the authority is kept");
    assert!(before[1] != after[1] && before[2] != after[2]);
    assert_eq!((read(&dir, "nginx.pem"), read(&dir, "nginx.key")), (foreign.cert, foreign.key));
    let renewed = shown(&dir, 0).await;
    let days = |subject: &str| {
        let one =
            renewed.iter().find(|one| one["subject"] == subject).unwrap_or_else(|| panic!("{subject}: {renewed:?}"));
        (one["daysLeft"].as_i64().unwrap(), one["names"].clone(), one["issuer"].clone())
    };
    for subject in ["CN=mortise server", "CN=laptop", "CN=phone"] {
        assert!((29..=30).contains(&days(subject).0), "{renewed:?}");
    }
    assert_eq!(days("CN=mortise server").1, server["names"]);
    assert_eq!(days("CN=laptop").2, server["issuer"]);

    // Half of a pair, and a key of another authority.
    std::fs::remove_file(dir.path().join("tls/phone.key")).unwrap();
    let (code, _, err) = init(&["--client", "phone"]).await;
    assert_eq!(code, Some(2));
    assert!(err.contains("phone.pem exists without") && err.contains("--force makes both again"), "{err}");
    let ca_key = read(&dir, "ca.key");
    write(&dir, "ca.key", &read(&dir, "laptop.key"));
    let (code, _, err) = init(&["--force"]).await;
    assert_eq!(code, Some(2));
    assert!(err.contains("ca.key is not the key of"), "{err}");
    assert_eq!(after, ["ca.pem", "server.pem", "laptop.pem"].map(|name| read(&dir, name)), "nothing was written");
    std::fs::remove_file(dir.path().join("tls/ca.key")).unwrap();
    let (code, _, err) = init(&["--force"]).await;
    assert_eq!(code, Some(2));
    assert!(err.contains("ca.pem exists without"), "{err}");
    write(&dir, "ca.key", &ca_key);
    assert_eq!(init(&["--force"]).await.0, Some(0));
}

#[tokio::test]
async fn invalid_names_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        ["--host", "https://home.test"],
        ["--host", "home.test:8502"],
        ["--host", ""],
        ["--client", "ca"],
        ["--client", "server"],
        ["--client", "../evil"],
        ["--client", ".hidden"],
        ["--client", ""],
        ["--days", "0"],
        ["--days", "36500"],
    ] {
        let (code, _, err) = run(&dir, &[&["tls", "init", "--dir", "DIR"][..], &args].concat()).await;
        assert_eq!(code, Some(2), "{args:?}: {err}");
    }
    assert!(!dir.path().join("tls").exists());
}

#[tokio::test]
async fn expired_certificates_are_shown_with_a_failing_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run(&dir, &["tls", "init", "--dir", "DIR"]).await.0, Some(0));
    assert_eq!(shown(&dir, 0).await.len(), 3);
    let old = Authority::new("old").issue(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    write(&dir, "old.crt", &old.cert);
    write(
        &dir,
        "ahead.crt",
        &Authority::new("a").issue(|params| params.not_before = rcgen::date_time_ymd(4000, 1, 1)).cert,
    );
    write(&dir, "notes.txt", "no certificate");
    write(&dir, "key.pem", &old.key);
    let found = shown(&dir, 1).await;
    assert_eq!(found.len(), 5, "{found:?}");
    let of = |name: &str| found.iter().find(|one| one["source"].as_str().unwrap().ends_with(name)).unwrap();
    assert_eq!(
        (&of("old.crt")["state"], &of("old.crt")["notAfter"]),
        (&"expired".into(), &"2020-01-01T00:00:00Z".into())
    );
    assert!(of("old.crt")["daysLeft"].as_i64().unwrap() < -2_000);
    assert_eq!(of("ahead.crt")["state"], "not yet valid");
    assert_eq!((&of("ca.pem")["authority"], &of("server.pem")["authority"]), (&true.into(), &false.into()));
    let (code, out, err) = run(&dir, &["tls", "show", "DIR"]).await;
    assert_eq!(code, Some(1));
    assert!(out.contains("expired") && out.lines().count() == 6, "{out}");
    assert!(err.contains("2 of 5 certificates are not valid now"), "{err}");
    assert_eq!(run(&dir, &["tls", "show", "DIR/server.pem", "DIR/ca.pem"]).await.0, Some(0));

    for (args, code, says) in [
        (&["DIR/missing.pem"][..], 2, "No such file"),
        (&["DIR/key.pem"], 2, "holds no certificate"),
        (&["--server", "127.0.0.1:1"], 3, "no certificate from 127.0.0.1:1: "),
        (&["--server", "a b"], 2, "more than a host and a port"),
    ] {
        let (ended, _, err) = run(&dir, &[&["tls", "show"][..], args].concat()).await;
        assert!(ended == Some(code) && err.contains(says), "{args:?}: {ended:?} {err}");
    }
    std::fs::create_dir(dir.path().join("tls/empty")).unwrap();
    let (code, _, err) = run(&dir, &["tls", "show", "DIR/empty"]).await;
    assert!(code == Some(2) && err.contains("has no certificate in a file *.pem"), "{err}");
    // A server without TLS.
    let server = Setup::new().start().await;
    let (code, _, err) = run(&dir, &["tls", "show", "--server", &server.grpc.to_string()]).await;
    assert!(code == Some(3) && err.contains("no certificate from"), "{err}");
}
