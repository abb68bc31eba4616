//! `bit-flips`: one bit of a store's files is not as it was written.
//!
//! Stores are made by [writers](crate::writer): one that was closed, and one that was killed. Each case copies one,
//! flips a bit of it and opens it. What the store then says is compared with what it said before the flip:
//!
//! | verdict | |
//! |---|---|
//! | right | everything reads as it did, and a check finds nothing |
//! | harmless | everything reads as it did, and a check names something |
//! | noticed | the store says that it is damaged, or what reads otherwise is an error |
//! | refused | it is not opened, and the error names a file |
//! | named | the last record of the log of a killed store is lost, as docs/storage-format.md says |
//! | reused | as `named`, and a version of what is lost is given again |
//! | unnamed | it is not opened, and the error names no file |
//! | WRONG | something else reads than was acknowledged, and nothing says so |
//! | panics, hangs | as it says |
//!
//! `SledBackend::check_offline` looks at it before that; it may be *blind*, which is to find nothing where the opening
//! does, and may not panic.
//!
//! Sled looks a million times for a page that it has lost, and panics then: the slowest cases consist of such reads, each
//! some 0.15 s of the processor. One that hangs is shown with what its threads did.
//!
//! Of backups, `restore --dry-run` and `restore` have to refuse what they do not restore as it was. Of compiled code,
//! the server has to answer as before, and to compile anew what was flipped.
//!
//! Cases run in a process of their own, which is started again after the case that ended it.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::RecvTimeoutError,
    thread,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use fastrand::Rng;
use mortise_resource::pb;
use mortise_store::{Backend, Batch, Consistency, Mutation, RecordKind, SledBackend, StoreError};

use crate::{
    Outcome,
    files::{self, Flip, Used},
    ledger::{Content, Ledger},
    mortise::{Mortise, Restored},
    process::lines_of,
    report::{Bound, Table, work_dir},
    resources::{State, id, name, resource},
    writer::{End, Life, content, options},
};

/// Cases with the same stores.
const CASES: u64 = 500;
const WRITERS: usize = 4;
const NAMES: usize = 40;
/// Lives of a store before the flip.
const LIVES: u64 = 5;

/// What a bit is flipped of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// A store that was closed.
    Closed,
    /// One whose process was killed.
    Killed,
    /// A backup.
    Backup,
    /// Code that a server compiled and kept, its secret, and the plugin that it was compiled from.
    Code,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Killed => "killed",
            Self::Backup => "backup",
            Self::Code => "code",
        }
    }
}

/// Options of the command.
#[derive(Debug, Clone, Args)]
pub(crate) struct BitFlips {
    /// How many bits are flipped.
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// As many as fit into so many seconds, instead.
    #[arg(long)]
    seconds: Option<u64>,
    /// What random choices follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this case.
    #[arg(long)]
    case: Option<u64>,
    /// Only of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Target>,
    /// The `mortise` binary, for backups and compiled code; left out, the one beside this tool.
    #[arg(long)]
    mortise: Option<PathBuf>,
    /// A case that takes so many seconds hangs.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    patience: u64,
    /// A directory for the stores. Those that are there are used again, so that a case can be repeated.
    #[arg(long)]
    keep: Option<PathBuf>,
}

impl BitFlips {
    fn mortise(&self) -> Outcome<PathBuf> {
        let beside = std::env::current_exe()?.with_file_name("mortise");
        Ok(self.mortise.clone().unwrap_or(beside))
    }

    /// What there is to flip bits of.
    fn targets(&self) -> Outcome<Vec<Target>> {
        let wanted = if self.only.is_empty() { Target::value_variants() } else { &self.only };
        let mortise = self.mortise()?;
        let (there, skipped): (Vec<_>, Vec<_>) = wanted
            .iter()
            .copied()
            .partition(|target| mortise.exists() || matches!(target, Target::Closed | Target::Killed));
        for target in skipped {
            println!("SKIPPED: bit-flips of {}: {} is not there", target.name(), mortise.display());
        }
        Ok(there)
    }
}

/// The target of a case. Of several, a server's are rare, since each case starts one.
fn target_of(targets: &[Target], case: u64) -> Option<Target> {
    let share = |target: &Target| match target {
        Target::Closed | Target::Killed => 45,
        Target::Backup => 9,
        Target::Code => 1,
    };
    let mut place = case % targets.iter().map(share).sum::<u64>().max(1);
    // Neighbours are of different targets, so that few cases have some of each.
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
    /// Where copies of them go.
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

/// Runs the command. Answers whether all was well.
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
                        // The name of a snapshot has a number in it.
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
    /// The option, as it has to be given again.
    fn only(&self) -> String {
        let names: Vec<_> = self.only.iter().map(|target| target.name()).collect();
        if names.is_empty() { String::new() } else { format!(" --only {}", names.join(",")) }
    }
}

/// Runs cases in a process until it is through, or ends, or the time is over. Answers the next case.
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
    let ended = loop {
        let line = match lines.recv_timeout(Duration::from_secs(command.patience)) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => break Some("hangs"),
            Err(RecvTimeoutError::Disconnected) => break None,
        };
        let mut parts = line.splitn(4, '\t');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("begin"), Some(target), Some(flip), _) => {
                running = Some((target.to_owned(), flip.to_owned()));
                begun = Instant::now();
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
            _ => return Err(format!("a case says {line:?}").into()),
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

/// What each thread of a process does: its name, whether it runs (R) or waits (S, D), and the hundredths of a second that
/// it has run, without what the kernel did for it. One that spins is told from one that waits for ever.
fn threads_of(process: u32) -> String {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    let says = stats.filter_map(|stat| {
        // The name is in brackets, and may have blanks.
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        Some(format!("{name} {} {}", fields.next()?, fields.nth(10)?))
    });
    says.collect::<Vec<_>>().join(", ")
}

/// Makes the stores, and looks whether they hold what was acknowledged.
fn make(base: &Path, seed: u64) -> Outcome<()> {
    // The last write may have come during a checkpoint.
    for attempt in 0..10 {
        if base.exists() {
            fs::remove_dir_all(base)?;
        }
        if make_once(base, seed ^ (attempt << 60))? {
            return Ok(());
        }
    }
    Err("a store that does one more write does something else besides, again and again".into())
}

/// Answers whether the last write changed the log only.
fn make_once(base: &Path, seed: u64) -> Outcome<bool> {
    let data = base.join("data");
    fs::create_dir_all(&data)?;
    let mut ledger = Ledger::default();
    let mut random = Rng::with_seed(seed);
    for life in 0..=LIVES {
        let end = match life {
            LIVES => End::Wait,
            // The last of them is closed.
            life if life % 2 == 0 => End::Close,
            _ => End::Kill,
        };
        // Few in the last one: then they are in the log only.
        let writes = if life == LIVES { random.u64(4..300) } else { random.u64(200..400) };
        let life = Life { dir: data.clone(), seed, life, writers: WRITERS, names: NAMES, writes, end, say: None };
        let mut process = Command::new(std::env::current_exe()?)
            .args(life.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut pipe = process.stdin.take().ok_or("no pipe")?;
        for line in lines_of(&mut process)? {
            match &*line {
                "ready" => {
                    thread::park_timeout(Duration::from_millis(300));
                    files::copy(&data, &base.join("before"))?;
                    pipe.write_all(b"\n")?;
                }
                "idle" => process.kill()?,
                line => {
                    let heard = ledger.hear(line)?;
                    if let Some(fault) = heard.faults.first() {
                        return Err(format!("a life begins: {fault}").into());
                    }
                }
            }
        }
        process.wait()?;
        if life.life + 1 == LIVES {
            files::copy(&data, &base.join("closed"))?;
        }
    }
    fs::rename(&data, base.join("killed"))?;
    for file in files::list(&base.join("killed"))? {
        let differs = fs::read(base.join("killed").join(&file))? != fs::read(base.join("before").join(&file))?;
        if differs && !file.to_string_lossy().contains("wal.") {
            return Ok(false);
        }
    }
    let copy = base.join("copy");
    files::copy(&base.join("killed"), &copy)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let found = runtime.block_on(content(&SledBackend::open(options(&copy))?))?;
    fs::remove_dir_all(&copy)?;
    let faults = ledger.settle(&found).faults;
    if !faults.is_empty() {
        return Err(format!("a killed store: {faults:?}").into());
    }
    Ok(true)
}

/// Makes what takes a server.
fn make_served(base: &Path, targets: &[Target], mortise: &Mortise) -> Outcome<()> {
    if targets.contains(&Target::Backup) {
        mortise.make_backup(&base.join("closed"), &base.join("backup"))?;
    }
    if targets.contains(&Target::Code) {
        mortise.make_code(&base.join("code"))?;
    }
    Ok(())
}

/// Everything that a store says.
#[derive(Debug, Clone, PartialEq)]
struct Saying {
    content: Content,
    by_owner: BTreeMap<String, Vec<String>>,
    types: usize,
    /// By kind and sequence.
    records: BTreeMap<(RecordKind, u64), Vec<u8>>,
    sequence: u64,
}

/// What it says, and what it says about itself.
struct Found {
    /// Of each question, where it was answered: whether as before the flip.
    wrong: Vec<String>,
    errors: Vec<String>,
}

async fn saying(store: &SledBackend) -> Outcome<Saying> {
    let content = content(store).await?;
    let mut by_owner = BTreeMap::new();
    for (key, owner) in owners(&content) {
        by_owner.insert(key, children(&store.list_by_owner(&owner).await?));
    }
    let mut snapshot = store.snapshot().await?;
    let sequence = snapshot.head().sequence;
    let mut records = BTreeMap::new();
    while let Some(page) = snapshot.next().await? {
        records.extend(page.into_iter().map(|record| ((record.kind, record.sequence), record.payload)));
    }
    Ok(Saying { content, by_owner, types: store.types().await?.len(), records, sequence })
}

/// Ids of owners, by name and incarnation.
fn owners(content: &Content) -> BTreeMap<String, pb::Id> {
    let owners = content.values().filter_map(|state| state.owner.as_ref());
    owners.map(|(name, incarnation)| (format!("{name}@{incarnation}"), id(name, *incarnation))).collect()
}

fn children(found: &[pb::Resource]) -> Vec<String> {
    let mut children: Vec<_> = found.iter().map(|resource| format!("{resource:?}")).collect();
    children.sort();
    children
}

const VERDICTS: [&str; 11] =
    ["right", "blind", "problems", "harmless", "noticed", "refused", "unnamed", "named", "WRONG", "panics", "hangs"];

/// Asks everything, and compares each answer.
async fn compare(store: &SledBackend, before: &Saying) -> Found {
    let mut found = Found { wrong: Vec::new(), errors: Vec::new() };
    let answers = |error: StoreError| error.to_string();
    for name in (0..WRITERS).flat_map(|writer| (0..NAMES).map(move |slot| name(writer, slot))) {
        let state = before.content.get(&name);
        let any = pb::Id { uid: String::new(), ..id(&name, 0) };
        match (store.read(Consistency::Consistent, &any).await, state) {
            (Ok(read), Some(state)) if read == resource(&name, state) => {}
            (Err(StoreError::NotFound), None) => {}
            (Err(StoreError::NotFound), Some(_)) => found.wrong.push(format!("{name} is not there")),
            (Ok(_), _) => found.wrong.push(format!("{name} is another one")),
            (Err(error), _) => found.errors.push(answers(error)),
        }
    }
    match content(store).await {
        Ok(content) if content == before.content => {}
        Ok(_) => found.wrong.push("lists have something else".to_owned()),
        Err(error) => match error.downcast::<StoreError>() {
            Ok(error) => found.errors.push(answers(*error)),
            Err(error) => found.wrong.push(error.to_string()),
        },
    }
    for (key, owner) in owners(&before.content) {
        match store.list_by_owner(&owner).await {
            Ok(listed) if before.by_owner.get(&key) == Some(&children(&listed)) => {}
            Ok(_) => found.wrong.push(format!("{key} owns something else")),
            Err(error) => found.errors.push(answers(error)),
        }
    }
    match saying(store).await {
        Ok(now) => {
            for (key, payload) in &before.records {
                if now.records.get(key) != Some(payload) {
                    found.wrong.push(format!("of a snapshot, {key:?} is not there, or another one"));
                }
            }
            if now.records.keys().any(|key| !before.records.contains_key(key)) {
                found.wrong.push("a snapshot has more".to_owned());
            }
            if (now.types, now.sequence) != (before.types, before.sequence) {
                found.wrong.push(format!("{} types, commit {}", now.types, now.sequence));
            }
        }
        Err(error) => found.errors.push(error.to_string()),
    }
    found
}

/// What is there before the flip.
struct Base {
    target: Target,
    dir: PathBuf,
    used: Used,
    kind: BaseKind,
}

enum BaseKind {
    Store {
        saying: Saying,
        /// Where the last record of the log is, and what the store says without it.
        last: Option<(PathBuf, std::ops::Range<usize>, Saying)>,
    },
    Backup(Restored),
    /// With what the plugin answers.
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

    /// A bit of any file, and now and then one of the last record.
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

/// The bytes of the log that the last write changed.
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

/// Runs cases: the process that [`run`] starts.
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
        // It works on a copy of its own, so it comes first.
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

/// What is wrong with the version that a new write gets, if anything is.
async fn new_version(store: &SledBackend, before: &Saying, must: bool) -> Option<String> {
    let state = State { number: 77, incarnation: 77, owner: None, version: 0 };
    match store.commit(Batch::single(Mutation::Put(Box::new(resource("after", &state))))).await {
        Ok(answers) => {
            let version = answers.into_iter().flatten().find_map(|stored| stored.version().parse::<u64>().ok());
            let given = before.sequence;
            version
                .is_none_or(|version| version <= given)
                .then(|| format!("a write gets version {version:?} after {given}"))
        }
        Err(error) => must.then(|| format!("nothing is wrong, and a write fails: {error}")),
    }
}
