//! Requests that do not end, and bodies that take more memory than bytes.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use tokio::time::{sleep, timeout};
use tonic::Code;
use tonic_reflection::pb::v1::{ServerReflectionRequest, server_reflection_request::MessageRequest};

use super::{Connection, MIB, framed, growth, heavy, lean, prefix, status};
use crate::support::{PATIENCE, artist, eventually};

#[tokio::test]
async fn messages_that_do_not_end_are_bounded_in_bytes_and_time() {
    let server = lean()
        .env("MORTISE_GRPC_INBOUND_BUFFER_BYTES", 64 * MIB)
        .env("MORTISE_HTTP_REQUEST_TIMEOUT_MS", 3_000)
        .start()
        .await;
    let before = server.resident_bytes();
    let connection = Connection::open(&server).await;
    let mut calls = Vec::new();
    for _ in 0..40 {
        let connection = Connection { sender: connection.sender.clone(), addr: connection.addr };
        calls.push(tokio::spawn(async move {
            let pieces = (0..15).map(|_| Bytes::from(vec![b'x'; MIB]));
            let start = std::iter::once(prefix(50 * MIB)).chain(pieces).collect();
            status(connection.call("/hashicorp.consul.resource.ResourceService/Write", start, true).await).await
        }));
    }
    let mut most = 0;
    let mut codes = Vec::new();
    for call in calls {
        while !call.is_finished() {
            most = most.max(growth(&server, before));
            // Between two samples of the memory.
            sleep(Duration::from_millis(20)).await;
        }
        codes.push(call.await.unwrap());
    }
    assert!(most < 160 * MIB, "{} MiB for messages that never end", most / MIB);
    let count = |code: Code, said: &str| {
        codes.iter().filter(|(had, text)| *had == (code as i32).to_string() && text.contains(said)).count()
    };
    let (refused, late) = (
        count(Code::ResourceExhausted, "grpc.inbound_buffer_bytes"),
        count(Code::DeadlineExceeded, "http.request_timeout_ms"),
    );
    assert!(refused > 0 && late > 0 && refused + late == 40, "{codes:?}");
    server.write(heavy("korn", 900_000)).await.expect("there is room again");
}

/// Even the shortest messages count, however many they are. Messages that a stream has completed no longer count.
#[tokio::test]
async fn many_short_messages_that_do_not_end_are_bounded_together_and_small_calls_go_on() {
    const LENGTH: usize = 60 << 10;
    const CALLS: usize = 1_000;
    let (room, late) = (16 * MIB, 4 * PATIENCE.as_millis());
    let setup = lean().env("MORTISE_GRPC_INBOUND_BUFFER_BYTES", room).env("MORTISE_HTTP_REQUEST_TIMEOUT_MS", late);
    let server = setup.start().await;
    let questions = Connection::open(&server).await;
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let question = |host: usize| ServerReflectionRequest {
        host: "x".repeat(host),
        message_request: Some(MessageRequest::FileByFilename(String::new())),
    };
    let (code, said) = status(questions.call(reflection, vec![framed(&question(8 << 10))], true).await).await;
    assert_eq!(code, (Code::ResourceExhausted as i32).to_string(), "{said}");
    // Each answer repeats this twice. Together the questions exceed the limit.
    let host = 3 << 10;
    let asked = room / host * 4 / 3;
    let mut answers = questions.call(reflection, vec![framed(&question(host)); asked], true).await;
    let mut answered = 0;
    while answered < asked * host * 2 {
        let frame = timeout(PATIENCE, answers.body_mut().frame()).await.expect("they are answered").unwrap();
        answered += frame.unwrap().data_ref().expect("the stream goes on").len();
    }
    server.write(heavy("korn", 900_000)).await.expect("what was asked on a stream that idles takes no room");

    let mut connections = Vec::new();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..CALLS {
        if n % 100 == 0 {
            connections.push(Connection::open(&server).await);
        }
        let last = connections.last().unwrap();
        let connection = Connection { sender: last.sender.clone(), addr: last.addr };
        calls.spawn(async move {
            let start = vec![prefix(LENGTH), Bytes::from(vec![b'x'; LENGTH - 5])];
            status(connection.call("/hashicorp.consul.resource.ResourceService/Write", start, true).await).await
        });
    }
    // As many as exceed the limit.
    for _ in 0..CALLS - room / LENGTH {
        let (code, said) = timeout(PATIENCE, calls.join_next()).await.expect("refused in time").unwrap().unwrap();
        assert_eq!(code, (Code::ResourceExhausted as i32).to_string(), "{said}");
        assert!(said.contains("grpc.inbound_buffer_bytes"), "{said}");
    }
    server.write(artist("korn")).await.expect("small calls go on");
    drop((calls, connections));
    eventually("there is room again", async || server.write(heavy("korn", 900_000)).await.is_ok()).await;
}

/// The number of values in a body is bounded, not only its bytes: each takes more than a hundred bytes while it is
/// read.
#[tokio::test]
async fn a_body_of_many_values_is_refused_before_it_fills_the_memory() {
    let server = lean().start().await;
    let before = server.resident_bytes();
    let body = format!("{{\"data\":{{\"tracks\":[{}1]}}}}", "1,".repeat(4 * MIB - 100));
    let asking =
        server.ask("PUT", "/api/demo/v2/album/many").header("accept", crate::support::http::PROBLEM).body(body);
    let asking = asking.await_answer();
    tokio::pin!(asking);
    let mut most = 0;
    let answer = loop {
        tokio::select! {
            answer = &mut asking => break answer,
            // Between two samples of the memory.
            () = sleep(Duration::from_millis(5)) => most = most.max(growth(&server, before)),
        }
    };
    assert_eq!(answer.code(), 400, "{answer:?}");
    assert!(answer.body.contains("values in one text"), "{answer:?}");
    assert!(most < 300 * MIB, "{} MiB", most / MIB);
}
