//! HTTP requests of controllers: permitted targets, and limits.

use std::time::{Duration, Instant};

use crate::support::{
    PATIENCE, Server, Setup, controllers::read_until, decoded, eventually, id, mortise, progress_until, thing,
};
use mortise_resource::pb::{self, Condition, condition::State};
use mortise_test_guests::{Thing, component, wasi_component};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Starts a server that answers correctly or badly, depending on the path; returns its port.
async fn site() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, port));
        }
    });
    port
}

/// Answers one request. The client may disconnect meanwhile.
async fn serve(mut stream: TcpStream, port: u16) {
    let mut request = Vec::new();
    let head = loop {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).await.unwrap_or(0);
        if length == 0 {
            return;
        }
        request.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse::<usize>().unwrap() {
                break text;
            }
        }
    };
    let answer = |status: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
    };
    let answer = match head.split(' ').nth(1).unwrap() {
        "/hello" => answer("200 OK", "hello"),
        "/missing" => answer("404 Not Found", "not here"),
        "/echo" => answer("200 OK", &head),
        "/away" => {
            format!("HTTP/1.1 302 Found\r\nlocation: http://localhost:{port}/hello\r\ncontent-length: 0\r\n\r\n")
        }
        "/endless" => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            while stream.write_all(&[b'x'; 65_536]).await.is_ok() {}
            return;
        }
        "/drip" => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            while stream.write_all(b"x").await.is_ok() {
                // The pace of a slow site.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            return;
        }
        "/never" => {
            return std::future::pending().await;
        }
        other => panic!("{other}"),
    };
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// A server with a plugin that is granted these hosts.
fn setup(component: std::path::PathBuf, granted: &[String]) -> Setup {
    Setup::new()
        .component("reconcile-http", std::fs::read(component).unwrap())
        .config(format!("[plugin.reconcile-http.grants]\nhttp = {granted:?}\n"))
}

async fn server(granted: &[String]) -> Server {
    setup(component("reconcile-http"), granted).start().await
}

/// The condition after a fetch.
async fn fetched(server: &Server, name: &str, data: Thing) -> Condition {
    server.write(thing("reconcile_http", name, &data)).await.unwrap();
    let of = |resource: &pb::Resource| Some(resource.status.get("reconcile-http/things")?.conditions[0].clone());
    let found = read_until(server, &id("reconcile_http.v1.Thing", name), |found| of(found).is_some()).await;
    of(&found).unwrap()
}

async fn get(server: &Server, name: &str, url: String) -> Condition {
    fetched(server, name, Thing { text: url, ..Thing::default() }).await
}

fn says(condition: &Condition, reason: &str, message: &str) {
    assert_eq!((&*condition.reason, condition.message.contains(message)), (reason, true), "{message}: {condition:?}");
}

#[tokio::test]
async fn a_granted_host_answers() {
    let port = site().await;
    let server = server(&[format!("http://127.0.0.1:{port}")]).await;
    let hello = get(&server, "hello", format!("http://127.0.0.1:{port}/hello")).await;
    assert_eq!(hello.state(), State::True);
    says(&hello, "Status200", "5 bytes: hello");
    says(&get(&server, "missing", format!("http://127.0.0.1:{port}/missing")).await, "Status404", "8 bytes: not here");

    let text = format!("http://127.0.0.1:{port}/echo");
    let sent = fetched(&server, "echo", Thing { text, items: vec!["a".into(), "b".into()], ..Thing::default() }).await;
    says(&sent, "Status200", "POST /echo HTTP/1.1\r\n");
    says(&sent, "Status200", &format!("host: 127.0.0.1:{port}\r\n"));
    says(&sent, "Status200", "x-test: yes\r\n");
    says(&sent, "Status200", "\r\n\r\na\nb");

    let metrics = server.metrics().await;
    // More than one each: the status that a reconcile writes wakes its controller once more.
    for outcome in ["2xx", "4xx"] {
        let line = format!("mortise_plugin_http_requests_total{{plugin=\"reconcile-http\",outcome=\"{outcome}\"}} ");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}

/// Stock servers take an empty body in chunks for another request.
#[tokio::test]
async fn a_request_without_a_body_goes_out_without_chunks() {
    let port = site().await;
    let server = server(&[format!("http://127.0.0.1:{port}")]).await;
    for (method, length) in [
        ("GET", None),
        ("DELETE", None),
        ("OPTIONS", None),
        ("POST", Some("0")),
        ("PUT", Some("0")),
        ("PATCH", Some("0")),
    ] {
        let sent = get(&server, &method.to_lowercase(), format!("{method} http://127.0.0.1:{port}/echo")).await;
        says(&sent, "Status200", &format!("{method} /echo HTTP/1.1\r\n"));
        let text = sent.message.to_lowercase();
        assert!(!text.contains("transfer-encoding"), "{text}");
        let sent_length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        assert_eq!(sent_length, length, "{method}: {text}");
    }
}

#[tokio::test]
async fn nothing_goes_out_without_a_grant() {
    let port = site().await;
    let server = Setup::new().guest("reconcile-http").start().await;
    let denied = get(&server, "one", format!("http://127.0.0.1:{port}/hello")).await;
    assert_eq!(denied.state(), State::False);
    says(&denied, "Code7", &format!("grant them with http = [\"http://127.0.0.1:{port}\"] in [plugin.<name>.grants]"));
    let line =
        format!("grant it with plugin.reconcile-http.grants.http = [\"http://127.0.0.1:{port}\"] in config.toml");
    assert!(server.log().contains(&line.replace('"', "\\\"")) || server.log().contains(&line), "{}", server.log());
    let metrics = server.metrics().await;
    let line = "mortise_plugin_http_requests_total{plugin=\"reconcile-http\",outcome=\"denied\"} ";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn another_host_port_or_scheme_is_denied() {
    let (port, other) = (site().await, site().await);
    let server = server(&[format!("http://127.0.0.1:{port}"), "*.example.net".into()]).await;
    for (name, url) in [
        ("host", format!("http://localhost:{port}/hello")),
        ("port", format!("http://127.0.0.1:{other}/hello")),
        ("scheme", format!("https://127.0.0.1:{port}/hello")),
        ("default-port", "http://127.0.0.1/hello".to_owned()),
        ("user", format!("http://127.0.0.1:{port}@localhost:{other}/hello")),
        ("other-user", format!("http://127.0.0.1@localhost:{port}/hello")),
        ("number", format!("http://2130706433:{port}/hello")),
        ("mapped", format!("http://[::ffff:127.0.0.1]:{port}/hello")),
        ("dot", format!("http://127.0.0.1.:{port}/hello")),
        ("above", "https://example.net/hello".to_owned()),
    ] {
        says(&get(&server, name, url).await, "Code7", "are not granted; ");
    }
    says(&get(&server, "gopher", format!("gopher://127.0.0.1:{port}/")).await, "Code3", "the scheme is http or https");
    says(&get(&server, "hello", format!("HTTP://127.0.0.1:{port}/hello")).await, "Status200", "hello");
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let port = site().await;
    let server = server(&[format!("http://127.0.0.1:{port}")]).await;
    says(&get(&server, "away", format!("http://127.0.0.1:{port}/away")).await, "Status302", "0 bytes");
    says(&get(&server, "hop", format!("http://localhost:{port}/hello")).await, "Code7", "not granted");
}

#[tokio::test]
async fn a_request_has_a_time_limit_of_its_own() {
    let port = site().await;
    let setup = setup(component("reconcile-http"), &[format!("http://127.0.0.1:{port}")]);
    // The server's own limits are longer than the test waits, and would have the same text.
    let setup = setup.env("MORTISE_CONTROLLERS_HOST_CALL_MS", 2 * PATIENCE.as_millis());
    let server = setup.env("MORTISE_CONTROLLERS_DEADLINE_MS", 3 * PATIENCE.as_millis()).start().await;
    let text = format!("http://127.0.0.1:{port}/never");
    says(&fetched(&server, "hasty", Thing { text, number: 100, ..Thing::default() }).await, "Code4", "in time");
}

#[tokio::test]
async fn endless_answers_are_cut_off() {
    const LIMIT: Duration = Duration::from_millis(500);
    let port = site().await;
    let granted = [format!("http://127.0.0.1:{port}")];
    let hurried = setup(component("reconcile-http"), &granted);
    let hurried = hurried.env("MORTISE_CONTROLLERS_HOST_CALL_MS", LIMIT.as_millis()).start().await;
    let server = server(&granted).await;
    let endless = get(&server, "endless", format!("http://127.0.0.1:{port}/endless")).await;
    says(&endless, "Code8", "answers with more than the limit of 4194304 bytes (sandbox.reply_bytes)");
    for name in ["never", "drip"] {
        let begun = Instant::now();
        let late = get(&hurried, name, format!("http://127.0.0.1:{port}/{name}")).await;
        says(&late, "Code4", "did not answer in time (limit controllers.host_call_ms)");
        assert!(begun.elapsed() >= LIMIT, "{name}: {:?}", begun.elapsed());
    }
    // After all that, requests still work.
    for server in [&server, &hurried] {
        says(&get(server, "hello", format!("http://127.0.0.1:{port}/hello")).await, "Status200", "hello");
    }
}

#[tokio::test]
async fn an_unreachable_server_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let server = server(&[format!("http://127.0.0.1:{port}"), format!("127.0.0.1:{}", site().await)]).await;
    says(&get(&server, "one", format!("http://127.0.0.1:{port}/hello")).await, "Code14", "127.0.0.1");
    let metrics = server.metrics().await;
    assert!(metrics.contains("plugin=\"reconcile-http\",outcome=\"failed\"} "), "{metrics}");
}

/// A hook has no host access, not even with a grant.
#[tokio::test]
async fn hooks_are_denied() {
    let port = site().await;
    let server = server(&[format!("http://127.0.0.1:{port}")]).await;
    let text = format!("http://127.0.0.1:{port}/hello");
    for items in [Vec::new(), vec!["a body".to_owned()]] {
        let asked = Thing { text: text.clone(), items, ..Thing::default() };
        let written = server.write(thing("reconcile_http", "in-hook", &asked)).await.unwrap();
        let text = decoded::<Thing>(&written).text;
        assert!(text.starts_with("7 HTTP requests to http://127.0.0.1"), "{text}");
    }
}

/// The component contains the whole standard library, which has its own streams.
#[tokio::test]
async fn a_component_for_wasi_sends_requests_too() {
    let port = site().await;
    let granted = [format!("http://127.0.0.1:{port}")];
    let server = setup(wasi_component("reconcile-http"), &granted).start().await;
    says(&get(&server, "hello", format!("http://127.0.0.1:{port}/hello")).await, "Status200", "5 bytes: hello");
    says(&get(&server, "away", format!("http://localhost:{port}/hello")).await, "Code7", "not granted");
    eventually("stdout is the log", || async { server.log().contains("fetched hello") }).await;
}

#[tokio::test]
async fn an_invalid_host_is_a_fault_of_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    std::fs::write(&config, "[plugin.x.grants]\nhttp = [\"https://example.org/path\"]\n").unwrap();
    let (code, _, said) = mortise(&["serve", "--config", config.to_str().unwrap()], &[]).await;
    assert_ne!(code, Some(0), "{said}");
    assert!(said.contains("is not a host for grants.http: it has a path"), "{said}");
}

/// Ten thousand requests of one instance, each with every option: the host frees the data of each.
#[tokio::test]
async fn ten_thousand_requests_with_timeouts_leave_nothing_behind() {
    let port = site().await;
    let server = setup(component("reconcile-http"), &[format!("http://127.0.0.1:{port}")])
        .env("MORTISE_CONTROLLERS_HOST_CALLS", u32::MAX)
        .env("MORTISE_CONTROLLERS_FUEL", 1_i64 << 60)
        .env("MORTISE_CONTROLLERS_DEADLINE_MS", 600_000)
        .env("MORTISE_CONTROLLERS_MEMORY_BYTES", 1_i64 << 30)
        .start()
        .await;
    let inner = Some(mortise_test_guests::Inner { text: "10000".into() });
    let data = Thing { text: format!("http://127.0.0.1:{port}/hello"), number: 60_000, inner, ..Thing::default() };
    server.write(thing("reconcile_http", "many", &data)).await.unwrap();
    let id = id("reconcile_http.v1.Thing", "many");
    let fetched = progress_until("the condition", async || {
        let found = server.read(&id).await.unwrap();
        if let Some(status) = found.status.get("reconcile-http/things") {
            return Ok(status.conditions[0].clone());
        }
        let seen = crate::support::controllers::report(&server, "reconcile-http/fetches").await;
        assert_eq!(seen.errors, 0, "{seen:?}");
        Err(server.metric(r#"mortise_plugin_http_requests_total{plugin="reconcile-http",outcome="2xx"}"#).await)
    })
    .await;
    says(&fetched, "Status200", "hello");
}
