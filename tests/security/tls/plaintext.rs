//! Clients without TLS, and command lines without a flag for it.

use mortise_resource::pb;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tonic::{
    Code,
    transport::{Channel, Identity},
};

use super::{Authority, Files};
use crate::support::{Client, PATIENCE, artist, mortise, until_closed};

/// The answer to a client without TLS.
const WHY: &str = "this port speaks TLS, and the connection is in the clear: use https://";

#[tokio::test]
async fn a_client_without_tls_gets_the_reason() {
    let files = Files::new();
    let server = files.setup().start().await;
    for addr in [server.grpc, server.http] {
        for request in [
            "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
            "GET / HTTP/1.0\r\n\r\n".to_owned(),
            format!("POST /api HTTP/1.1\r\nhost: a\r\ncontent-length: 40000\r\n\r\n{}", "x".repeat(40_000)),
            format!("PUT /api HTTP/1.1\r\nhost: a\r\ncontent-length: 999999999\r\n\r\n{}", "x".repeat(100_000)),
        ] {
            let mut stream = TcpStream::connect(addr).await.unwrap();
            // The server may close before it has taken all of it.
            let _ = stream.write_all(request.as_bytes()).await;
            let mut answer = Vec::new();
            let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server closes in time");
            let answer = String::from_utf8_lossy(&answer);
            assert!(request.len() > 100_000 || answer.starts_with("HTTP/1."), "{answer:?}");
            assert!(request.len() > 100_000 || answer.contains(" 400 Bad Request\r\n"), "{answer:?}");
            assert!(request.len() > 100_000 || answer.contains(WHY), "{answer:?}");
        }
        // A call of a standard gRPC client.
        let channel = Channel::from_shared(format!("http://{addr}")).unwrap().connect().await.unwrap();
        let request = pb::WriteRequest { resource: Some(artist("korn")) };
        let status = Client::new(channel).write(request).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert!(status.message().contains(WHY), "{status:?}");
        // Bytes of no known protocol.
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream.write_all(b"\x00\x01\x02\r\n\r\n").await.unwrap();
        assert!(!until_closed(&mut stream).await.0.contains("200"));
    }
    let (code, _, err) = mortise(&["types"], &[("MORTISE_GRPC_ADDR", &server.grpc.to_string())]).await;
    assert_eq!(code, Some(1));
    assert!(err.contains(WHY) && err.contains("--tls --ca-file FILE"), "{err}");
    assert!(server.log().lines().filter(|line| line.contains("ERROR") || line.contains("WARN")).count() == 0);
}

#[tokio::test]
async fn the_command_line_names_the_missing_flag() {
    let files = Files::new();
    let robot = files.ca.client("robot");
    let server = files.mutual("required").tls(files.trust().identity(Identity::from_pem(&robot.cert, &robot.key)));
    let server = server.start().await;
    let forged = Authority::new("authority of the test").client("robot");
    for (name, text) in
        [("robot.pem", &robot.cert), ("robot.key", &robot.key), ("no.pem", &forged.cert), ("no.key", &forged.key)]
    {
        files.put(name, text);
    }
    let addr = server.grpc.to_string();
    let types = async |args: &[&str]| {
        let args: Vec<_> = args
            .iter()
            .map(|arg| {
                if arg.ends_with(".pem") || arg.ends_with(".key") {
                    files.path(arg).display().to_string()
                } else {
                    (*arg).to_owned()
                }
            })
            .collect();
        let args: Vec<_> = ["types"].into_iter().chain(args.iter().map(String::as_str)).collect();
        let (code, _, err) = mortise(&args, &[("MORTISE_GRPC_ADDR", &addr)]).await;
        (code, err)
    };
    const OWN: &str = "wants a certificate of this client that it trusts: --client-cert and --client-key";
    let own = ["--ca-file", "ca.pem", "--client-cert", "robot.pem", "--client-key", "robot.key"];
    assert_eq!(types(&own).await, (Some(0), String::new()));
    for (args, says) in [
        (&["--tls"][..], "--ca-file FILE names the authority"),
        (&["--ca-file", "ca.pem", "--tls-server-name", "away.test"], "--tls-server-name NAME gives the name"),
        (&["--ca-file", "ca.pem"], OWN),
        (&["--ca-file", "ca.pem", "--client-cert", "no.pem", "--client-key", "no.key"], OWN),
    ] {
        let (code, err) = types(args).await;
        assert_eq!(code, Some(3), "{args:?}: {err}");
        let hint = err.lines().find(|line| line.trim_start().starts_with("hint: "));
        assert!(hint.is_some_and(|hint| hint.contains(says)), "{args:?}: {err}");
    }
}
