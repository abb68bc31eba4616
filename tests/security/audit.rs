//! The audit log: recorded callers and calls, secrets that it never holds, and calls while it cannot be written.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use mortise_api::{ControllerServiceClient, ServerServiceClient};
use mortise_resource::{data, pb};
use serde_json::Value;
use tonic::{Code, Request};

use crate::{
    grpc::frames::{self, Connection},
    support::{tokens::*, *},
};

/// Records so far, over all files, in the order of time. A line that is being written is left out.
fn records(dir: &Path) -> Vec<Value> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()).collect();
    // `audit.jsonl` comes after `audit-…`.
    files.sort();
    // A file that was rotated meanwhile has another name by now.
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap_or_default());
    let whole = texts.map(|text| text.rsplit_once('\n').map_or_else(String::new, |(whole, _)| whole.to_owned() + "\n"));
    let text: String = whole.collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

/// Waits for the record of a request by its number.
async fn record_of(dir: &Path, number: &str) -> Value {
    until(&format!("a record of {number}"), async || {
        let all = records(dir);
        all.iter().find(|record| record["request"] == number).cloned().ok_or(all)
    })
    .await
}

/// A request with a number.
fn numbered<T>(message: T, number: &'static str) -> Request<T> {
    with_metadata(message, "x-request-id", number)
}

fn field<'a>(record: &'a Value, name: &str) -> &'a str {
    record[name].as_str().unwrap_or_default()
}

#[tokio::test]
async fn changes_and_refusals_are_recorded_with_who_what_and_generations_and_never_data_or_secrets() {
    let guarded = Guarded::start(Setup::new().env("MORTISE_AUDIT_EVENTS", "changes")).await;
    let audit = guarded.server.data_dir.join("audit");
    guarded.policy("readers", "key_prefix \"resource/demo.v2.\" { policy = \"read\" }", Vec::new()).await;
    let reader = guarded.token("reader-of-artists", &["readers"], |_| {}).await;
    let mut client = guarded.resources(&guarded.management).await;

    let mut sent = artist("korn");
    sent.metadata.insert("note".to_owned(), "the-words-of-a-note".to_owned());
    let written = client
        .write(numbered(pb::WriteRequest { resource: Some(sent.clone()) }, "create"))
        .await
        .unwrap()
        .into_inner()
        .resource
        .unwrap();
    let record = record_of(&audit, "create").await;
    let uid = id_of(&written).uid;
    for (name, expected) in [
        ("surface", "grpc"),
        ("caller", "token with AccessorID 'bootstrap'"),
        ("accessor", "bootstrap"),
        ("method", "Write"),
        ("type", "demo.v2.Artist"),
        ("partition", "default"),
        ("namespace", "default"),
        ("name", "korn"),
        ("uid", uid.as_str()),
        ("decision", "allow"),
        ("code", "OK"),
        ("old_generation", ""),
        ("new_generation", written.generation.as_str()),
    ] {
        assert_eq!(field(&record, name), expected, "{name} of {record}");
    }
    assert!(field(&record, "peer").starts_with("127.0.0.1:"), "{record}");
    let time = field(&record, "time");
    assert!(time.starts_with("20") && time.ends_with('Z') && time.contains('T'), "{record}");

    let blanket = pb::WriteRequest { resource: Some(noted(sent, &[("note", "another")])) };
    let again = client.write(numbered(blanket, "update")).await.unwrap().into_inner().resource.unwrap();
    let record = record_of(&audit, "update").await;
    assert_eq!(field(&record, "old_generation"), written.generation);
    assert_eq!(field(&record, "new_generation"), again.generation);

    let status = pb::Status { observed_generation: again.generation.clone(), ..pb::Status::default() };
    let request = pb::WriteStatusRequest {
        id: again.id.clone(),
        version: String::new(),
        key: "tests".to_owned(),
        status: Some(status),
    };
    client.write_status(numbered(request, "status")).await.unwrap();
    let record = record_of(&audit, "status").await;
    assert_eq!((field(&record, "method"), field(&record, "new_generation")), ("WriteStatus", &*again.generation));

    // Failed calls are recorded too, without a decision; so are refused ones, including reads.
    let stale = pb::Resource { version: written.version.clone(), ..again.clone() };
    client.write(numbered(pb::WriteRequest { resource: Some(stale) }, "stale")).await.unwrap_err();
    let record = record_of(&audit, "stale").await;
    assert_eq!((field(&record, "code"), record.get("decision")), ("Aborted", None), "{record}");
    let mut reading = guarded.resources(&reader).await;
    reading.read(pb::ReadRequest { id: Some(id("demo.v2.Artist", "korn")) }).await.unwrap();
    let refused =
        reading.write(numbered(pb::WriteRequest { resource: Some(artist("korn")) }, "refused")).await.unwrap_err();
    assert_eq!(refused.metadata().get("x-request-id").unwrap(), "refused");
    let record = record_of(&audit, "refused").await;
    assert_eq!((field(&record, "decision"), field(&record, "code")), ("deny", "PermissionDenied"), "{record}");
    assert_eq!((field(&record, "accessor"), field(&record, "name")), ("reader-of-artists", "korn"), "{record}");
    let read = pb::ReadRequest { id: Some(id("mortise.v1.Token", "reader-of-artists")) };
    reading.read(numbered(read.clone(), "refused-read")).await.unwrap_err();
    assert_eq!(field(&record_of(&audit, "refused-read").await, "method"), "Read");
    let mut unknown = guarded.resources("no-such-secret").await;
    unknown.read(numbered(read, "unknown")).await.unwrap_err();
    let record = record_of(&audit, "unknown").await;
    assert_eq!((field(&record, "caller"), field(&record, "code")), ("unknown token", "Unauthenticated"), "{record}");
    let mut controllers = ControllerServiceClient::new(guarded.channel(&reader).await);
    let all = data::ListControllersRequest::default();
    controllers.list(numbered(all, "controllers")).await.unwrap_err();
    let record = record_of(&audit, "controllers").await;
    assert_eq!(field(&record, "method"), "mortise.v1.ControllerService/List");

    // Over HTTP: the same records, and the number in the answer to a failed request.
    let url = format!("http://{}/api/demo/v2/artist/korn", guarded.server.http);
    let curl = std::process::Command::new("curl")
        .args([
            "-s",
            "-i",
            "-X",
            "DELETE",
            "-H",
            "x-request-id: over-http",
            "-H",
            &format!("x-consul-token: {reader}"),
            &url,
        ])
        .output()
        .unwrap();
    let answer = String::from_utf8(curl.stdout).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("x-request-id: over-http"), "{answer}");
    let record = record_of(&audit, "over-http").await;
    assert_eq!((field(&record, "surface"), field(&record, "method")), ("http", "Delete"), "{record}");

    let request = pb::DeleteRequest { id: again.id.clone(), version: String::new() };
    client.delete(numbered(request, "delete")).await.unwrap();
    let record = record_of(&audit, "delete").await;
    assert_eq!(field(&record, "old_generation"), again.generation);
    assert_eq!(record.get("new_generation"), None, "nothing is left: {record}");

    // An allowed read does not count as a change.
    let all = records(&audit);
    assert!(!all.iter().any(|record| field(record, "method") == "Read" && field(record, "decision") == "allow"));
    let text: String =
        fs::read_dir(&audit).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    for never in [&*guarded.management, &*reader, "the-words-of-a-note", "no-such-secret", "key_prefix"] {
        assert!(!text.contains(never), "{never} is in the log");
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&audit), mode(&audit.join("audit.jsonl"))), (0o700, 0o600));
}

#[tokio::test]
async fn all_means_reads_lists_watches_and_other_services_and_dev_records_nothing_by_itself() {
    let quiet = Server::start().await;
    quiet.write(artist("korn")).await.unwrap();
    assert!(!quiet.data_dir.join("audit").exists());

    let server = Setup::new().env("MORTISE_AUDIT_EVENTS", "all").start().await;
    let audit = server.data_dir.join("audit");
    let mut client = server.client();
    client.read(numbered(pb::ReadRequest { id: Some(id("demo.v2.Artist", "absent")) }, "read")).await.unwrap_err();
    assert_eq!(field(&record_of(&audit, "read").await, "code"), "NotFound");
    let list = pb::ListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: Some(tenancy("default", "default")),
        name_prefix: "ko".to_owned(),
    };
    client.list(numbered(list, "list")).await.unwrap();
    let record = record_of(&audit, "list").await;
    assert_eq!((field(&record, "method"), field(&record, "name_prefix")), ("List", "ko"), "{record}");
    assert_eq!(field(&record, "caller"), "anonymous token", "without tokens everyone is one: {record}");
    let watch = pb::WatchListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: None,
        name_prefix: String::new(),
        after: None,
    };
    let _open = client.watch_list(numbered(watch, "watch")).await.unwrap();
    assert_eq!(field(&record_of(&audit, "watch").await, "method"), "WatchList");
    let mut status = ServerServiceClient::new(server.channel().await);
    status.status(numbered(data::ServerStatusRequest::default(), "other")).await.unwrap();
    let record = record_of(&audit, "other").await;
    assert_eq!((field(&record, "method"), field(&record, "code")), ("mortise.v1.ServerService/Status", "OK"));
    // An invalid number is replaced; each request gets another one.
    for _ in 0..2 {
        client.list(numbered(pb::ListRequest::default(), "no number, since it has spaces")).await.unwrap_err();
    }
    let mut numbers = Vec::new();
    eventually("both are recorded", async || {
        let wrong = records(&audit).into_iter().filter(|record| field(record, "code") == "InvalidArgument");
        numbers = wrong.map(|record| field(&record, "request").to_owned()).collect::<Vec<_>>();
        numbers.len() == 2
    })
    .await;
    assert!(numbers[0] != numbers[1] && numbers.iter().all(|number| number.len() == 26), "{numbers:?}");
}

/// A call that ends before its outcome is recorded with the reason of its end.
#[tokio::test]
async fn a_call_without_an_outcome_is_recorded_with_its_deadline_or_its_client() {
    let setup = Setup::new().guest("infinite-loop").env("MORTISE_AUDIT_EVENTS", "changes");
    let server = setup.env("MORTISE_SANDBOX_FUEL", i64::MAX).env("MORTISE_SANDBOX_DEADLINE_MS", 60_000).start().await;
    let audit = server.data_dir.join("audit");
    let write = pb::WriteRequest { resource: Some(thing("infinite_loop", "boom", &Default::default())) };
    let mut connection = Connection::open(server.grpc).await;
    let gone = connection.begin_with(frames::WRITE, &[("x-request-id", "gone")]);
    connection.data(gone, &frames::message(&write), true);
    connection.flush().await;
    eventually("the hook runs", async || {
        let page = server.metrics().await;
        page.lines().any(|line| line.starts_with("mortise_plugin_instances{plugin=\"infinite") && line.ends_with(" 1"))
    })
    .await;
    connection.reset(gone);
    connection.flush().await;
    let record = record_of(&audit, "gone").await;
    assert_eq!((field(&record, "method"), field(&record, "code")), ("Write", "Cancelled"), "{record}");
    let late = connection.begin_with(frames::WRITE, &[("x-request-id", "late"), ("grpc-timeout", "4S")]);
    connection.data(late, &frames::message(&write), true);
    connection.flush().await;
    connection.until(|frame| frame.stream == late && frame.is_last()).await;
    let record = record_of(&audit, "late").await;
    assert_eq!((field(&record, "method"), field(&record, "code")), ("Write", "DeadlineExceeded"), "{record}");
    assert!(record.get("decision").is_none() && record.get("new_generation").is_none(), "{record}");
}

/// Deadlines that pass at every step of a write: each record says what was done.
#[tokio::test]
async fn a_write_with_a_late_answer_is_recorded_as_what_was_done() {
    let server = Setup::new().env("MORTISE_AUDIT_EVENTS", "changes").start().await;
    let audit = server.data_dir.join("audit");
    let mut connection = Connection::open(server.grpc).await;
    let mut names = Vec::new();
    for micros in [1, 200, 400, 600, 800, 1_000, 1_300, 1_600, 2_000, 2_500, 3_000, 4_000, 6_000, 10_000] {
        for round in 0..8 {
            let name = format!("a{micros}-{round}");
            let timeout = format!("{micros}u");
            let more = [("x-request-id", name.as_str()), ("grpc-timeout", timeout.as_str())];
            let call = connection.begin_with(frames::WRITE, &more);
            let write = pb::WriteRequest { resource: Some(artist(&name)) };
            connection.data(call, &frames::message(&write), true);
            connection.flush().await;
            connection.until(|frame| frame.stream == call && frame.is_last()).await;
            names.push(name);
        }
    }
    let mut client = server.client();
    for name in &names {
        // A commit may follow its answer.
        let record = |records: &[Value]| records.iter().find(|record| record["request"] == name.as_str()).cloned();
        eventually("stored and recorded", async || {
            let stored = client.read(pb::ReadRequest { id: Some(id("demo.v2.Artist", name)) }).await.ok();
            let stored = stored.and_then(|read| read.into_inner().resource);
            match (stored, record(&records(&audit))) {
                (Some(stored), Some(record)) => {
                    assert_eq!(field(&record, "code"), "OK", "{name} is stored: {record}");
                    field(&record, "new_generation") == stored.generation
                }
                (None, Some(record)) => field(&record, "code") == "DeadlineExceeded",
                (None, None) => true,
                (Some(_), None) => false,
            }
        })
        .await;
    }
}

#[tokio::test]
async fn without_room_for_its_record_nothing_is_changed_and_readiness_is_gone() {
    let setup = Setup::new().env("MORTISE_AUDIT_EVENTS", "changes").limit("audit_queue", 1);
    let server = setup.limit("audit_wait_ms", 3_000).env("MORTISE_AUDIT_FILE_BYTES", 64 << 10).start().await;
    let (audit, aside) = (server.data_dir.join("audit"), server.data_dir.join("aside"));
    assert_eq!(server.get("/readyz").await.0, 200);
    // The file is gone with its directory, which is not made again.
    fs::rename(&audit, &aside).unwrap();
    let mut written = 0;
    let refused = loop {
        match server.write(artist(&format!("artist-{written}"))).await {
            Ok(_) => written += 1,
            Err(status) => break status,
        }
        assert!(written < 20, "at most the queue goes on without a file");
    };
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    assert!(
        refused.message().contains("audit.jsonl") && refused.message().contains("nothing was changed"),
        "{refused}"
    );
    let name = format!("artist-{written}");
    assert!(is_gone(&server, &id("demo.v2.Artist", &name)).await, "it was not written");
    assert!(server.delete(&id("demo.v2.Artist", "artist-0"), "").await.is_err(), "nothing is changed");
    let (code, text) = server.get("/readyz").await;
    assert!(code == 503 && text.contains("audit log"), "{code} {text}");
    let mut status = ServerServiceClient::new(server.channel().await);
    let warnings = status.status(data::ServerStatusRequest::default()).await.unwrap().into_inner().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("the audit log cannot be written")), "{warnings:?}");

    fs::rename(&aside, &audit).unwrap();
    eventually("it is ready again", async || server.get("/readyz").await.0 == 200).await;
    server.write(artist("after")).await.unwrap();
    eventually("everything is recorded", async || {
        records(&audit).iter().any(|record| field(record, "name") == "after")
    })
    .await;
    let recorded = records(&audit).iter().filter(|record| field(record, "code") == "OK").count();
    println!("{written} writes before the log was stuck, {recorded} records of {}", written + 1);
    assert_eq!(recorded, written + 1, "each write that was acknowledged, once");
}

/// logrotate: the file is moved or removed under the server, with or without a word to it.
#[tokio::test]
async fn a_moved_or_removed_file_is_left_for_a_new_one() {
    let server = Setup::new().env("MORTISE_AUDIT_EVENTS", "changes").start().await;
    let audit = server.data_dir.join("audit");
    let current = audit.join("audit.jsonl");
    let is_in = |file: &Path, name: &str| fs::read_to_string(file).unwrap_or_default().contains(name);
    server.write(artist("before")).await.unwrap();
    eventually("it is recorded", async || is_in(&current, "before")).await;
    let moved = audit.join("audit.jsonl.1");
    fs::rename(&current, &moved).unwrap();
    server.write(artist("moved")).await.unwrap();
    eventually("it is in the new file", async || is_in(&current, "moved")).await;
    fs::remove_file(&current).unwrap();
    eventually("an idle log makes it, too", async || current.exists()).await;
    server.write(artist("removed")).await.unwrap();
    eventually("it is in the new file", async || is_in(&current, "removed")).await;
    assert!(!is_in(&moved, "removed") && is_in(&moved, "before"));
    assert_eq!(server.log().matches("the audit file was moved or removed").count(), 2, "{}", server.log());
    let metrics = server.get("/metrics").await.1;
    assert!(metrics.contains("mortise_audit_reopened_total 2"), "{metrics}");
}

/// Runs `mortise audit verify` on the directory of a server's log.
async fn verify(audit: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let audit = audit.display().to_string();
    mortise(&[&["audit", "verify", &*audit], more].concat(), &[]).await
}

#[tokio::test]
async fn the_chain_goes_through_rotation_moves_and_a_kill_and_a_gap_is_found() {
    let outer = tempfile::tempdir().unwrap();
    let data = outer.path().join("data");
    let (audit, moved) = (data.join("audit"), outer.path().join("audit.jsonl.1"));
    let current = audit.join("audit.jsonl");
    // `mortise serve` records changes by itself, and takes SIGHUP for a reload.
    let setup = || Setup::new().serve().env("MORTISE_PLUGINS_BUNDLED", "demo").data_dir(&data);
    let recorded = async |name: &str| {
        let text = format!("\"name\":\"{name}\"");
        eventually("it is recorded", async || fs::read_to_string(&current).unwrap_or_default().contains(&text)).await;
    };
    let mut server = setup().start().await;
    for name in ["one", "two", "three"] {
        server.write(artist(name)).await.unwrap();
    }
    recorded("three").await;
    let (code, out, err) = verify(&audit, &[]).await;
    assert!(code == Some(0) && out.contains("the chain is whole: records 1 to 3"), "{out}{err}");
    // logrotate, with a signal.
    fs::rename(&current, &moved).unwrap();
    server.signal("HUP");
    eventually("it has a new file", async || current.exists()).await;
    server.write(artist("four")).await.unwrap();
    recorded("four").await;
    let (code, out, err) = verify(&audit, &[&moved.display().to_string()]).await;
    assert!(code == Some(0) && out.contains("records 1 to 4"), "{out}{err}");
    let (code, out, _) = verify(&audit, &[]).await;
    assert!(code == Some(0) && out.contains("it begins with record 4"), "{out}");
    // A kill that leaves half a line.
    server.child.kill().await.unwrap();
    let mut text = fs::read(&current).unwrap();
    text.extend_from_slice(b"{\"time\":\"20");
    fs::write(&current, &text).unwrap();
    let server = setup().start().await;
    for name in ["five", "six", "seven", "eight"] {
        server.write(artist(name)).await.unwrap();
    }
    recorded("eight").await;
    server.stop().await;
    let (code, out, err) = verify(&audit, &[]).await;
    assert!(code == Some(0) && out.contains("records 4 to 8") && out.contains("unfinished lines"), "{out}{err}");
    // Two lines are taken out.
    let text = fs::read_to_string(&current).unwrap();
    let left: Vec<_> = text.lines().filter(|line| !line.contains("\"five\"") && !line.contains("\"six\"")).collect();
    fs::write(&current, left.join("\n") + "\n").unwrap();
    let (code, _, err) = verify(&audit, &[]).await;
    assert!(code == Some(1) && err.contains("audit.jsonl:2: "), "{err}");
    let whole: Vec<_> =
        text.lines().filter(|line| !line.contains("\"seven\"") && !line.contains("\"eight\"")).collect();
    fs::write(&current, whole.join("\n") + "\n").unwrap();
    let (code, _, err) = mortise(&["audit", "verify", "--data-dir", &data.display().to_string()], &[]).await;
    assert!(code == Some(1) && err.contains("records 7 to 8 are missing behind it, at the end"), "{err}");
    // The server notices it, and the gap stays.
    let server = setup().start().await;
    assert!(server.log().contains("the audit log ends with record 6, but 8 were written"), "{}", server.log());
    server.write(artist("nine")).await.unwrap();
    recorded("nine").await;
    let (code, _, err) = verify(&audit, &[]).await;
    assert!(code == Some(1) && err.contains("records 7 to 8 are missing before it"), "{err}");
    let (code, _, err) = verify(&outer.path().join("none"), &[]).await;
    assert!(code == Some(2) && err.contains("none"), "{err}");
}

#[tokio::test]
async fn sinks_get_the_lines_of_the_file_and_absent_ones_delay_nothing() {
    let outer = tempfile::tempdir().unwrap();
    let at = |name: &str| outer.path().join(name);
    let collector = std::os::unix::net::UnixListener::bind(at("collector")).unwrap();
    let syslog = std::os::unix::net::UnixDatagram::bind(at("log")).unwrap();
    let text = |name: &str| at(name).display().to_string();
    let config = format!(
        "[audit]\nevents = \"changes\"\nsinks = [\"unix:{}\", \"syslog:{}\", \"unix:{}\"]\n",
        text("collector"),
        text("log"),
        text("absent")
    );
    let server = Setup::new().config(config).start().await;
    for i in 0..3 {
        server.write(artist(&format!("a{i}"))).await.unwrap();
    }
    let copy = at("copy.jsonl");
    let read = tokio::task::spawn_blocking(move || {
        let reader = std::io::BufReader::new(collector.accept().unwrap().0);
        let lines: Vec<_> = std::io::BufRead::lines(reader).take(3).map(|line| line.unwrap() + "\n").collect();
        let mut bytes = [0; 4_096];
        let length = syslog.recv(&mut bytes).unwrap();
        (lines, String::from_utf8(bytes[..length].to_vec()).unwrap())
    });
    let (lines, datagram) = tokio::time::timeout(PATIENCE, read).await.unwrap().unwrap();
    let current = server.data_dir.join("audit/audit.jsonl");
    assert_eq!(lines.concat(), fs::read_to_string(current).unwrap());
    assert!(datagram.starts_with("<86>") && datagram.ends_with(lines[0].trim_end()), "{datagram}");
    fs::write(&copy, lines.concat()).unwrap();
    let (code, out, err) = verify(&copy, &[]).await;
    assert!(code == Some(0) && out.contains("records 1 to 3"), "{out}{err}");
    eventually("the absent one is reported", async || {
        let mut status = ServerServiceClient::new(server.channel().await);
        let warnings = status.status(data::ServerStatusRequest::default()).await.unwrap().into_inner().warnings;
        warnings.iter().any(|warning| warning.contains("absent takes no records"))
    })
    .await;
    let metrics = server.metrics().await;
    assert!(metrics.contains(&format!("sink=\"unix:{}\"", text("collector"))), "{metrics}");
    assert_eq!(server.get("/readyz").await.0, 200);
    let (code, _, err) = mortise(&["serve"], &[("MORTISE_AUDIT_SINKS", "file")]).await;
    assert!(code == Some(2) && err.contains("write syslog"), "{err}");
}
