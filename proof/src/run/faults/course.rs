//! The course of a fault: a history is on its way, the fault begins and meets calls, ends, and the server recovers; then
//! it is killed and started again, and the history goes on to its end.
//!
//! Everything that the promises ask for beside the history is checked here: the answers during the fault, the line of
//! the log, the recovery. The first difference ends the course as an error.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fastrand::Rng;
use mortise_proof::record::{Entry, History};
use mortise_resource::{data, grpc::ResourceServiceClient, pb};
use mortise_test_process::{Outcome, channel};
use prost::Message as _;
use tonic::Code;

use super::{
    super::{
        history::{Subjects, run_disturbed},
        server::Server,
        world::World,
    },
    probe::{Probes, describe, status_of},
    scenario::{Cause, Recovery, Scenario, Work, Writes},
    shim::Shim,
};

/// Operations of the history before the fault, and after the recovery.
const OPERATIONS: usize = 150;
/// Most operations of a history.
const MAX_OPERATIONS: usize = 1_000_000;
/// Clients of a history.
const CLIENTS: usize = 8;
/// Names of each kind in each namespace.
const NAMES: usize = 6;
/// Rounds of probes during the fault.
const ROUNDS: u64 = 5;
/// Time limit of each step.
const STEP_LIMIT: Duration = Duration::from_secs(30);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Figures of a course.
pub(crate) struct Course {
    pub(crate) history: History,
    /// Calls that met the fault.
    pub(crate) hits: u64,
    /// Answers during the fault.
    pub(crate) answers: String,
}

/// Runs the course of a fault during calls.
pub(crate) async fn run(
    subjects: &mut Subjects,
    shim: &Shim,
    scenario: &Scenario,
    stopped: Duration,
    seed: u64,
) -> Outcome<Course> {
    let (mut hits, mut answers) = (0, String::new());
    let life = subjects.life.subscribe();
    let world = Arc::new(World::new("f".to_owned(), MAX_OPERATIONS, NAMES, life));
    let disturb = async |subjects: &mut Subjects, world: &World| {
        done(world, OPERATIONS).await?;
        tokio::time::sleep(scenario.idle).await;
        (hits, answers) = fault(subjects, world, shim, scenario, stopped).await?;
        done(world, OPERATIONS).await?;
        // What was acknowledged during the fault is on the disk.
        subjects.kill(world).await?;
        done(world, OPERATIONS).await?;
        world.end_calls();
        Ok(())
    };
    let random = Rng::with_seed(seed);
    let (history, _) = run_disturbed(subjects, CLIENTS, &world, random, seed, disturb).await?;
    Ok(Course { history, hits, answers })
}

/// Waits until so many more operations have begun.
async fn done(world: &World, count: usize) -> Outcome<()> {
    let left = world.left().saturating_sub(count);
    until("the calls go on", || Ok(world.left() <= left)).await
}

async fn until(what: &str, is_so: impl Fn() -> Outcome<bool>) -> Outcome<()> {
    let begun = Instant::now();
    while !is_so()? {
        if begun.elapsed() > STEP_LIMIT {
            return Err(format!("it is not so that {what}").into());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn fault(
    subjects: &mut Subjects,
    world: &World,
    shim: &Shim,
    scenario: &Scenario,
    stopped: Duration,
) -> Outcome<(u64, String)> {
    let server = subjects.server.as_mut().ok_or("no server")?;
    let (addr, http) = (server.process()?.addr, server.process()?.http.ok_or("no HTTP")?);
    let mut probes = Probes::new(addr).await?;
    probes.write().await?;
    let digest = digest(addr).await?;
    let logged = server.log()?.len();
    let note = |fault: &str| world.add(Entry::Fault { time: world.now(), fault: fault.to_owned() });
    note(scenario.name);
    begin(server, shim, scenario, stopped).await?;
    match scenario.work {
        Work::Calls | Work::Start => {}
        Work::Reload => server.reload()?,
        Work::Backup(text) => backup_fails(server, shim, text).await?,
    }
    let is_met = |server: &Server| -> Outcome<bool> {
        let log = server.log()?;
        let new = log.get(logged..).unwrap_or_default();
        Ok(scenario.log.iter().all(|part| new.contains(part))
            && (!matches!(scenario.cause, Cause::Calls(_)) || shim.hits()? > 0))
    };
    let begun = Instant::now();
    loop {
        probes.round().await;
        let is_refused = !matches!(scenario.writes, Writes::Refused(..)) || !probes.refused.is_empty();
        if is_refused && probes.rounds >= ROUNDS && is_met(server)? {
            break;
        }
        if begun.elapsed() > STEP_LIMIT {
            let text = "the fault shows neither in answers nor in the log";
            return Err(format!("{text}: {}; the log: {}", describe(&probes.refused), server.log()?).into());
        }
        tokio::time::sleep(PAUSE).await;
    }
    judge_answers(scenario, &probes)?;
    if scenario.recovery == Recovery::Restart && status_of(http, "/readyz").await? != 503 {
        return Err("/readyz is not 503".into());
    }
    let hits = shim.hits()?;
    end(server, shim, scenario)?;
    note("the fault ended");
    let answers = describe(&probes.refused);
    recover(subjects, world, scenario, &mut probes).await?;
    let server = subjects.server.as_mut().ok_or("no server")?;
    let addr = server.process()?.addr;
    match scenario.work {
        Work::Calls | Work::Start => {}
        Work::Reload => {
            let begun = Instant::now();
            while self::digest(addr).await? == digest {
                if begun.elapsed() > STEP_LIMIT {
                    return Err(format!("the new file of the plugin does not serve; the log: {}", server.log()?).into());
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        Work::Backup(_) => backup_is_complete(server).await?,
    }
    Ok((hits, answers))
}

async fn begin(server: &mut Server, shim: &Shim, scenario: &Scenario, stopped: Duration) -> Outcome<()> {
    let process = server.process()?;
    let pid = process.pid()?;
    match scenario.cause {
        Cause::Calls(rules) => shim.set(rules),
        Cause::Descriptors => limit(pid, "nofile", std::fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64),
        Cause::Memory => {
            let status = std::fs::read_to_string(format!("/proc/{pid}/statm"))?;
            let pages: u64 = status.split_whitespace().next().ok_or("no size")?.parse()?;
            limit(pid, "as", pages * 4096)
        }
        Cause::Stopped => {
            process.signal("STOP").await?;
            tokio::time::sleep(stopped).await;
            process.signal("CONT").await
        }
    }
}

fn end(server: &mut Server, shim: &Shim, scenario: &Scenario) -> Outcome<()> {
    shim.clear()?;
    let pid = server.process()?.pid();
    match (scenario.cause, pid) {
        (Cause::Descriptors, Ok(pid)) => raise(pid, "nofile"),
        (Cause::Memory, Ok(pid)) => raise(pid, "as"),
        _ => Ok(()),
    }
}

/// Lowers the soft limit of a process.
fn limit(pid: u32, name: &str, most: u64) -> Outcome<()> {
    prlimit(pid, &format!("--{name}={most}:"))
}

/// Raises the soft limit of a process to the hard one.
fn raise(pid: u32, name: &str) -> Outcome<()> {
    let output = std::process::Command::new("prlimit")
        .args(["--pid", &pid.to_string(), &format!("--{name}"), "--noheadings", "--output", "HARD"])
        .output()?;
    prlimit(pid, &format!("--{name}={}:", String::from_utf8_lossy(&output.stdout).trim()))
}

fn prlimit(pid: u32, limit: &str) -> Outcome<()> {
    let status = std::process::Command::new("prlimit").args(["--pid", &pid.to_string(), limit]).status()?;
    if status.success() { Ok(()) } else { Err(format!("prlimit {limit} failed").into()) }
}

fn judge_answers(scenario: &Scenario, probes: &Probes) -> Outcome<()> {
    if scenario.writes == Writes::MayEnd {
        return Ok(());
    }
    if !probes.unread.is_empty() {
        return Err(format!("reads failed: {}", describe(&probes.unread)).into());
    }
    for (code, text) in probes.refused.keys() {
        let is_expected = match scenario.writes {
            Writes::Done | Writes::MayEnd => false,
            Writes::Refused(expected, part) => Code::from(*code) == expected && text.contains(part),
        };
        if !is_expected {
            return Err(format!("writes were refused: {}", describe(&probes.refused)).into());
        }
    }
    Ok(())
}

async fn recover(subjects: &mut Subjects, world: &World, scenario: &Scenario, probes: &mut Probes) -> Outcome<()> {
    match (scenario.recovery, scenario.writes) {
        (Recovery::Restart, _) => {
            if probes.write().await.is_ok() {
                return Err("writes go on, though the content of the disk is unknown".into());
            }
            subjects.restart(world).await
        }
        (Recovery::ByItself, Writes::MayEnd) if probes.write().await.is_err() => subjects.kill(world).await,
        (Recovery::ByItself, _) => {
            let begun = Instant::now();
            while let Err(status) = probes.write().await {
                if begun.elapsed() > STEP_LIMIT {
                    return Err(format!("writes do not go on: {status}").into());
                }
                tokio::time::sleep(PAUSE).await;
            }
            Ok(())
        }
    }
}

/// Returns the digest of the component of the demo plugin that serves.
async fn digest(addr: std::net::SocketAddr) -> Outcome<String> {
    let kind = pb::Type { group: "mortise".into(), group_version: "v1".into(), kind: "Plugin".into() };
    let id =
        pb::Id { name: "demo".into(), r#type: Some(kind), tenancy: Some(pb::Tenancy::default()), ..pb::Id::default() };
    let mut client = ResourceServiceClient::new(channel(addr).await?);
    let read = client.read(pb::ReadRequest { id: Some(id) }).await?.into_inner();
    let data = read.resource.and_then(|resource| resource.data).ok_or("a plugin without data")?;
    Ok(data::Plugin::decode(data.value.as_slice())?.digest)
}

async fn backup(server: &mut Server, env: &[(String, String)]) -> Outcome<(bool, String)> {
    let (file, addr) = (server.dir().join("backup.tar.gz"), server.process()?.addr.to_string());
    let file = file.to_str().ok_or("a path that is not a text")?.to_owned();
    let output = server.command(&["backup", &file, "--grpc-addr", &addr], env).await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.success(), text(&output.stdout) + &text(&output.stderr)))
}

async fn backup_fails(server: &mut Server, shim: &Shim, part: &str) -> Outcome<()> {
    let (is_done, output) = backup(server, &shim.env()).await?;
    if is_done || !output.contains(part) {
        return Err(format!("a backup says: {output}").into());
    }
    if server.dir().join("backup.tar.gz").exists() {
        return Err("a failed backup left a file with its name".into());
    }
    Ok(())
}

async fn backup_is_complete(server: &mut Server) -> Outcome<()> {
    let (is_done, output) = backup(server, &[]).await?;
    if !is_done {
        return Err(format!("a backup says: {output}").into());
    }
    let dir = server.dir().join("restored");
    let (file, dir) = (server.dir().join("backup.tar.gz"), dir.to_str().ok_or("a path that is not a text")?.to_owned());
    let file = file.to_str().ok_or("a path that is not a text")?.to_owned();
    let args = ["restore", &file, "--data-dir", &dir, "--dry-run"];
    let output = server.command(&args, &[]).await?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into()) }
}
