//! The server starts, and answers the same, with little address space. Needs `prlimit` (util-linux); prints SKIPPED
//! without it.

use crate::support::{Setup, artist, decoded, refusal, skipped, thing};
use mortise_test_guests::Thing;
use tonic::Code;

/// Whether the tool is installed. A test that cannot run prints that for the summary of the run.
fn has_prlimit() -> bool {
    let there = std::process::Command::new("prlimit").arg("--version").output().is_ok_and(|out| out.status.success());
    if !there {
        skipped("no prlimit on PATH (package util-linux)");
    }
    there
}

/// Answers of a server with that limit to calls that depend on memory.
async fn answers(limit: u64) -> Vec<String> {
    let server = Setup::new().guest("memory-bomb").guest("prior").address_space(limit).start().await;
    let mut answers = Vec::new();
    let korn = server.write(artist("korn")).await.unwrap();
    answers.push(format!("{:?}", korn.data));
    for n in 0..50 {
        server.write(artist(&format!("artist-{n}"))).await.unwrap();
    }
    let (code, message) = refusal(server.write(thing("memory_bomb", "boom", &Thing::default())).await);
    assert_eq!(code, Code::ResourceExhausted, "with {} MiB: {message}\n{}", limit >> 20, server.log());
    answers.push(message);
    let prior = server.write_full(thing("prior", "one", &Thing::default())).await.unwrap();
    answers.push(format!("{:?} {}", prior.warnings, decoded::<Thing>(&prior.resource.unwrap()).number));
    let scarce = server.log().contains("address space is");
    assert_eq!(scarce, limit < 64 << 30, "{}", server.log());
    answers
}

#[tokio::test]
async fn scarce_address_space_changes_no_answer() {
    if !has_prlimit() {
        return;
    }
    let plenty = answers(u64::MAX).await;
    // A kernel with 39 address bits; a small container; a very small one.
    for limit in [512 << 30, 4 << 30, 2 << 30, 512 << 20] {
        assert_eq!(answers(limit).await, plenty, "with {} MiB", limit >> 20);
    }
}
