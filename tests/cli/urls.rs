//! Files from the web: `-f http://…`, and the faults of servers on the way to a file.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::support::{Server, transcript::Transcript};

const ARTIST: &str = "type: demo.v2.Artist\nname: korn\ndata: {name: Korn}\n";

/// Starts a server of files that lasts as long as the test.
async fn files() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    address
}

/// Answers one request by its path; one that is not HTTP gets an answer in HTTP, too.
async fn answer(mut stream: TcpStream) {
    let mut request = Vec::new();
    let mut bytes = [0; 1024];
    let is_whole = |request: &[u8]| request.ends_with(b"\r\n\r\n") || request.first().is_some_and(|first| *first < 32);
    while !is_whole(&request) {
        match stream.read(&mut bytes).await {
            Ok(read) if read > 0 => request.extend_from_slice(&bytes[..read]),
            _ => return,
        }
    }
    let text = String::from_utf8_lossy(&request).into_owned();
    let path = text.split(' ').nth(1).unwrap_or_default();
    let redirect = |to: &str| format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
    let answer = match path.split('?').next().unwrap_or_default() {
        "/korn.yaml" => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{ARTIST}", ARTIST.len()),
        "/wrong.yaml" => "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nname: x\n".to_owned(),
        "/moved.yaml" => redirect("korn.yaml"),
        "/again.yaml" => redirect("/again.yaml"),
        "/nowhere.yaml" => redirect("ftp://127.0.0.1/x"),
        "/short.yaml" => "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\ntype: demo".to_owned(),
        "/private.yaml" => "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "/late.yaml" => std::future::pending().await,
        _ => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
    };
    // A client that has gone needs no answer.
    let _ = stream.write_all(answer.as_bytes()).await;
}

#[tokio::test]
async fn files_come_from_urls_and_faults_name_them() {
    let server = Server::start().await;
    let files = files().await;
    let mut t = Transcript::new("urls", &server);
    t.call(&files.to_string(), "<files>");
    let url = |name: &str| format!("http://{files}/{name}");
    t.file("miles.yaml", "type: demo.v2.Artist\nname: miles\ndata: {name: Miles}\n");
    t.fails(4, &["diff", "-f", &url("korn.yaml")]).await;
    t.works(&["apply", "-f", &url("korn.yaml"), "miles.yaml"]).await;
    t.works(&["apply", "-f", &url("moved.yaml?version=2")]).await;
    t.works(&["get", "-f", &url("korn.yaml"), "-o", "name"]).await;
    t.works(&["delete", "-f", &url("korn.yaml")]).await;
    t.works(&["create", "-f", &url("korn.yaml")]).await;
    t.works(&["replace", "-f", &url("korn.yaml")]).await;

    t.fails(2, &["apply", "-f", &url("wrong.yaml")]).await;
    t.fails(2, &["apply", "-f", &format!("http://me:secret@{files}/missing.yaml?secret")]).await;
    t.fails(2, &["apply", "-f", &url("private.yaml")]).await;
    t.fails(2, &["apply", "-f", &url("again.yaml")]).await;
    t.fails(2, &["apply", "-f", &url("nowhere.yaml")]).await;
    t.fails(2, &["apply", "-f", &url("short.yaml")]).await;
    t.fails(5, &["apply", "-f", &url("late.yaml"), "--timeout", "2s"]).await;
    t.fails(2, &["apply", "-f", "http://127.0.0.1:1/x.yaml"]).await;
    t.fails(2, &["apply", "-f", "http://[::1/x.yaml"]).await;

    // The system's certificates differ, so the test has its own.
    let made = t.command(&["tls", "init", "--dir", "tls", "--host", "localhost"]).output().await.unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    t.file("empty.pem", "");
    std::fs::create_dir(t.dir().join("empty")).unwrap();
    let encrypted = format!("https://{files}/korn.yaml");
    for authorities in ["tls/ca.pem", "empty.pem"] {
        let env = [("SSL_CERT_FILE", authorities), ("SSL_CERT_DIR", "empty")];
        let ran = t.run_with(&["apply", "-f", &encrypted], "", &env).await;
        assert_eq!(ran.code, Some(2), "{}", ran.err);
    }
    t.finish();
}
