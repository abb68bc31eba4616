//! Answers of plugins: invalid and forbidden ones are reported as the plugin's fault; valid ones arrive.

use crate::support::{Fault, Server, Setup, eventually, gvk, id, metadata, refusal, thing};
use mortise_resource::pb;
use mortise_test_guests::{Inner, Thing};
use prost::Message as _;
use tokio::task::JoinSet;
use tonic::Code;
use tonic_types::StatusExt as _;

fn decode(resource: &pb::Resource) -> Thing {
    Thing::decode(resource.data.as_ref().unwrap().value.as_slice()).unwrap()
}

fn number(group: &str, name: &str, number: i64) -> pb::Resource {
    thing(group, name, &Thing { number, ..Thing::default() })
}

/// Asserts that the host refuses the answer of a mutate hook.
async fn is_not_taken(server: &Server, plugin: &'static str, name: &str, says: &'static str) {
    let group = plugin.replace('-', "_");
    let fault = Fault { plugin, hook: "mutate", code: Code::Internal, kind: "answer", says };
    fault.check(&server.write(number(&group, name, 1)).await.unwrap_err());
    fault.check(&server.mutate_and_validate(number(&group, name, 1)).await.unwrap_err());
    assert_eq!(refusal(server.read(&id(&format!("{group}.v1.Thing"), name)).await).0, Code::NotFound);
    server.write(number(&group, "ordinary", 1)).await.unwrap();
}

#[tokio::test]
async fn garbage_is_not_taken() {
    let server = Setup::new().guest("garbage-reply").start().await;
    is_not_taken(&server, "garbage-reply", "boom", "not a hashicorp.consul.resource.Resource").await;
    is_not_taken(&server, "garbage-reply", "boom-data", "its data is not a mortise.test.v1.Thing").await;
    is_not_taken(&server, "garbage-reply", "boom-url", "it changed the type of data to ").await;
}

#[tokio::test]
async fn mutate_changes_data_and_metadata_only() {
    let mut setup = Setup::new();
    let guests = [
        ("mutate-id", "it changed id;"),
        ("mutate-owner", "it changed owner;"),
        ("mutate-status", "it changed status;"),
        ("mutate-deletion", "it changed metadata.deletionTimestamp;"),
    ];
    for (guest, _) in guests {
        setup = setup.guest(guest);
    }
    let server = setup.start().await;
    for (guest, says) in guests {
        is_not_taken(&server, guest, "boom", says).await;
    }
}

#[tokio::test]
async fn a_flood_of_logs_is_bounded_and_counted_and_the_request_succeeds() {
    let server = Setup::new().guest("log-flood").start().await;
    let written = server.write(number("log_flood", "boom-mutate", 5_000)).await.unwrap();
    assert_eq!(decode(&written).number, 5_000);
    eventually("dropped lines are logged", || async { server.log().contains("log lines dropped") }).await;
    let log = server.log();
    assert!(log.len() < 64 << 10, "{} bytes of log", log.len());
    assert!(log.contains("(more than one request may log)"), "{log}");
    let lines = log.lines().filter(|line| line.contains("flood flood")).count();
    assert!((1..=16).contains(&lines), "{lines} lines");
    let dropped = log.split("dropped=").nth(1).unwrap();
    let dropped: usize = dropped.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
    assert_eq!(dropped + lines, 5_000);
    let metrics = server.metrics().await;
    assert!(
        metrics.contains(&format!("mortise_plugin_logs_dropped_total{{plugin=\"log-flood\"}} {dropped}")),
        "{metrics}"
    );

    // Calls into the host are limited, too.
    let fault = Fault {
        plugin: "log-flood",
        hook: "mutate",
        code: Code::ResourceExhausted,
        kind: "host-calls",
        says: "called the host more than 10000 times (limit fixed for hooks)",
    };
    fault.check(&server.write(number("log_flood", "boom", 20_000)).await.unwrap_err());
    server.write(number("log_flood", "ordinary", 1)).await.unwrap();
}

#[tokio::test]
async fn mutate_runs_once_for_each_write_also_when_writes_conflict() {
    let server = Setup::new().guest("mutate-twice").start().await;
    let items = |items: &[&str]| {
        let items = items.iter().map(|item| (*item).to_owned()).collect();
        thing("mutate_twice", "boom", &Thing { items, ..Thing::default() })
    };
    let created = server.write(items(&["one"])).await.unwrap();
    assert_eq!(decode(&created).items, ["one", "again"]);

    for _ in 0..5 {
        let mut writers = JoinSet::new();
        for writer in 0..16 {
            let (mut client, mine) = (server.client(), format!("writer-{writer}"));
            let resource = items(&[&mine]);
            writers.spawn(async move {
                let request = pb::WriteRequest { resource: Some(resource) };
                let written = client.write(request).await.unwrap().into_inner().resource.unwrap();
                assert_eq!(decode(&written).items, [mine, "again".to_owned()]);
            });
        }
        while let Some(writer) = writers.join_next().await {
            writer.unwrap();
        }
    }
    let stored = server.read(created.id.as_ref().unwrap()).await.unwrap();
    assert_eq!(decode(&stored).items.len(), 2);
}

#[tokio::test]
async fn a_mutate_that_is_not_idempotent_is_reported_and_does_not_delay_a_deletion() {
    let server = Setup::new().guest("mutate-twice").start().await;
    let mut resource = thing("mutate_twice", "boom", &Thing::default());
    resource.metadata = metadata(&[("finalizers", "one two")]);
    let created = server.write_full(resource).await.unwrap();
    assert_eq!(created.warnings, []);
    let created = created.resource.unwrap();
    let id = created.id.clone().unwrap();

    let again = server.write_full(created).await.unwrap();
    assert_eq!(again.warnings.len(), 1, "{:?}", again.warnings);
    assert_eq!(again.warnings[0].severity(), mortise_resource::Severity::Warning);
    assert!(again.warnings[0].summary.contains("plugin mutate-twice"), "{:?}", again.warnings);
    assert!(again.warnings[0].summary.contains("idempotent"), "{:?}", again.warnings);
    assert_eq!(decode(again.resource.as_ref().unwrap()).items, ["again", "again"]);

    server.delete(&id, "").await.unwrap();
    let mut marked = server.read(&id).await.unwrap();
    assert!(marked.metadata.contains_key("deletionTimestamp"));
    assert_eq!(decode(&marked).items, ["again", "again"], "marking changes nothing");
    marked.metadata.insert("finalizers".into(), "two".into());
    let mut marked = server.write(marked).await.unwrap();
    assert_eq!(decode(&marked).items, ["again", "again"]);
    marked.metadata.remove("finalizers");
    server.write(marked).await.unwrap();
    assert_eq!(refusal(server.read(&id).await).0, Code::NotFound);
}

#[tokio::test]
async fn validate_sees_the_stored_resource() {
    let server = Setup::new().guest("prior").start().await;
    let warning = async |year| {
        let written = server.write_full(number("prior", "label", year)).await.unwrap();
        written.warnings.into_iter().map(|warning| warning.summary).collect::<Vec<_>>()
    };
    assert_eq!(warning(1990).await, ["there was no year"]);
    assert_eq!(warning(1994).await, ["the year was 1990"]);
    let checked = server.mutate_and_validate(number("prior", "label", 1995)).await.unwrap();
    assert_eq!(checked.warnings[0].summary, "there was no year", "a dry run does not look at what is stored");

    let refused = server.write(number("prior", "label", 1980)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert_eq!(refused.message(), "the year goes back from 1994 to 1980");
    let details = refused.get_error_details();
    assert_eq!(details.bad_request().unwrap().field_violations[0].field, "data.number");
    assert!(details.error_info().is_none(), "an honest refusal is no fault of the plugin");
    assert_eq!(decode(&server.read(&id("prior.v1.Thing", "label")).await.unwrap()).number, 1994);
}

/// A write replaces only the prior that it was validated against: among concurrent writers the year never decreases.
#[tokio::test]
async fn validate_runs_again_when_what_is_stored_has_changed() {
    let server = Setup::new().guest("prior").start().await;
    server.write(number("prior", "race", 0)).await.unwrap();
    let mut watch = server.watch(gvk("prior.v1.Thing"), None, "race").await.unwrap();
    watch.snapshot().await;
    let mut writers = JoinSet::new();
    for year in 1..=24 {
        let mut client = server.client();
        writers.spawn(async move {
            let request = pb::WriteRequest { resource: Some(number("prior", "race", year)) };
            client.write(request).await.map(drop).map_err(|e| e.code())
        });
    }
    let mut accepted = 0;
    while let Some(outcome) = writers.join_next().await {
        match outcome.unwrap() {
            Ok(()) => accepted += 1,
            Err(code) => assert_eq!(code, Code::InvalidArgument),
        }
    }
    let mut last = 0;
    for _ in 0..accepted {
        let year = decode(&watch.upsert().await).number;
        assert!(year > last, "{year} after {last}");
        last = year;
    }
    watch.shows_next(&server, number("prior", "race-last", 0)).await;
}

#[tokio::test]
async fn immutable_fields_stay() {
    let server = Setup::new().guest("immutable-field").start().await;
    let with = |number, text: &str, free: &str| {
        let inner = Some(Inner { text: text.into() });
        thing("immutable_field", "rock", &Thing { number, inner, text: free.into(), ..Thing::default() })
    };
    server.write(with(1, "deep", "a")).await.unwrap();
    server.write(with(1, "deep", "b")).await.unwrap();
    for (changed, field) in [(with(2, "deep", "b"), "number"), (with(1, "other", "b"), "inner.text")] {
        let (code, message) = refusal(server.write(changed).await);
        assert_eq!(code, Code::InvalidArgument);
        assert!(message.contains(&format!("{field} cannot be changed once the resource exists")), "{message}");
    }
    let without = thing("immutable_field", "rock", &Thing { number: 1, ..Thing::default() });
    assert_eq!(refusal(server.write(without).await).0, Code::InvalidArgument, "taking it away is a change");
    assert_eq!(decode(&server.read(&id("immutable_field.v1.Thing", "rock")).await.unwrap()).text, "b");
}

#[tokio::test]
async fn one_version_serves_a_request() {
    for (guest, version) in [("version-stamp-1", "1.0.0"), ("version-stamp-2", "2.0.0")] {
        let server = Setup::new().guest(guest).start().await;
        let written = server.write_full(number("version_stamp", "stamped", 1)).await.unwrap();
        assert_eq!(written.resource.unwrap().metadata, metadata(&[("mutated-by", version)]));
        assert_eq!(written.warnings[0].summary, format!("validated by {version}"));
    }
}
