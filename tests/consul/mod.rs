//! Consul's read paths on the HTTP port.

mod answers;
mod blocking;
mod bounds;
mod requests;

use mortise_plugin_catalog::proto::catalog::v1::{HealthCheck, health_check::Check};
use mortise_resource::pb;

use crate::{
    catalog::endpoints::{check, checked, service},
    support::{Server, http::Answer, id_of, noted, until},
};

/// A check that clients report.
fn reported(name: &str) -> HealthCheck {
    check(name, Check::Ttl(prost_types::Duration { seconds: 3_600, nanos: 0 }), 0)
}

/// Writes a service `NAME` and its workload `NAME-1`, with tags, metadata and a check that clients report.
async fn deploy(server: &Server, name: &str, host: &str) -> pb::Id {
    let workload = checked(&format!("{name}-1"), host, 8080, vec![reported("up")]);
    let workload = noted(workload, &[("tags", "v1,eu"), ("tier", "front")]);
    let workload = id_of(&server.write(workload).await.unwrap());
    server.write(service(name, &format!("{name}-"))).await.unwrap();
    workload
}

/// Reports the result of the check `up`.
async fn report(server: &Server, workload: &pb::Id, state: pb::condition::State, reason: &str, message: &str) {
    let stored = server.read(workload).await.unwrap();
    let condition = pb::Condition {
        r#type: "Passing".into(),
        state: state.into(),
        reason: reason.into(),
        message: message.into(),
        ..pb::Condition::default()
    };
    let status = pb::Status {
        observed_generation: stored.generation.clone(),
        conditions: vec![condition],
        ..pb::Status::default()
    };
    let request = pb::WriteStatusRequest {
        id: stored.id,
        version: String::new(),
        key: "catalog.v1/check-up".to_owned(),
        status: Some(status),
    };
    server.write_status(request).await.unwrap();
}

/// The index of an answer, which has the other headers of every answer, too.
#[track_caller]
fn index(answer: &Answer) -> u64 {
    answer.ok();
    assert_eq!((answer.header("x-consul-knownleader"), answer.header("x-consul-lastcontact")), ("true", "0"));
    let index = answer.header("x-consul-index").parse().unwrap();
    assert!(index > 0, "{answer:?}");
    index
}

/// The answer of a path once it holds.
async fn answer_until(server: &Server, path: &str, holds: impl Fn(&Answer) -> bool) -> Answer {
    until(path, async || {
        let answer = server.fetch(path).await;
        if holds(&answer) { Ok(answer) } else { Err(answer) }
    })
    .await
}

/// The answer of a path once it has so many entries.
async fn entries_until(server: &Server, path: &str, count: usize) -> Answer {
    answer_until(server, path, |answer| answer.ok().as_array().is_some_and(|entries| entries.len() == count)).await
}
