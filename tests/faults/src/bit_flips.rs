//! `bit-flips`: flips one bit of a store's files.
//!
//! [Writers](crate::writer) make the stores: one that was closed, and one that was killed. Each case copies a store,
//! flips a bit of the copy and opens it. The content is compared with the content before the flip:
//!
//! | verdict | |
//! |---|---|
//! | right | every read is as before, and a check finds nothing |
//! | harmless | every read is as before, and a check names something |
//! | noticed | the store reports damage, or the wrong reads are errors |
//! | refused | the store is not opened, and the error names a file |
//! | named | the last record of the log of a killed store is lost, as docs/storage-format.md says |
//! | reused | as `named`, and a lost version is given again |
//! | unnamed | the store is not opened, and the error names no file |
//! | WRONG | a read differs from what was acknowledged, without any report |
//! | panics, hangs | the case panics or hangs |
//!
//! Before that, `SledBackend::check_offline` checks the copy. It may be *blind* (find nothing where the opening does),
//! but may not panic.
//!
//! Sled looks a million times for a lost page, and then panics: the slowest cases consist of such reads, each some 0.15
//! s of the processor: some 24 s for all names. A case that hangs is shown with the activity of its threads.
//!
//! For backups, `restore --dry-run` and `restore` must refuse everything that they do not restore exactly. For compiled
//! code, the server must answer as before, and compile the flipped code again.
//!
//! Cases run in a process of their own, which is started again after a case that ended it.

mod make;
mod saying;
mod target;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::RecvTimeoutError,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum as _};
use fastrand::Rng;
use mortise_store::{Backend, SledBackend};

use self::{
    make::{make, make_served},
    saying::{Saying, compare, new_version, saying},
    target::Target,
};
use crate::{
    Outcome,
    files::{self, Flip, Used},
    mortise::{Mortise, Restored},
    process::{cpu_of, lines_of, threads_of},
    report::{Bound, Table, work_dir},
    writer::options,
};

/// Number of cases with the same stores.
const CASES: u64 = 500;

/// Options of the command.
#[derive(Debug, Clone, Args)]
pub(crate) struct BitFlips {
    /// Number of flipped bits.
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// Seconds to run instead, with any number of bits.
    #[arg(long)]
    seconds: Option<u64>,
    /// Seed of random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this case.
    #[arg(long)]
    case: Option<u64>,
    /// Only these targets.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Target>,
    /// The `mortise` binary, for backups and compiled code; by default the one beside this tool.
    #[arg(long)]
    mortise: Option<PathBuf>,
    /// Seconds of the processor after which a case counts as hanging; ten times as many by the clock.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    patience: u64,
    /// A directory for the stores. Existing ones are used again, so that a case can be repeated.
    #[arg(long)]
    keep: Option<PathBuf>,
}

impl BitFlips {
    fn mortise(&self) -> Outcome<PathBuf> {
        let beside = std::env::current_exe()?.with_file_name("mortise");
        Ok(self.mortise.clone().unwrap_or(beside))
    }

    /// Returns the targets, as the options select them.
    fn targets(&self) -> Outcome<Vec<Target>> {
        let wanted = if self.only.is_empty() { Target::value_variants() } else { &self.only };
        let mortise = self.mortise()?;
        let (there, skipped): (Vec<_>, Vec<_>) = wanted
            .iter()
            .copied()
            .partition(|target| mortise.exists() || matches!(target, Target::Closed | Target::Killed));
        for target in skipped {
            println!("SKIPPED: bit-flips of {}: {} is missing", target.name(), mortise.display());
        }
        Ok(there)
    }
}

/// Returns the target of a case. The targets of a server are rare among several, since each of their cases starts one.
fn target_of(targets: &[Target], case: u64) -> Option<Target> {
    let share = |target: &Target| match target {
        Target::Closed | Target::Killed => 45,
        Target::Backup => 9,
        Target::Code => 1,
    };
    let mut place = case % targets.iter().map(share).sum::<u64>().max(1);
    // Neighbours have different targets, so that a few cases have some of each.
    place = place * 37 % targets.iter().map(share).sum::<u64>().max(1);
    targets.iter().copied().find(|target| {
        let here = place < share(target);
        place = place.saturating_sub(share(target));
        here
    })
}

/// Options of the process that runs cases.
#[derive(Debug, Args)]
pub(crate) struct Cases {
    /// The stores.
    base: PathBuf,
    /// Directory for copies of the stores.
    work: PathBuf,
    #[arg(long)]
    from: u64,
    #[arg(long)]
    until: u64,
    #[arg(long)]
    seed: u64,
    #[arg(long, value_delimiter = ',')]
    only: Vec<Target>,
    #[arg(long)]
    mortise: PathBuf,
}

/// Runs the command. Returns whether all was well.
pub(crate) fn run(command: &BitFlips) -> Outcome<bool> {
    let work = work_dir()?;
    let bound = Bound::new(command.count, command.seconds);
    let begun = Instant::now();
    let (mut table, mut files) = (Table::default(), Table::default());
    let targets = command.targets()?;
    if targets.is_empty() {
        return Ok(true);
    }
    let mut wrong = 0;
    let mut slowest = (Duration::ZERO, 0);
    let mut case = command.case.unwrap_or(0);
    while command.case == Some(case) || (command.case.is_none() && bound.allows(case)) {
        let base =
            command.keep.as_deref().unwrap_or(work.path()).join(format!("base-{}-{}", command.seed, case / CASES));
        if !base.join("made").exists() {
            make(&base, command.seed ^ ((case / CASES) << 32))?;
            make_served(&base, &targets, &Mortise(command.mortise()?))?;
            fs::write(base.join("made"), "")?;
        }
        let round_ends = (case / CASES + 1) * CASES;
        let until = if command.case.is_some() { case + 1 } else { round_ends.min(command.count.max(case + 1)) };
        let until = if command.seconds.is_some() && command.case.is_none() { round_ends } else { until };
        while case < until && (command.case.is_some() || bound.allows(case)) {
            case = some_cases(
                command,
                &targets,
                &base,
                work.path(),
                case..until,
                bound,
                |case, target, verdict, detail, took| {
                    slowest = slowest.max((took, case));
                    table.add(target, verdict);
                    if !target.starts_with("check") {
                        let path =
                            detail.split(" of ").nth(2).and_then(|rest| rest.split(':').next()).unwrap_or_default();
                        let file = path.rsplit('/').next().unwrap_or(path);
                        // The name of a snapshot contains a number.
                        files.add(if file.starts_with("snap.") { "snap" } else { file }, verdict);
                    }
                    if matches!(verdict, "WRONG" | "reused" | "panics" | "hangs" | "unnamed") {
                        wrong += 1;
                        println!(
                            "{verdict}: --seed {} --case {case}{}: {target}: {detail}",
                            command.seed,
                            command.only()
                        );
                    } else if command.case.is_some() {
                        println!("{verdict}: {target}: {detail}");
                    }
                },
            )?;
        }
        if command.keep.is_none() {
            fs::remove_dir_all(&base)?;
        }
        if command.case.is_some() {
            break;
        }
    }
    println!("bit-flips, seed {}: {:.0} s", command.seed, begun.elapsed().as_secs_f64());
    println!("the slowest took {:.1} s: --case {}", slowest.0.as_secs_f64(), slowest.1);
    print!("{table}\n{files}");
    Ok(wrong == 0)
}

impl BitFlips {
    /// The option, for the command that repeats a case.
    fn only(&self) -> String {
        let names: Vec<_> = self.only.iter().map(|target| target.name()).collect();
        if names.is_empty() { String::new() } else { format!(" --only {}", names.join(",")) }
    }
}

/// Runs cases in a process until it is finished, or ends, or the time is over. Returns the next case.
fn some_cases(
    command: &BitFlips,
    targets: &[Target],
    base: &Path,
    work: &Path,
    cases: std::ops::Range<u64>,
    bound: Bound,
    mut tell: impl FnMut(u64, &str, &'static str, &str, Duration),
) -> Outcome<u64> {
    let targets: Vec<_> = targets.iter().map(|target| target.name()).collect();
    let mut process = Command::new(std::env::current_exe()?)
        .arg("cases")
        .args([base, work])
        .arg("--mortise")
        .arg(command.mortise()?)
        .args([format!("--from={}", cases.start), format!("--until={}", cases.end)])
        .args([format!("--seed={}", command.seed), format!("--only={}", targets.join(","))])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = lines_of(&mut process)?;
    let mut next = cases.start;
    let mut running: Option<(String, String)> = None;
    let mut begun = Instant::now();
    let patience = Duration::from_secs(command.patience);
    let (mut used, mut waits) = (Duration::ZERO, 0);
    let ended = loop {
        let line = match lines.recv_timeout(patience) {
            Ok(line) => line,
            // A busy machine only delays a case.
            Err(RecvTimeoutError::Timeout) if waits < 9 && cpu_of(process.id()).saturating_sub(used) < patience => {
                waits += 1;
                continue;
            }
            Err(RecvTimeoutError::Timeout) => break Some("hangs"),
            Err(RecvTimeoutError::Disconnected) => break None,
        };
        let mut parts = line.splitn(4, '\t');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("begin"), Some(target), Some(flip), _) => {
                running = Some((target.to_owned(), flip.to_owned()));
                (begun, used, waits) = (Instant::now(), cpu_of(process.id()), 0);
            }
            (Some("check"), Some(verdict), detail, _) => {
                let (target, flip) = running.clone().ok_or("a check without a case")?;
                let verdict = VERDICTS.into_iter().find(|known| *known == verdict).ok_or("no verdict")?;
                tell(
                    next,
                    &format!("check of {target}"),
                    verdict,
                    &format!("{flip}: {}", detail.unwrap_or_default()),
                    begun.elapsed(),
                );
            }
            (Some("end"), Some(verdict), detail, _) => {
                let (target, flip) = running.take().ok_or("a case ends that did not begin")?;
                let verdict = VERDICTS.into_iter().find(|known| *known == verdict).ok_or("no verdict")?;
                tell(next, &target, verdict, &format!("{flip}: {}", detail.unwrap_or_default()), begun.elapsed());
                next += 1;
                if !bound.allows(next) && command.case.is_none() {
                    break Some("time");
                }
            }
            _ => return Err(format!("a case printed {line:?}").into()),
        }
    };
    let threads =
        if ended == Some("hangs") { format!("; its threads: {}", threads_of(process.id())) } else { String::new() };
    if ended.is_some() {
        process.kill()?;
    }
    let status = process.wait()?;
    if let (Some((target, flip)), false) = (running, ended == Some("time")) {
        let verdict = if ended == Some("hangs") { "hangs" } else { "panics" };
        tell(next, &target, verdict, &format!("{flip}: the process ended with {status}{threads}"), begun.elapsed());
        next += 1;
    } else if ended.is_none() && !status.success() {
        return Err(format!("the process that runs cases ended with {status}").into());
    }
    Ok(next)
}

const VERDICTS: [&str; 11] =
    ["right", "blind", "problems", "harmless", "noticed", "refused", "unnamed", "named", "WRONG", "panics", "hangs"];

/// A target before the flip.
struct Base {
    target: Target,
    dir: PathBuf,
    used: Used,
    kind: BaseKind,
}

enum BaseKind {
    Store {
        saying: Saying,
        /// Place of the last record of the log, and the content without it.
        last: Option<(PathBuf, std::ops::Range<usize>, Saying)>,
    },
    Backup(Restored),
    /// The answers of the plugin.
    Code(String),
}

impl Base {
    fn new(cases: &Cases, mortise: &Mortise, target: Target) -> Outcome<Self> {
        let dir = cases.base.join(target.name());
        let copy = cases.work.join("copy");
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let says = |dir: &Path| -> Outcome<Saying> {
            files::copy(dir, &copy)?;
            let said = runtime.block_on(saying(&SledBackend::open(options(&copy))?))?;
            fs::remove_dir_all(&copy)?;
            Ok(said)
        };
        let mut used = Used::of(&dir)?;
        let kind = match target {
            Target::Closed => BaseKind::Store { saying: says(&dir)?, last: None },
            Target::Killed => {
                let before = cases.base.join("before");
                BaseKind::Store { saying: says(&dir)?, last: Some(last_record(&before, &dir, says(&before)?)?) }
            }
            Target::Backup => {
                files::copy(&dir, &copy)?;
                let restored = mortise.restore(&copy)??;
                fs::remove_dir_all(&copy)?;
                BaseKind::Backup(restored)
            }
            Target::Code => {
                used.retain(|file| file.starts_with("cache") || file.starts_with("plugins"));
                files::copy(&dir, &copy)?;
                let answers = mortise.answers(&copy)?;
                fs::remove_dir_all(&copy)?;
                BaseKind::Code(answers)
            }
        };
        Ok(Self { target, used, kind, dir })
    }

    /// Returns a bit of any file, and now and then one of the last record.
    fn flip(&self, random: &mut Rng) -> Option<Flip> {
        match &self.kind {
            BaseKind::Store { last: Some((file, bytes, _)), .. } if random.u8(..) < 16 => {
                Some(Flip::of(file, random.usize(bytes.clone()), random))
            }
            _ => self.used.any(random),
        }
    }

    fn judge(&self, mortise: &Mortise, flip: &Flip, dir: &Path) -> Outcome<(&'static str, String)> {
        match &self.kind {
            BaseKind::Store { saying, last } => judge(saying, last.as_ref(), flip, dir),
            BaseKind::Backup(restored) => mortise.judge_backup(dir, restored),
            BaseKind::Code(answers) => mortise.judge_code(dir, &flip.file, answers),
        }
    }
}

/// Finds the bytes of the log that the last write changed.
fn last_record(before: &Path, after: &Path, saying: Saying) -> Outcome<(PathBuf, std::ops::Range<usize>, Saying)> {
    for file in files::list(after)? {
        let (old, new) = (fs::read(before.join(&file))?, fs::read(after.join(&file))?);
        let old = old.into_iter().chain(std::iter::repeat(0));
        let changed: Vec<_> = old.zip(&new).enumerate().filter(|(_, (a, b))| a != *b).map(|(at, _)| at).collect();
        if let (Some(first), Some(last)) = (changed.first(), changed.last()) {
            return Ok((file, first / 512 * 512..last + 1, saying));
        }
    }
    Err("the last write changed nothing".into())
}

/// Runs cases, in the process that [`run`] starts.
pub(crate) fn run_cases(cases: &Cases) -> Outcome<()> {
    let mortise = Mortise(cases.mortise.clone());
    let mut bases: Vec<Base> = Vec::new();
    for case in cases.from..cases.until {
        let mut random = Rng::with_seed(cases.seed.wrapping_mul(1_000_003) ^ case);
        let target = target_of(&cases.only, case).ok_or("no target")?;
        if !bases.iter().any(|base| base.target == target) {
            bases.push(Base::new(cases, &mortise, target)?);
        }
        let base = bases.iter().find(|base| base.target == target).ok_or("no target")?;
        let flip = base.flip(&mut random).ok_or("nothing to flip")?;
        println!("begin\t{}\t{flip}", base.target.name());
        let dir = cases.work.join("case");
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        files::copy(&base.dir, &dir)?;
        flip.apply(&dir)?;
        // The check works on a copy of its own, so it comes first.
        let is_store = matches!(base.kind, BaseKind::Store { .. });
        let checked = is_store.then(|| catch_unwind(AssertUnwindSafe(|| SledBackend::check_offline(&dir, None))));
        let check_panic = checked.as_ref().is_some_and(Result::is_err).then(crate::last_panic);
        let judged = catch_unwind(AssertUnwindSafe(|| base.judge(&mortise, &flip, &dir)));
        let (verdict, detail) = match judged {
            Ok(judged) => judged?,
            Err(_) => ("panics", crate::last_panic()),
        };
        let one_line = |text: String| text.replace(['\n', '\t'], " ").chars().take(700).collect::<String>();
        let check = checked.map(|checked| match checked {
            Err(_) => ("panics", check_panic.unwrap_or_default()),
            Ok(Err(error)) => ("refused", error.to_string()),
            Ok(Ok(report)) => match report.problems.first() {
                Some(problem) => ("problems", problem.to_string()),
                None if matches!(verdict, "right" | "named") => ("right", String::new()),
                None => ("blind", String::new()),
            },
        });
        if let Some((check, fault)) = check {
            println!("check\t{check}\t{}", one_line(fault));
        }
        println!("end\t{verdict}\t{}", one_line(detail));
        fs::remove_dir_all(&dir)?;
    }
    Ok(())
}

fn judge(
    before: &Saying,
    last: Option<&(PathBuf, std::ops::Range<usize>, Saying)>,
    flip: &Flip,
    dir: &Path,
) -> Outcome<(&'static str, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let store = match SledBackend::open(options(dir)) {
        Ok(store) => store,
        Err(error) => {
            let text = error.to_string();
            let named = text.contains(&*dir.to_string_lossy());
            return Ok((if named { "refused" } else { "unnamed" }, text));
        }
    };
    runtime.block_on(async {
        let found = compare(&store, before).await;
        let problems = match store.check().await {
            Ok(problems) => problems.iter().map(ToString::to_string).collect(),
            Err(error) => vec![error.to_string()],
        };
        if let Some(why) = store.health().borrow().damaged.clone() {
            return Ok(("noticed", why));
        }
        if found.wrong.is_empty() {
            let judged = match (found.errors.first(), problems.first()) {
                (Some(error), _) => ("noticed", error.clone()),
                (None, Some(problem)) => ("harmless", problem.clone()),
                (None, None) => ("right", String::new()),
            };
            return Ok(match new_version(&store, before, true).await {
                Some(fault) if judged.0 == "right" => ("WRONG", fault),
                _ => judged,
            });
        }
        if let Some((file, bytes, without)) = last {
            let lost = compare(&store, without).await;
            if flip.file == *file && bytes.contains(&flip.byte) && lost.wrong.is_empty() && lost.errors.is_empty() {
                return Ok(match new_version(&store, before, false).await {
                    None => ("named", String::new()),
                    Some(fault) => ("reused", format!("the last record is lost, and {fault}")),
                });
            }
        }
        let what = found.wrong.iter().take(4).cloned().collect::<Vec<_>>().join("; ");
        let others = found.errors.first().map(|error| format!("; others: {error}")).unwrap_or_default();
        Ok((
            "WRONG",
            format!("{} answers, such as: {what}{others}; the check names {}", found.wrong.len(), problems.len()),
        ))
    })
}
