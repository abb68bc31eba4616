//! Signals other than those that stop the server, and stops with requests that are not complete.

use std::{os::unix::net::UnixDatagram, path::Path};

use crate::support::{PATIENCE, Server, Setup, artist, eventually};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

/// Waits until the log has a text `count` times.
async fn logged(server: &Server, text: &str, count: usize) {
    eventually(text, async || server.log().matches(text).count() >= count).await;
}

async fn serving_with(config: &Path, setup: Setup) -> Server {
    setup.serve().env("MORTISE_PLUGINS_BUNDLED", "demo").arg("--config").arg(config.display().to_string()).start().await
}

#[tokio::test]
async fn hangup_reloads_settings_and_names_those_that_need_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    std::fs::write(&config, "[log]\nlevel = \"info\"\n").unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let server = serving_with(&config, Setup::new().env("NOTIFY_SOCKET", path.display())).await;
    assert!(!server.log().contains("DEBUG"), "{}", server.log());

    std::fs::write(&config, "[log]\nlevel = \"debug,h2=debug\"\n[http]\nmax_connections = 77\n").unwrap();
    server.signal("HUP");
    logged(&server, "SIGHUP: reloaded settings", 1).await;
    logged(&server, "changed: http.max_connections, log.level", 1).await;
    logged(&server, "take effect with a restart: http.max_connections\n", 1).await;
    server.write(artist("korn")).await.unwrap();
    logged(&server, "DEBUG", 1).await;

    // A faulty file changes nothing, the level included.
    std::fs::write(&config, "[log]\nlevel = \"error\"\n[http]\nmax_connection = 77\n").unwrap();
    server.signal("HUP");
    logged(&server, "SIGHUP: nothing was reloaded", 1).await;
    assert!(server.log().contains("max_connection`"), "{}", server.log());
    server.signal("USR1");
    logged(&server, "SIGUSR1 has no effect", 1).await;
    server.signal("USR2");
    logged(&server, "SIGUSR2 has no effect", 1).await;

    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    while heard.iter().filter(|text: &&String| text.starts_with("READY=1")).count() < 3 {
        let len = socket.recv(&mut buffer).unwrap();
        heard.push(String::from_utf8(buffer[..len].to_vec()).unwrap());
    }
    let kinds: Vec<_> = heard.iter().filter_map(|text| text.split(['=', '\n']).next()).collect();
    assert_eq!(kinds, ["STATUS", "READY", "RELOADING", "READY", "RELOADING", "READY"], "{heard:?}");
    let time = |text: &String| text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().parse::<u64>().unwrap();
    assert!(time(&heard[2]) < time(&heard[4]), "{heard:?}");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn hangup_opens_the_audit_file_again() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    std::fs::write(&config, "").unwrap();
    let server = serving_with(&config, Setup::new()).await;
    let file = server.data_dir.join("audit/audit.jsonl");
    std::fs::rename(&file, dir.path().join("audit.jsonl.1")).unwrap();
    server.signal("HUP");
    logged(&server, "reloaded settings, the file of the audit log", 1).await;
    // The look at the name of the file says something else.
    logged(&server, "the audit log is open again", 1).await;
    eventually("a new file", async || file.exists()).await;
    server.write(artist("korn")).await.unwrap();
    eventually("its record", async || std::fs::read_to_string(&file).unwrap().contains("korn")).await;
}

/// Closing its terminal ends `mortise dev` and removes its directory; one that `nohup` started goes on.
#[tokio::test]
async fn hangup_ends_a_server_for_development_unless_it_is_ignored() {
    for (ignored, signals) in [(false, vec!["HUP"]), (true, vec!["HUP", "TERM"])] {
        let dir = tempfile::tempdir().unwrap();
        let temporary = dir.path().join("tmp");
        std::fs::create_dir(&temporary).unwrap();
        // The tests themselves may run below nohup.
        let hangup = if ignored { "--ignore-signal=HUP" } else { "--default-signal=HUP" };
        let mut child = tokio::process::Command::new("env")
            .args([hangup, env!("CARGO_BIN_EXE_mortise"), "dev"])
            .env("TMPDIR", &temporary)
            .env("MORTISE_CACHE_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("mortise-cache"))
            .envs(["GRPC", "HTTP", "DNS"].map(|port| (format!("MORTISE_{port}_ADDR"), "127.0.0.1:0")))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next_line().await.unwrap().expect("the server starts").starts_with("mortise ready") {}
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 1);
        for (n, signal) in signals.iter().enumerate() {
            assert!(child.try_wait().unwrap().is_none(), "{ignored}: ended before signal {n}");
            let pid = child.id().unwrap().to_string();
            assert!(std::process::Command::new("kill").args([format!("-{signal}"), pid]).status().unwrap().success());
        }
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends").unwrap();
        assert_eq!(ended.code(), Some(0), "{ignored}");
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "{ignored}");
    }
}

/// The rest of a request has a moment to arrive after the signal, and not the whole time of running calls.
#[tokio::test]
async fn half_a_request_does_not_delay_the_end() {
    let http = [
        "PUT /api/demo/v2/artist/korn HTTP/1.1\r\nhost: localhost\r\ncontent-le",
        "PUT /api/demo/v2/artist/korn HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{\"data\": ",
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nho",
    ];
    let server = Setup::new().long_grace().env("MORTISE_HTTP_REQUEST_TIMEOUT_MS", 600_000).start().await;
    let mut open = Vec::new();
    for half in http {
        let mut stream = TcpStream::connect(server.http).await.unwrap();
        stream.write_all(half.as_bytes()).await.unwrap();
        open.push(stream);
    }
    // HTTP/2: preface, settings, the head of a Write, and the first byte of its message.
    let mut stream = TcpStream::connect(server.grpc).await.unwrap();
    let path = "/hashicorp.consul.resource.ResourceService/Write";
    let field = |name: &str, value: &str| {
        [&[0, name.len() as u8][..], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
    };
    let head: Vec<u8> = [
        field(":method", "POST"),
        field(":scheme", "http"),
        field(":path", path),
        field(":authority", "localhost"),
        field("content-type", "application/grpc"),
        field("te", "trailers"),
    ]
    .concat();
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream][..], payload].concat()
    };
    let bytes = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, &[]),
        frame(1, 4, 1, &head),
        frame(0, 0, 1, &[0, 0, 0, 0, 9, 1]),
    ]
    .concat();
    stream.write_all(&bytes).await.unwrap();
    open.push(stream);
    let calls = r#"mortise_grpc_requests_total{method="hashicorp.consul.resource.ResourceService/Write"} 1"#;
    eventually("the call has begun", async || server.get("/metrics").await.1.contains(calls)).await;
    assert!(server.stop().await.success());
}
