//! Instructions of a read, a write, a list, an event to watchers and the hooks of a write, counted by callgrind. Other processes on the
//! machine do not disturb this figure, so a check can fail on it.
//!
//! A process without a network does the work a number of times and then twice that number; the difference excludes the
//! start. Threads that depend on the clock are left out: sled's own threads, the one that copies from memory into sled's
//! tree, and the one that compares what is stored with its sums. The thread that commits is counted. Valgrind shows programs the same processor on all machines, so
//! counts depend on the compiler and the profile, not on the machine.
//!
//! The resources are namespaces, a type of the host without hooks of a guest. Each watcher is a task that waits for the
//! next frame of its gRPC answer, so a wake-up is counted, and what sends the frame to a client is left out. The hooks of a guest are called by
//! themselves. The guest ignores its input: an instance, the calls and the copies are the host's. Its code is compiled
//! once before, for the processor that valgrind shows.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use arc_swap::ArcSwap;
use clap::ValueEnum;
use futures::future::try_join;
use http_body_util::BodyExt as _;
use mortise_api::WatchAnswers;
use mortise_plugin_host::{Limits, Plugin, PluginSettings, Sandbox};
use mortise_resource::{pb, types};
use mortise_service::{Caller, Consistency, Options, ResourceService, registry::Registry};
use mortise_store::SledBackend;
use prost::Message as _;
use serde::{Deserialize, Serialize};
use tokio::{process::Command, sync::watch, task::JoinSet};

use crate::{
    Outcome, calls, hooks,
    report::{Line, Unit, line},
};

/// Largest difference from the stored figure, percent.
const TOLERANCE: u128 = 5;

/// Resources that are stored; a list has all of them.
const NAMES: usize = 100;

/// Parts of the names of the functions of Mortise's threads that depend on the clock: the one that copies into sled's
/// tree, and the one that compares what is stored with its sums, which begins after a while.
const CLOCK_THREADS: [&str; 2] = ["checkpoint_thread", "scrub::pace"];

/// Watchers of one type, each with its own answer, of callers with the same rights.
const WATCHERS: usize = 100;

/// Messages of a snapshot: the namespaces and its end.
const SNAPSHOT_MESSAGES: usize = NAMES + 1;

/// Bytes of data in each resource.
const DATA: usize = 512;

/// Counted works; all but the hooks use namespaces with 512 bytes of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Work {
    Read,
    /// A durable write.
    Write,
    /// The same, and its event as a frame for each of [`WATCHERS`] that wait for it.
    Events,
    /// A list of 101 resources, which are in the maps in front of sled's tree.
    List,
    /// The same, of resources in the tree.
    TreeList,
    /// The three hooks of a write of 1 KB.
    Hooks,
}

impl Work {
    /// Repetitions in the shorter run: enough for occasional work to weigh little.
    const fn count(self) -> usize {
        match self {
            Self::Read => 300,
            Self::Write => 150,
            Self::List | Self::TreeList | Self::Events => 30,
            Self::Hooks => 100,
        }
    }

    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Figures of all works.
type Counts = BTreeMap<Work, u64>;

/// Stored figures, by the profile that the program was built with.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCounts {
    #[serde(default)]
    dev: Counts,
    #[serde(default)]
    release: Counts,
}

impl StoredCounts {
    fn path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.toml")
    }

    fn read() -> Outcome<Self> {
        let path = Self::path();
        let text = std::fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        Ok(toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?)
    }

    fn write(&self) -> Outcome<()> {
        let head = "# Instructions of one operation, by profile; `.ci/instructions` compares, `.ci/instructions --update` writes.\n";
        Ok(std::fs::write(Self::path(), format!("{head}{}", toml::to_string(self)?))?)
    }

    fn of_this_profile(&mut self) -> (&'static str, &mut Counts) {
        if cfg!(debug_assertions) { ("dev", &mut self.dev) } else { ("release", &mut self.release) }
    }
}

/// Comparison of a count with the stored one.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Same,
    Risen,
    Fallen,
}

impl Change {
    fn of(counted: u64, stored: u64) -> Self {
        // In hundredths of the stored count, as whole numbers: a fraction would not be exact at the bound.
        let (counted, stored) = (u128::from(counted) * 100, u128::from(stored));
        match () {
            () if counted > stored * (100 + TOLERANCE) => Self::Risen,
            () if counted < stored * (100 - TOLERANCE) => Self::Fallen,
            () => Self::Same,
        }
    }
}

/// Counts all works, and compares them with the stored figures or replaces these.
pub(crate) async fn check(update: bool) -> Outcome<()> {
    let there = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().await;
    if let Err(e) = there {
        return line(&format!("SKIPPED: instructions are not counted, valgrind does not start ({e}); install it"));
    }
    let mut stored = StoredCounts::read()?;
    let dir = tempfile::tempdir()?;
    let program = without_debug_info(dir.path()).await?;
    let paths = Paths { program, guest: mortise_test_guests::component("raw-hooks"), code: dir.path().join("code") };
    let mut counted = Counts::new();
    let others = async {
        for work in [Work::Read, Work::Write, Work::Events, Work::List, Work::TreeList] {
            counted.insert(work, difference(&paths, work).await?);
        }
        Ok(())
    };
    // The guest is compiled meanwhile.
    try_join(others, instructions(&paths, Work::Hooks, 0)).await?;
    counted.insert(Work::Hooks, difference(&paths, Work::Hooks).await?);
    let (profile, of_profile) = stored.of_this_profile();
    if update {
        of_profile.clone_from(&counted);
    }
    let (mut risen, mut fallen) = (Vec::new(), Vec::new());
    for (work, count) in counted {
        let name = work.name();
        let Some(stored) = of_profile.get(&work).copied() else {
            return Err(format!("no figure of {name} is stored for the profile {profile}; run with --update").into());
        };
        Line::of(format!("instructions of {name}, profile {profile}"))
            .figure("counted", count as f64, Unit::Instructions)
            .figure("stored", stored as f64, Unit::Instructions)
            .figure("counted over stored", count as f64 / stored as f64, Unit::Ratio)
            .print()?;
        match Change::of(count, stored) {
            Change::Same => {}
            Change::Risen => risen.push(name),
            Change::Fallen => fallen.push(name),
        }
    }
    if update {
        return stored.write();
    }
    if !fallen.is_empty() {
        let fallen = fallen.join(", ");
        line(&format!(
            "FEWER INSTRUCTIONS: {fallen}, by more than {TOLERANCE} %; store them by .ci/instructions --update"
        ))?;
    }
    if risen.is_empty() {
        return Ok(());
    }
    let risen = risen.join(", ");
    line(&format!("MORE INSTRUCTIONS: {risen}, by more than {TOLERANCE} %"))?;
    Err(format!("{risen}: more instructions than stored; find out why, or accept it by .ci/instructions --update")
        .into())
}

/// Makes a copy of this program without debug information, which valgrind would read for seconds each time.
async fn without_debug_info(dir: &Path) -> Outcome<PathBuf> {
    let copy = dir.join("mortise-bench");
    let status =
        Command::new("strip").arg("--strip-debug").arg("-o").arg(&copy).arg(std::env::current_exe()?).status().await;
    match status {
        Ok(status) if status.success() => Ok(copy),
        Ok(status) => Err(format!("strip: {status}").into()),
        Err(e) => Err(format!("strip does not start ({e}); install binutils").into()),
    }
}

/// Program and files of the counted processes.
struct Paths {
    program: PathBuf,
    guest: PathBuf,
    code: PathBuf,
}

/// Counts the instructions of a work, the start excluded.
async fn difference(paths: &Paths, work: Work) -> Outcome<u64> {
    // At once, on two processors.
    let (once, twice) = (work.count(), work.count() * 2);
    let (once, twice) = try_join(instructions(paths, work, once), instructions(paths, work, twice)).await?;
    let more = twice.checked_sub(once).ok_or_else(|| format!("{}: twice the work took less", work.name()))?;
    Ok(more / work.count() as u64)
}

/// Counts the instructions of a process that does the work `count` times, the start included.
async fn instructions(paths: &Paths, work: Work, count: usize) -> Outcome<u64> {
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("callgrind.out");
    let mut option = std::ffi::OsString::from("--callgrind-out-file=");
    option.push(&out);
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--separate-threads=yes"])
        .arg(option)
        .arg(&paths.program)
        .args(["counted", "--work", &work.name(), "--count", &count.to_string(), "--guest"])
        .arg(&paths.guest)
        .arg("--code")
        .arg(&paths.code)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} under valgrind: {}\n{said}", work.name(), output.status).into());
    }
    // One file for each thread, `callgrind.out-01` and so on, and one for the time before there were threads.
    let mut sum = 0;
    for entry in std::fs::read_dir(dir.path())? {
        let entry = entry?;
        let text = std::fs::read_to_string(entry.path())?;
        let is_main = entry.file_name().to_string_lossy().ends_with("-01");
        let follows_clock = CLOCK_THREADS.iter().any(|functions| text.contains(functions));
        if is_main || text.contains("mortise_") && !follows_clock {
            let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
            sum += totals.ok_or("callgrind wrote no totals")?.trim().parse::<u64>()?;
        }
    }
    Ok(sum)
}

/// Does the work `count` times, in the process that is counted.
pub(crate) async fn run(work: Work, count: usize, guest: &Path, code: &Path) -> Outcome<()> {
    if let Work::Hooks = work {
        return call_hooks(count, guest, code).await;
    }
    let dir = tempfile::tempdir()?;
    let registry = Arc::new(ArcSwap::from_pointee(Registry::builtin()?));
    let options = mortise_store::Options::new(dir.path().join("store"));
    let mut backend = Arc::new(SledBackend::open(options.clone())?);
    let mut service = ResourceService::new(backend.clone(), registry.clone(), Options::default());
    let caller = Caller::host(Consistency::Eventual);
    for turn in 0..NAMES {
        let resource = Some(namespace(turn));
        service.write(&caller, pb::WriteRequest { resource }).await?;
    }
    if let Work::TreeList = work {
        // A close moves everything to the tree.
        drop(service);
        tokio::task::spawn_blocking(move || backend.close()).await?;
        backend = Arc::new(SledBackend::open(options)?);
        service = ResourceService::new(backend.clone(), registry, Options::default());
    }
    let mut watchers = match work {
        Work::Events => Watchers::start(&service, &caller).await?,
        _ => Watchers::default(),
    };
    for turn in 0..count {
        let resource = namespace(turn);
        match work {
            Work::Events => {
                service.write(&caller, pb::WriteRequest { resource: Some(resource) }).await?;
                watchers.have_all(SNAPSHOT_MESSAGES + turn + 1).await?;
            }
            Work::Read => {
                service.read(&caller, pb::ReadRequest { id: resource.id }).await?;
            }
            Work::Write => {
                service.write(&caller, pb::WriteRequest { resource: Some(resource) }).await?;
            }
            Work::List | Work::TreeList => {
                let (r#type, tenancy) = (Some(types::namespace().to_pb()), Some(pb::Tenancy::default()));
                let request = pb::ListRequest { r#type, tenancy, name_prefix: String::new() };
                service.list(&caller, request).await?;
            }
            Work::Hooks => {}
        }
    }
    drop((watchers, service));
    Ok(tokio::task::spawn_blocking(move || backend.close()).await?)
}

/// Tasks that wait for the frames of their watches. Dropping them ends the watches.
#[derive(Default)]
struct Watchers {
    tasks: JoinSet<()>,
    frames: Vec<watch::Receiver<usize>>,
}

impl Watchers {
    /// Opens the watches, and waits for their snapshots.
    async fn start(service: &ResourceService, caller: &Caller) -> Outcome<Self> {
        let (answers, mut watchers) = (WatchAnswers::default(), Self::default());
        for _ in 0..WATCHERS {
            let (r#type, tenancy) = (Some(types::namespace().to_pb()), Some(pb::Tenancy::default()));
            let request = pb::WatchListRequest { r#type, tenancy, ..pb::WatchListRequest::default() };
            let mut body = answers.body(service.watch_list(caller, request).await?);
            let (seen, frames) = watch::channel(0);
            watchers.frames.push(frames);
            watchers.tasks.spawn(async move {
                while let Some(Ok(frame)) = body.frame().await {
                    seen.send_modify(|seen| *seen += messages_in(frame.data_ref().map_or(&[], |data| data)));
                }
            });
        }
        watchers.have_all(SNAPSHOT_MESSAGES).await?;
        Ok(watchers)
    }

    /// Waits until every watcher has got a number of messages since its beginning.
    async fn have_all(&mut self, messages: usize) -> Outcome<()> {
        for frames in &mut self.frames {
            frames.wait_for(|seen| *seen >= messages).await.map_err(|_| "a watch ended")?;
        }
        Ok(())
    }
}

/// Counts the messages of a frame, each behind its compression flag and its length.
fn messages_in(mut frame: &[u8]) -> usize {
    let mut messages = 0;
    while let Some(([_, length @ ..], rest)) = frame.split_first_chunk::<5>() {
        frame = rest.get(u32::from_be_bytes(*length) as usize..).unwrap_or_default();
        messages += 1;
    }
    messages
}

async fn call_hooks(count: usize, guest: &Path, code: &Path) -> Outcome<()> {
    // Valgrind is slow.
    let limits = Limits { deadline_ms: 60_000, describe_deadline_ms: 60_000, ..Limits::default() };
    let sandbox = Sandbox::new(&limits, code.to_owned())?;
    let plugin = Plugin::load(&sandbox, "hooks", &std::fs::read(guest)?, &PluginSettings::default()).await?;
    let resource = hooks::resource();
    for _ in 0..count {
        hooks::write(&plugin, Some(&resource)).await?;
    }
    Ok(())
}

/// The namespace of a turn.
fn namespace(turn: usize) -> pb::Resource {
    // The message is one text, `description = 1`.
    let data = "x".repeat(DATA - 3).encode_to_vec();
    let r#type = Some(types::namespace().to_pb());
    pb::Resource {
        id: Some(pb::Id { name: calls::name(0, turn as u64, NAMES), r#type, ..pb::Id::default() }),
        data: Some(prost_types::Any {
            type_url: "type.googleapis.com/hashicorp.consul.tenancy.v2beta1.Namespace".into(),
            value: data,
        }),
        ..pb::Resource::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_may_differ_by_five_percent() {
        assert_eq!([949, 950, 1_000, 1_050, 1_051].map(|count| Change::of(count, 1_000)), {
            [Change::Fallen, Change::Same, Change::Same, Change::Same, Change::Risen]
        });
    }

    #[test]
    fn every_work_has_a_stored_figure() {
        let stored = StoredCounts::read().unwrap();
        for work in Work::value_variants() {
            assert!(stored.dev.contains_key(work) && stored.release.contains_key(work), "{work:?}");
        }
    }
}
