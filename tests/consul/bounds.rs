//! The bytes of an answer, and the memory for it, are bounded: a few instances with many tags come to much more than
//! what is stored, since each check has the tags, and each service its own instance of a workload.

use crate::{
    catalog::endpoints::{checked, service},
    consul::{answer_until, entries_until, reported},
    support::{Server, http::Answer, noted},
};

/// Largest answer, bytes.
const MAX_ANSWER: usize = 16 << 20;

/// Most memory of a question: what is read, the instances, one entry, and the text, with the allocator's reserve.
const MAX_GROWTH: usize = 400 << 20;

/// Checks of a workload; the plugin accepts no more.
const CHECKS: usize = 16;

/// Writes a workload with so many tags of a letter and a digit or two.
async fn deploy(server: &Server, name: &str, host: &str, tags: usize) {
    let tags: Vec<String> = (0..tags).map(|n| format!("t{}", n % 100)).collect();
    let checks = (0..CHECKS).map(|n| reported(&format!("c{n}"))).collect();
    let workload = checked(name, host, 8080, checks);
    server.write(noted(workload, &[("tags", &tags.join(","))])).await.unwrap();
}

/// Most memory that the server used since the last call, bytes.
fn peak(server: &Server) -> usize {
    let pid = server.pid();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak = line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024;
    // Begins the next measurement.
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
    peak
}

#[track_caller]
fn refused(answer: &Answer, part: &str) {
    assert_eq!(answer.code(), 429, "{:.300}", answer.body);
    assert!(answer.body.contains(part) && answer.body.len() < 1_000, "{:.300}", answer.body);
}

#[tokio::test]
async fn an_answer_with_too_many_bytes_is_refused_and_smaller_questions_are_answered() {
    let server = Server::start().await;
    for n in 0..40 {
        deploy(&server, &format!("web-{n}"), &format!("192.0.2.{}", n + 1), 20_000).await;
    }
    server.write(service("web", "web-")).await.unwrap();
    let whole = entries_until(&server, "/v1/catalog/service/web", 40).await;
    assert!((2 << 20..MAX_ANSWER).contains(&whole.body.len()), "{}", whole.body.len());
    peak(&server);
    for path in ["health/service/web", "health/checks/web", "health/state/any", "health/state/critical"] {
        let before = server.resident_bytes();
        refused(&server.fetch(&format!("/v1/{path}")).await, &format!("more than {MAX_ANSWER} bytes"));
        let growth = peak(&server).saturating_sub(before);
        assert!(growth < MAX_GROWTH, "{path}: {growth} bytes");
    }
    for path in ["health/service/web?passing", "health/state/passing", "health/node/192.0.2.1", "catalog/services"] {
        let answer = server.fetch(&format!("/v1/{path}")).await;
        answer.ok();
        assert!(answer.body.len() <= MAX_ANSWER, "{path}: {}", answer.body.len());
    }
}

#[tokio::test]
async fn instances_that_need_too_much_memory_are_refused_before_they_are_all_made() {
    let server = Server::start().await;
    deploy(&server, "web-1", "192.0.2.1", 250_000).await;
    for n in 0..40 {
        server.write(service(&format!("s{n}"), "web-")).await.unwrap();
    }
    let has_instance = |answer: &Answer| answer.code() == 200 && answer.body.contains("192.0.2.1");
    for n in 0..40 {
        answer_until(&server, &format!("/v1/catalog/service/s{n}"), has_instance).await;
    }
    peak(&server);
    for path in ["health/state/any", "catalog/services", "catalog/nodes", "health/node/192.0.2.1"] {
        let before = server.resident_bytes();
        refused(&server.fetch(&format!("/v1/{path}")).await, "the instances of this answer need more than");
        let growth = peak(&server).saturating_sub(before);
        assert!(growth < MAX_GROWTH, "{path}: {growth} bytes");
    }
    let before = server.resident_bytes();
    refused(&server.fetch("/v1/health/service/s1").await, "an entry needs more than");
    assert!(peak(&server).saturating_sub(before) < MAX_GROWTH);
    server.fetch("/v1/health/service/s1?passing").await.ok();
}
