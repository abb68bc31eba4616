//! Instructions of a read, a write, a list and the hooks of a write, counted by callgrind: a figure that another process
//! on the machine does not disturb, so that a check can fail on it.
//!
//! A process without a network does the work a number of times and then twice that number; the difference has no start-up
//! in it. Threads of the store are counted with it, since callgrind runs one thread at a time. Valgrind shows programs
//! the same processor on all machines, so counts depend on the compiler and the profile, not on where they are taken.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use arc_swap::ArcSwap;
use clap::ValueEnum;
use futures::future::try_join_all;
use mortise_plugin_host::{Call, Limits, Plugin, PluginSettings, Sandbox};
use mortise_resource::{authorizer::AllowAll, pb, types::Gvk};
use mortise_service::{Caller, Consistency, Options, ResourceService, registry::Registry};
use mortise_store::SledBackend;
use mortise_test_guests::component;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::{
    Outcome, calls, hooks,
    report::{Line, Unit, line},
};

/// Part of the stored figure by which another may differ from it, percent.
const TOLERANCE: f64 = 5.0;

/// Resources that are stored; a list has all of them.
const NAMES: usize = 100;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Work {
    /// Read of a type without hooks.
    Read,
    /// Durable Write of the same.
    Write,
    /// List of 100 of the same.
    List,
    /// Mutate, validate and authorize of a resource of 1 KB, in a fresh instance.
    Hooks,
}

impl Work {
    /// The guest that it takes.
    const fn guest(self) -> &'static str {
        match self {
            Self::Hooks => "every-hook",
            Self::Read | Self::Write | Self::List => "no-hook",
        }
    }

    /// How often it is done in the shorter run: often enough for what happens now and then to weigh little.
    const fn count(self) -> usize {
        match self {
            Self::Read => 200,
            Self::Write => 100,
            Self::List => 20,
            Self::Hooks => 20,
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

/// How a count stands to the stored one.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Same,
    Risen,
    Fallen,
}

impl Change {
    fn of(counted: u64, stored: u64) -> Self {
        let percent = (counted as f64 / stored as f64 - 1.0) * 100.0;
        match percent {
            risen if risen > TOLERANCE => Self::Risen,
            fallen if fallen < -TOLERANCE => Self::Fallen,
            _ => Self::Same,
        }
    }
}

/// Counts all works and compares them with the stored figures, or stores them anew.
pub(crate) async fn check(update: bool) -> Outcome<()> {
    let there = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().await;
    if let Err(e) = there {
        return line(&format!("SKIPPED: instructions are not counted, valgrind does not start ({e}); install it"));
    }
    let mut stored = StoredCounts::read()?;
    let cache = tempfile::tempdir()?;
    // Two at a time, on as many processors. The guests are compiled by whichever comes first.
    let count = async |works: [Work; 2]| {
        let mut counts = Vec::new();
        for work in works {
            let once = instructions(work, work.count(), cache.path()).await?;
            let twice = instructions(work, work.count() * 2, cache.path()).await?;
            let more = twice.checked_sub(once).ok_or_else(|| format!("{}: twice the work took less", work.name()))?;
            counts.push((work, more / work.count() as u64));
        }
        Outcome::Ok(counts)
    };
    let counted = try_join_all([count([Work::Hooks, Work::Read]), count([Work::Write, Work::List])]).await?;
    let counted: Counts = counted.into_iter().flatten().collect();
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

/// Instructions of a process that does the work so often, start-up included.
async fn instructions(work: Work, count: usize, cache: &Path) -> Outcome<u64> {
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("callgrind.out");
    let mut option = std::ffi::OsString::from("--callgrind-out-file=");
    option.push(&out);
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(option)
        .arg(std::env::current_exe()?)
        .args(["counted", "--work", &work.name(), "--count", &count.to_string(), "--component"])
        .arg(component(work.guest()))
        .arg("--cache")
        .arg(cache)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} under valgrind: {}\n{said}", work.name(), output.status).into());
    }
    let text = std::fs::read_to_string(&out)?;
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: ")).ok_or("callgrind wrote no totals")?;
    Ok(totals.trim().parse()?)
}

/// Does the work so often: the process that is counted.
pub(crate) async fn run(work: Work, count: usize, guest: &Path, cache: &Path) -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    let sandbox = Sandbox::new(&Limits { instances: 4, ..Limits::default() }, cache.to_owned())?;
    let plugin = Plugin::load_file(&sandbox, guest, &PluginSettings::default()).await?;
    if work == Work::Hooks {
        return call_hooks(&plugin, count).await;
    }
    let registry = Arc::new(ArcSwap::from_pointee(Registry::builtin()?.with(&plugin)?));
    let backend = Arc::new(SledBackend::open(mortise_store::Options::new(dir.path().join("store")))?);
    let service = ResourceService::new(backend.clone(), registry, Options::default());
    let caller = Caller::host(Consistency::Eventual);
    for number in 0..NAMES {
        let resource = Some(calls::unhooked(&calls::name(0, number as u64, NAMES)));
        service.write_encoded(&caller, pb::WriteRequest { resource }).await?;
    }
    for turn in 0..count {
        let resource = calls::unhooked(&calls::name(0, turn as u64, NAMES));
        match work {
            Work::Read => {
                service.read_encoded(&caller, pb::ReadRequest { id: resource.id }).await?;
            }
            Work::Write => {
                service.write_encoded(&caller, pb::WriteRequest { resource: Some(resource) }).await?;
            }
            Work::List | Work::Hooks => {
                let r#type = Some(Gvk::new("no_hook", "v1", "Artist").to_pb());
                let tenancy = Some(pb::Tenancy::default());
                service.list_encoded(&caller, pb::ListRequest { r#type, tenancy, ..Default::default() }).await?;
            }
        }
    }
    drop(service);
    Ok(tokio::task::spawn_blocking(move || backend.close()).await?)
}

async fn call_hooks(plugin: &Arc<Plugin>, count: usize) -> Outcome<()> {
    let resource = hooks::resource();
    for _ in 0..count {
        let mut call = Call::new(plugin.clone(), Arc::new(AllowAll));
        call.mutate(resource.clone()).await?;
        call.validate(resource.clone(), None).await?;
        call.authorize_write(resource.clone()).await?;
    }
    Ok(())
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
