//! `bit-flips`: one bit of a store's files is not as it was written.
//!
//! Stores are made by [writers](crate::writer): one that was closed, and one that was killed. Each case copies one, flips
//! a bit of it and opens it. What the store then says is compared with what it said before the flip:
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
//! `SledBackend::check_offline` looks at it before that; it may be *blind*, which is to find nothing where the opening does,
//! and may not panic.
//!
//! Cases run in a process of their own, which is started again after the case that ended it.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
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
    report::{Bound, Table, work_dir},
    resources::{State, id, name, resource},
    writer::{End, Life, content, options},
};

/// Cases with the same stores.
const CASES: u64 = 500;
/// A case that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
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
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Killed => "killed",
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
    /// A directory for the stores. Those that are there are used again, so that a case can be repeated.
    #[arg(long)]
    keep: Option<PathBuf>,
}

impl BitFlips {
    fn targets(&self) -> Vec<Target> {
        if self.only.is_empty() { Target::value_variants().to_vec() } else { self.only.clone() }
    }
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
}

/// Runs the command. Answers whether all was well.
pub(crate) fn run(command: &BitFlips) -> Outcome<bool> {
    let work = work_dir()?;
    let bound = Bound::new(command.count, command.seconds);
    let begun = Instant::now();
    let (mut table, mut files) = (Table::default(), Table::default());
    let mut wrong = 0;
    let mut case = command.case.unwrap_or(0);
    while command.case == Some(case) || (command.case.is_none() && bound.allows(case)) {
        let base =
            command.keep.as_deref().unwrap_or(work.path()).join(format!("base-{}-{}", command.seed, case / CASES));
        if !base.join("made").exists() {
            make(&base, command.seed ^ ((case / CASES) << 32))?;
        }
        let round_ends = (case / CASES + 1) * CASES;
        let until = if command.case.is_some() { case + 1 } else { round_ends.min(command.count.max(case + 1)) };
        let until = if command.seconds.is_some() && command.case.is_none() { round_ends } else { until };
        while case < until && (command.case.is_some() || bound.allows(case)) {
            case = some_cases(command, &base, work.path(), case..until, bound, |case, target, verdict, detail| {
                table.add(target, verdict);
                if !target.starts_with("check") {
                    let path = detail.split(" of ").nth(2).and_then(|rest| rest.split(':').next()).unwrap_or_default();
                    let file = path.rsplit('/').next().unwrap_or(path);
                    // The name of a snapshot has a number in it.
                    files.add(if file.starts_with("snap.") { "snap" } else { file }, verdict);
                }
                if matches!(verdict, "WRONG" | "reused" | "panics" | "hangs" | "unnamed") {
                    wrong += 1;
                    println!("{verdict}: --seed {} --case {case}{}: {target}: {detail}", command.seed, command.only());
                } else if command.case.is_some() {
                    println!("{verdict}: {target}: {detail}");
                }
            })?;
        }
        if command.keep.is_none() {
            fs::remove_dir_all(&base)?;
        }
        if command.case.is_some() {
            break;
        }
    }
    println!("bit-flips, seed {}: {:.0} s", command.seed, begun.elapsed().as_secs_f64());
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
    base: &Path,
    work: &Path,
    cases: std::ops::Range<u64>,
    bound: Bound,
    mut tell: impl FnMut(u64, &str, &'static str, &str),
) -> Outcome<u64> {
    let targets: Vec<_> = command.targets().iter().map(|target| target.name()).collect();
    let mut process = Command::new(std::env::current_exe()?)
        .arg("cases")
        .args([base, work])
        .args([format!("--from={}", cases.start), format!("--until={}", cases.end)])
        .args([format!("--seed={}", command.seed), format!("--only={}", targets.join(","))])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = lines_of(&mut process)?;
    let mut next = cases.start;
    let mut running: Option<(String, String)> = None;
    let ended = loop {
        let line = match lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => break Some("hangs"),
            Err(RecvTimeoutError::Disconnected) => break None,
        };
        let mut parts = line.splitn(4, '\t');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("begin"), Some(target), Some(flip), _) => running = Some((target.to_owned(), flip.to_owned())),
            (Some("check"), Some(verdict), detail, _) => {
                let (target, flip) = running.clone().ok_or("a check without a case")?;
                let verdict = VERDICTS.into_iter().find(|known| *known == verdict).ok_or("no verdict")?;
                tell(next, &format!("check of {target}"), verdict, &format!("{flip}: {}", detail.unwrap_or_default()));
            }
            (Some("end"), Some(verdict), detail, _) => {
                let (target, flip) = running.take().ok_or("a case ends that did not begin")?;
                let verdict = VERDICTS.into_iter().find(|known| *known == verdict).ok_or("no verdict")?;
                tell(next, &target, verdict, &format!("{flip}: {}", detail.unwrap_or_default()));
                next += 1;
                if !bound.allows(next) && command.case.is_none() {
                    break Some("time");
                }
            }
            _ => return Err(format!("a case says {line:?}").into()),
        }
    };
    if ended.is_some() {
        process.kill()?;
    }
    let status = process.wait()?;
    if let (Some((target, flip)), false) = (running, ended == Some("time")) {
        let verdict = if ended == Some("hangs") { "hangs" } else { "panics" };
        tell(next, &target, verdict, &format!("{flip}: the process ended with {status}"));
        next += 1;
    } else if ended.is_none() && !status.success() {
        return Err(format!("the process that runs cases ended with {status}").into());
    }
    Ok(next)
}

/// Lines that a process writes, on a channel.
fn lines_of(process: &mut Child) -> Outcome<Receiver<String>> {
    let pipe = process.stdout.take().ok_or("no pipe")?;
    let (send, lines) = channel();
    thread::Builder::new().name("lines".to_owned()).spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = String::new();
        // A line without an end was torn by a kill: what it announces did not happen.
        while pipe.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
            if send.send(line.trim_end().to_owned()).is_err() {
                return;
            }
            line.clear();
        }
    })?;
    Ok(lines)
}

/// Makes the stores, and looks whether they hold what was acknowledged.
fn make(base: &Path, seed: u64) -> Outcome<()> {
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
            return Err(format!("{} changed with the last write, too", file.display()).into());
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
    fs::write(base.join("made"), "")?;
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

/// A store before the flip, and what of it can be lost unnoticed.
struct Base {
    target: Target,
    dir: PathBuf,
    used: Used,
    saying: Saying,
    /// Where the last record of the log is, and what the store says without it.
    last: Option<(PathBuf, std::ops::Range<usize>, Saying)>,
}

impl Base {
    fn new(base: &Path, work: &Path, target: Target) -> Outcome<Self> {
        let dir = base.join(target.name());
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let says = |dir: &Path| -> Outcome<Saying> {
            let copy = work.join("copy");
            files::copy(dir, &copy)?;
            let said = runtime.block_on(saying(&SledBackend::open(options(&copy))?))?;
            fs::remove_dir_all(&copy)?;
            Ok(said)
        };
        let last = match target {
            Target::Closed => None,
            Target::Killed => Some(last_record(&base.join("before"), &dir, says(&base.join("before"))?)?),
        };
        Ok(Self { target, used: Used::of(&dir)?, saying: says(&dir)?, dir, last })
    }
}

impl Base {
    /// A bit of any file, and now and then one of the last record.
    fn flip(&self, random: &mut Rng) -> Option<Flip> {
        match &self.last {
            Some((file, bytes, _)) if random.u8(..) < 16 => Some(Flip::of(file, random.usize(bytes.clone()), random)),
            _ => self.used.any(random),
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
    let bases = cases.only.iter().map(|target| Base::new(&cases.base, &cases.work, *target));
    let bases = bases.collect::<Outcome<Vec<_>>>()?;
    for case in cases.from..cases.until {
        let mut random = Rng::with_seed(cases.seed.wrapping_mul(1_000_003) ^ case);
        let of = usize::try_from(case)? % bases.len();
        let base = bases.get(of).ok_or("no target")?;
        let flip = base.flip(&mut random).ok_or("nothing to flip")?;
        println!("begin\t{}\t{flip}", base.target.name());
        let dir = cases.work.join("case");
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        files::copy(&base.dir, &dir)?;
        flip.apply(&dir)?;
        // It works on a copy of its own, so it comes first.
        let checked = catch_unwind(AssertUnwindSafe(|| SledBackend::check_offline(&dir, None)));
        let check_panic = checked.is_err().then(crate::last_panic);
        let judged = catch_unwind(AssertUnwindSafe(|| judge(base, &flip, &dir)));
        let (verdict, detail) = match judged {
            Ok(judged) => judged?,
            Err(_) => ("panics", crate::last_panic()),
        };
        let one_line = |text: String| text.replace(['\n', '\t'], " ").chars().take(700).collect::<String>();
        let (check, fault) = match checked {
            Err(_) => ("panics", check_panic.unwrap_or_default()),
            Ok(Err(error)) => ("refused", error.to_string()),
            Ok(Ok(report)) => match report.problems.first() {
                Some(problem) => ("problems", problem.to_string()),
                None if matches!(verdict, "right" | "named") => ("right", String::new()),
                None => ("blind", String::new()),
            },
        };
        println!("check\t{check}\t{}", one_line(fault));
        println!("end\t{verdict}\t{}", one_line(detail));
        fs::remove_dir_all(&dir)?;
    }
    Ok(())
}

fn judge(base: &Base, flip: &Flip, dir: &Path) -> Outcome<(&'static str, String)> {
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
        let found = compare(&store, &base.saying).await;
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
            return Ok(match new_version(&store, base, true).await {
                Some(fault) if judged.0 == "right" => ("WRONG", fault),
                _ => judged,
            });
        }
        if let Some((file, bytes, before)) = &base.last {
            let lost = compare(&store, before).await;
            if flip.file == *file && bytes.contains(&flip.byte) && lost.wrong.is_empty() && lost.errors.is_empty() {
                return Ok(match new_version(&store, base, false).await {
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
async fn new_version(store: &SledBackend, base: &Base, must: bool) -> Option<String> {
    let state = State { number: 77, incarnation: 77, owner: None, version: 0 };
    match store.commit(Batch::of(Mutation::Put(Box::new(resource("after", &state))))).await {
        Ok(answers) => {
            let version = answers.into_iter().flatten().find_map(|stored| stored.version.parse::<u64>().ok());
            let given = base.saying.sequence;
            version
                .is_none_or(|version| version <= given)
                .then(|| format!("a write gets version {version:?} after {given}"))
        }
        Err(error) => must.then(|| format!("nothing is wrong, and a write fails: {error}")),
    }
}
