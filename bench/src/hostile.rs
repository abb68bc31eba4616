//! The cost of a hostile plugin to other types: the 99th percentile of another type's writes while a few clients call
//! the guest without end, against the same without these calls, alternately.
//!
//! Quarantine is switched off as far as settings allow: a refused guest would measure nothing of the sandbox. Only
//! calls that ran the guest are counted.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use mortise_resource::{pb, types::Gvk};
use mortise_test_guests::{Thing, component, wasi_component};
use prost::Message as _;
use tokio::task::JoinSet;
use tonic::Code;

use crate::{
    Outcome,
    latencies::of_writes,
    report::{Line, Unit, line, median},
    servers::{Client, Server},
    versus::Rounds,
};

/// Number of clients that call the guest.
const HAMMERS: usize = 4;
/// Number of clients that write artists.
const WRITERS: usize = 4;

/// Ten thousand faults within a millisecond, which no guest reaches.
const NO_QUARANTINE: [(&str, &str); 2] =
    [("MORTISE_QUARANTINE_FAULTS", "10000"), ("MORTISE_QUARANTINE_WINDOW_MS", "1")];

/// Every guest that misbehaves in a hook: its name, its group, and the name of the resource that makes it misbehave.
const GUESTS: [(&str, &str, &str); 13] = [
    ("infinite-loop", "infinite_loop", "boom"),
    ("memory-bomb", "memory_bomb", "boom"),
    ("memory-fill", "memory_fill", "boom"),
    ("deep-recursion", "deep_recursion", "boom"),
    ("stack-overflow", "stack_overflow", "boom"),
    ("panic", "panicking", "boom"),
    ("log-flood", "log_flood", "boom"),
    ("oversized-reply", "oversized_reply", "boom"),
    ("handle-leak", "handle_leak", "boom"),
    ("host-call-flood", "host_call_flood", "boom"),
    ("big-host-call", "big_host_call", "boom"),
    ("wasi", "wasi", "print-flood"),
    ("wasi", "wasi", "exit"),
];

/// Prints a line for each guest.
pub(crate) async fn measure(rounds: Rounds) -> Outcome<()> {
    line(&format!(
        "hostile: p99 of {WRITERS} clients' writes of artists, beside {HAMMERS} clients that set a guest off"
    ))?;
    for (guest, group, sets_off) in GUESTS {
        let dir = tempfile::tempdir()?;
        let built = if guest == "wasi" { wasi_component(guest) } else { component(guest) };
        std::fs::copy(built, dir.path().join(format!("{guest}.wasm")))?;
        let server = Server::mortise(dir.path(), &NO_QUARANTINE).await?;
        let (writers, hammers) = (server.clients(WRITERS).await?, server.clients(HAMMERS).await?);
        of_writes(&writers, rounds.length / 4).await?;

        let (mut alone, mut beside, mut ratios, mut blows) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for _ in 0..rounds.count {
            let quiet = of_writes(&writers, rounds.length).await?.p99;
            let hammering = Hammering::start(&hammers, &boom(group, sets_off));
            let loud = of_writes(&writers, rounds.length).await?.p99;
            blows += hammering.stop().await?;
            alone.push(quiet);
            beside.push(loud);
            ratios.push(loud / quiet);
        }
        Line::of(format!("Write beside {guest} ({sets_off})"))
            .clients(WRITERS)
            .figure("p99 alone", median(alone), Unit::Milliseconds)
            .figure("p99 beside it", median(beside), Unit::Milliseconds)
            .figure("p99 beside it over alone", median(ratios), Unit::Ratio)
            .figure("hostile calls", blows as f64, Unit::Count)
            .print()?;
        server.stop().await?;
    }
    Ok(())
}

/// A write that makes the guest misbehave.
fn boom(group: &str, name: &str) -> pb::Resource {
    pb::Resource {
        id: Some(pb::Id {
            uid: String::new(),
            name: name.to_owned(),
            r#type: Some(Gvk::new(group, "v1", "Thing").to_pb()),
            tenancy: None,
        }),
        data: Some(prost_types::Any {
            type_url: "type.googleapis.com/mortise.test.v1.Thing".into(),
            value: Thing::default().encode_to_vec(),
        }),
        ..pb::Resource::default()
    }
}

/// Clients that call a guest until they are stopped.
struct Hammering {
    stop: Arc<AtomicBool>,
    blows: Arc<AtomicU64>,
    tasks: JoinSet<()>,
}

impl Hammering {
    fn start(clients: &[Client], boom: &pb::Resource) -> Self {
        let (stop, blows) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        for client in clients {
            let (mut client, boom, stop, blows) = (client.clone(), boom.clone(), stop.clone(), blows.clone());
            tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    // The answer does not count; most are errors.
                    let answer = client.write(pb::WriteRequest { resource: Some(boom.clone()) }).await;
                    // A refusal by quarantine: the guest did not run.
                    if !answer.is_err_and(|status| status.code() == Code::Unavailable) {
                        blows.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        Self { stop, blows, tasks }
    }

    /// Waits for the last calls. Returns the number that ran the guest; 0 would be no measurement.
    async fn stop(mut self) -> Outcome<u64> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(task) = self.tasks.join_next().await {
            task?;
        }
        match self.blows.load(Ordering::Relaxed) {
            0 => Err("not one hostile call came back".into()),
            blows => Ok(blows),
        }
    }
}
