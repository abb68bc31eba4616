//! `mortise reload`: what takes effect at once, what needs a restart, and configurations that are refused.

use std::fs;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tonic::Code;

use crate::support::{PATIENCE, Server, Setup, artist, eventually, mortise, tokens::Guarded};

/// Runs a command against the server; returns exit code, output and errors.
async fn run(server: &Server, args: &[&str]) -> (Option<i32>, String, String) {
    let addr = server.grpc.to_string();
    mortise(&[args, &["--grpc-addr", &addr]].concat(), &[]).await
}

/// Reloads, which has to succeed; returns the output.
async fn reload(server: &Server) -> String {
    let (code, out, err) = run(server, &["reload"]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    out
}

async fn status_code(server: &Server, host: &str) -> String {
    let mut stream = TcpStream::connect(server.http).await.unwrap();
    let request = format!("GET /v1/types HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn rates_hosts_and_levels_take_effect_at_once() {
    let server = Setup::new().config("").start().await;
    assert_eq!(reload(&server).await.lines().next(), Some("the settings are the same"));
    assert_eq!(status_code(&server, "names.example").await, "403");

    server.configure(
        "[log]\nlevel = \"debug,h2=debug\"\n[http]\nallowed_hosts = [\"Names.example\"]\n[service]\nwrites_per_second = 1\n\
         [plugin.demo]\nlog_level = \"error\"\n",
    );
    let out = reload(&server).await;
    let changed = "changed settings: http.allowed_hosts, log.level, plugin.demo.log_level, service.writes_per_second";
    assert_eq!(out.lines().next(), Some(changed), "{out}");
    assert!(!out.contains("restart"), "{out}");
    assert_eq!(status_code(&server, "names.example").await, "200");
    let mut refused = None;
    for n in 0..100 {
        refused = server.write(artist(&format!("a-{n}"))).await.err();
        if refused.is_some() {
            break;
        }
    }
    let refused = refused.expect("of a hundred writes in a few seconds one is too many");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("service.writes_per_second"), "{refused}");
    eventually("a line of the new level", async || server.log().contains("DEBUG")).await;

    server.configure("");
    reload(&server).await;
    assert_eq!(status_code(&server, "names.example").await, "403");
    for n in 0..100 {
        server.write(artist(&format!("b-{n}"))).await.unwrap();
    }
}

#[tokio::test]
async fn settings_that_need_a_restart_are_named_until_it_is_done() {
    let data = tempfile::tempdir().unwrap();
    let server = Setup::new().data_dir(data.path()).config("[grpc]\nmax_connections = 100\n").start().await;
    let changed = "[grpc]\nmax_connections = 99\n[kv]\nkeys = 5\n";
    server.configure(changed);
    let out = reload(&server).await;
    assert!(out.contains("these settings take effect with a restart: grpc.max_connections, kv.keys\n"), "{out}");
    // They are named again and again, though nothing has changed since.
    let out = reload(&server).await;
    assert!(out.starts_with("the settings are the same\n") && out.contains("grpc.max_connections, kv.keys\n"), "{out}");
    let (code, out, _) = run(&server, &["status"]).await;
    assert!(code == Some(0) && out.contains("restart       needed for grpc.max_connections, kv.keys\n"), "{out}");
    let json = run(&server, &["status", "-o", "json"]).await.1;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["restartNeeded"], serde_json::json!(["grpc.max_connections", "kv.keys"]));
    // A setting that is changed back needs no restart.
    server.configure("[grpc]\nmax_connections = 100\n[kv]\nkeys = 5\n");
    assert!(reload(&server).await.contains("with a restart: kv.keys\n"));
    assert!(server.stop().await.success());

    let server = Setup::new().data_dir(data.path()).config(changed).start().await;
    let (_, out, _) = run(&server, &["status"]).await;
    assert!(!out.contains("restart"), "{out}");
    assert!(!reload(&server).await.contains("restart"));
}

#[tokio::test]
async fn a_faulty_configuration_changes_nothing_and_its_fault_is_given_to_the_caller() {
    let server = Setup::new().config("[http]\nallowed_hosts = [\"a.example\"]\n").start().await;
    server.configure("[http]\nallowed_hosts = [\"b.example\"]\nmax_connection = 7\n");
    let (code, out, err) = run(&server, &["reload"]).await;
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("nothing was reloaded") && err.contains("max_connection`") && err.contains("line 3"), "{err}");
    assert_eq!(err.lines().count(), 1, "lines of the file may have secrets, so the log alone shows them: {err}");
    assert!(server.log().contains("nothing was reloaded, since the configuration is rejected"), "{}", server.log());
    assert_eq!(status_code(&server, "a.example").await, "200");
    assert_eq!(status_code(&server, "b.example").await, "403");
    let (_, out, _) = run(&server, &["status"]).await;
    assert!(out.contains("warning: the configuration as it is now is rejected"), "{out}");
    server.configure("[plugin.demo.settings]\ntoken = \"hunter2\n");
    let (_, _, err) = run(&server, &["reload"]).await;
    let (_, out, _) = run(&server, &["status", "-o", "json"]).await;
    assert!(err.contains("line 2") && out.contains("line 2"), "{err}{out}");
    assert!(!err.contains("hunter") && !out.contains("hunter"), "{err}{out}");
    server.configure("[http]\nallowed_hosts = [\"b.example\"]\n");
    assert!(reload(&server).await.starts_with("changed settings: http.allowed_hosts\n"));
    assert_eq!(status_code(&server, "b.example").await, "200");
    let (_, out, _) = run(&server, &["status"]).await;
    assert!(!out.contains("rejected"), "{out}");
}

#[tokio::test]
async fn a_reload_takes_a_permission_and_is_recorded() {
    let guarded = Guarded::start(Setup::new().env("MORTISE_AUDIT_EVENTS", "changes").config("")).await;
    guarded.policy("readers", "operator = \"read\"", Vec::new()).await;
    let reader = guarded.token("reader", &["readers"], |_| {}).await;
    let addr = guarded.server.grpc.to_string();
    let reload = async |secret: &str| mortise(&["reload", "--grpc-addr", &addr], &[("MORTISE_TOKEN", secret)]).await;
    let (code, _, err) = reload(&reader).await;
    assert!(code == Some(1) && err.contains("lacks permission 'operator:write'"), "{err}");
    assert!(!guarded.server.log().contains("reloaded settings"), "{}", guarded.server.log());
    let (code, out, err) = reload(&guarded.management).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("read again: the file of the audit log\n"), "{out}");
    let file = guarded.server.data_dir.join("audit/audit.jsonl");
    eventually("records of both", async || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let records: Vec<_> = text.lines().filter(|line| line.contains("ServerService/Reload")).collect();
        records.iter().any(|line| line.contains("bootstrap") && line.contains("OK"))
            && records.iter().any(|line| line.contains("reader") && line.contains("PermissionDenied"))
    })
    .await;
}

#[tokio::test]
async fn files_of_tls_that_are_refused_fail_the_reload_and_stay_out_of_service() {
    let dir = tempfile::tempdir().unwrap();
    let tls = dir.path().join("tls");
    let (code, out, err) = mortise(&["tls", "init", "--dir", tls.to_str().unwrap(), "--host", "localhost"], &[]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    let config = format!("[tls]\ncert_file = \"{0}/server.pem\"\nkey_file = \"{0}/server.key\"\n", tls.display());
    // The unix socket needs no TLS.
    let socket = dir.path().join("socket");
    fs::write(dir.path().join("config.toml"), config).unwrap();
    let (mut command, ..) = Setup::new()
        .serve()
        .env("MORTISE_SOCKET", socket.display())
        .arg("--config")
        .arg(dir.path().join("config.toml").display().to_string())
        .limit("tls_rescan_ms", 3_600_000)
        .command(dir.path());
    let mut child = command.spawn().unwrap();
    let address = format!("unix://{}", socket.display());
    let reload = async || mortise(&["reload", "--grpc-addr", &address], &[]).await;
    eventually("a server", async || reload().await.0 == Some(0)).await;
    let key = fs::read(tls.join("server.key")).unwrap();
    fs::write(tls.join("server.key"), "nothing").unwrap();
    let (code, _, err) = reload().await;
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("the files of TLS are refused") && err.contains("tls.key_file"), "{err}");
    fs::write(tls.join("server.key"), key).unwrap();
    let (code, out, err) = reload().await;
    assert!(code == Some(0) && out.contains("read again: the files of TLS"), "{out}{err}");
    child.kill().await.unwrap();
}
