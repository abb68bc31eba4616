//! `power-cuts`: cuts the power while a store is at work.
//!
//! A writer lives under `strace`, several times on the same store: it is closed or kills itself, and lives again; some
//! lives begin with a compaction, every other one as on a file system that cannot exchange two names. The
//! trace has its changes of files, and the acknowledged writes at each moment. The trace is replayed to a
//! [disk](crate::disk) up to a random point, or with `--compactions` up to each call of a compaction and of the opening
//! behind it. A possible content of the disk is put into a directory and opened: every
//! acknowledged write must be there, none by halves, and a new write must get a new version.
//!
//! After each life the replay is compared with the real files, so no change of them was missed.

mod opened;
mod written;

use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use clap::Args;
use fastrand::Rng;

use self::{opened::open, written::as_written};
use crate::{
    Outcome,
    disk::{Disk, Loss},
    ledger::Ledger,
    report::{Bound, Table, work_dir},
    trace::{self, CALLS, Call, Event},
    writer::{End, Life},
};

/// Lives in one trace.
const LIVES: u64 = 5;
/// Cases of one trace.
const CASES: u64 = 250;
/// Number of last events shown if the replay of a trace differs from the real files.
const LAST_CALLS: usize = 60;
/// Options of the command.
#[derive(Debug, Args)]
pub(crate) struct PowerCuts {
    /// Number of power cuts.
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// Seconds to run instead, with any number of cuts.
    #[arg(long)]
    seconds: Option<u64>,
    /// Seed of random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this case.
    #[arg(long)]
    case: Option<u64>,
    /// Every life begins with a compaction, and the power fails at each call of these, one after the other.
    #[arg(long)]
    compactions: bool,
    /// A directory for the traces. Existing ones are used again, so that a case can be repeated. The files of a wrong
    /// case are put beside them.
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// Content of a trace.
struct Trace {
    events: Vec<Event>,
    /// Places in the events where lives begin.
    lives: Vec<usize>,
    /// Number of lines that the trace had more often than the ledger.
    repeated: usize,
}

impl Trace {
    /// Returns the disk after all events.
    fn disk(&self) -> Result<Disk, String> {
        let mut disk = Disk::new();
        for (n, event) in self.events.iter().enumerate() {
            if self.lives.contains(&n) {
                disk.begin_life();
            }
            disk.hear(event)?;
        }
        Ok(disk)
    }

    /// Returns the places of the events of compactions, and of the openings behind them.
    fn compactions(&self) -> Vec<usize> {
        let silent = |n: &usize| !matches!(self.events.get(*n), None | Some(Event::Said(_)));
        self.lives.iter().skip(1).flat_map(|begin| (*begin..).take_while(silent)).collect()
    }

    /// Returns the numbers of compactions by an exchange, and by two renames.
    fn swaps(&self) -> [u64; 2] {
        let count = |is: &dyn Fn(&Call) -> bool| {
            let begun = self.events.iter().filter(|event| matches!(event, Event::Begin(_, call) if is(call)));
            begun.count() as u64
        };
        let is_former = |path: &[String]| path.last().is_some_and(|name| name == "store.former");
        let renames = count(&|call| matches!(call, Call::Rename { to, .. } if is_former(to)));
        [count(&|call| matches!(call, Call::Exchange { .. })) - renames, renames]
    }
}

/// Runs the command. Returns whether all was well.
pub(crate) fn run(command: &PowerCuts) -> Outcome<bool> {
    if let Err(why) = can_trace() {
        println!("SKIPPED: power-cuts: {why}");
        return Ok(true);
    }
    let work = work_dir()?;
    let bound = Bound::new(command.count, command.seconds);
    let begun = Instant::now();
    let mut totals = Totals::default();
    let mut round = command.case.unwrap_or(0) / CASES;
    while bound.allows(round * CASES) || command.case.is_some() {
        let trace = obtain(command, work.path(), round)?;
        totals.traces += 1;
        totals.events += trace.events.len() as u64;
        totals.repeated += trace.repeated;
        totals.swaps.iter_mut().zip(trace.swaps()).for_each(|(sum, more)| *sum += more);
        let cases = round * CASES..(round + 1) * CASES;
        let only = |case: &u64| command.case.is_none_or(|only| only == *case) && bound.allows(*case);
        replay(command, work.path(), &trace, cases.filter(only).collect(), bound, &mut totals)?;
        round += 1;
        if command.case.is_some() {
            break;
        }
    }
    println!("power-cuts, seed {}: {:.0} s", command.seed, begun.elapsed().as_secs_f64());
    print!("{}", totals.table);
    println!(
        "{} traces of {LIVES} lives with {} calls; {} acknowledged writes at the last cuts; in {} of the cuts the disk lost something, \
         in {} a write was in flight: {} of these writes are there, {} are not",
        totals.traces,
        totals.events / 2,
        totals.writes,
        totals.lossy,
        totals.in_flight,
        totals.present,
        totals.absent
    );
    if totals.repeated > 0 {
        println!("{} lines came twice in a trace, and once in the ledger", totals.repeated);
    }
    let [exchanges, renames] = totals.swaps;
    println!("{exchanges} compactions by an exchange, {renames} by two renames");
    if command.compactions && totals.table.total() > 0 && (exchanges == 0 || renames == 0) {
        return Err("a kind of compaction did not occur".into());
    }
    let wrong = totals.table.total() - totals.table.sum("right");
    if totals.table.total() >= 20 && (totals.lossy == 0 || (totals.in_flight == 0 && !command.compactions)) {
        return Err("no cut lost anything, or none came during a write".into());
    }
    Ok(wrong == 0)
}

/// Counts of a run.
#[derive(Default)]
struct Totals {
    table: Table,
    swaps: [u64; 2],
    traces: u64,
    repeated: usize,
    events: u64,
    writes: u64,
    lossy: u64,
    in_flight: u64,
    present: u64,
    absent: u64,
}

fn can_trace() -> Result<(), String> {
    let tried = Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "true"]).output();
    match tried {
        Err(error) if error.kind() == ErrorKind::NotFound => Err("strace is not installed".to_owned()),
        Err(error) => Err(format!("strace does not start: {error}")),
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("strace may not trace: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Returns the trace of a round: a kept one, or a new one.
fn obtain(command: &PowerCuts, work: &Path, round: u64) -> Outcome<Trace> {
    let dir = command.keep.as_deref().unwrap_or(work).join(format!("trace-{}-{round}", command.seed));
    let data = work.join("data");
    let mut trace = Trace { events: Vec::new(), lives: Vec::new(), repeated: 0 };
    let mut number = 0;
    let kept = dir.join("root").exists();
    let root = if kept { PathBuf::from(fs::read_to_string(dir.join("root"))?) } else { data.clone() };
    let ledger = root.with_file_name("ledger");
    if !kept {
        fs::create_dir_all(&dir)?;
        fs::create_dir_all(&data)?;
    }
    let mut random = Rng::with_seed(command.seed ^ (round << 32));
    let mut said = 0;
    for life in 0..LIVES {
        let file = dir.join(format!("life-{life}"));
        if !kept {
            live(&file, &data, &ledger, &mut random, life, command.compactions)?;
        }
        let text = String::from_utf8(fs::read(&file)?)?;
        let lines = dir.join(format!("lines-{life}"));
        if !kept {
            let all = fs::read_to_string(&ledger)?;
            fs::write(&lines, all.get(said..).unwrap_or_default())?;
            said = all.len();
        }
        let seen = trace::read(&text, &root, &ledger, &mut number)?;
        let seen_number = seen.len();
        let events = as_written(seen, &fs::read_to_string(&lines)?)?;
        trace.repeated += seen_number - events.len();
        let mut fault = None;
        let mut explanation = None;
        for mut events in trace::orders(&events) {
            let mut disk = trace.disk()?;
            disk.begin_life();
            events.iter().try_for_each(|event| disk.hear(event))?;
            // The real files show how far the interrupted calls came.
            let interrupted = if kept { interrupted_before(&dir, life)? } else { interrupted(&disk, &data)? };
            let cut_off: Vec<_> = interrupted.iter().map(|(call, bytes)| Event::Interrupted(*call, *bytes)).collect();
            cut_off.iter().try_for_each(|event| disk.hear(event))?;
            events.extend(cut_off);
            match if kept { Ok(()) } else { disk.compare(&data) } {
                Ok(()) => {
                    explanation = Some((events, interrupted));
                    break;
                }
                Err(error) => {
                    fault.get_or_insert_with(|| {
                        let last = last_calls(&events);
                        format!("the trace does not explain the files after life {life}: {error}; it ends with\n{last}")
                    });
                }
            }
        }
        let (events, interrupted) = explanation.ok_or_else(|| fault.unwrap_or_default())?;
        if !kept {
            let lines: Vec<_> = interrupted.iter().map(|(call, bytes)| format!("{call} {bytes}\n")).collect();
            fs::write(dir.join(format!("interrupted-{life}")), lines.concat())?;
        }
        trace.lives.push(trace.events.len());
        trace.events.extend(events);
    }
    if kept {
        return Ok(trace);
    }
    fs::remove_dir_all(&data)?;
    fs::remove_file(&ledger)?;
    match command.keep {
        Some(_) => fs::write(dir.join("root"), root.display().to_string())?,
        None => fs::remove_dir_all(&dir)?,
    }
    Ok(trace)
}

/// Formats the last calls of a trace, with their ends if they have any.
fn last_calls(events: &[Event]) -> String {
    let shown = |event: &Event| match event {
        Event::Begin(number, call) => format!("    {number}: {call}"),
        Event::End(number, result) => format!("    {number} = {result}"),
        Event::Failed(number) => format!("    {number} failed"),
        Event::Interrupted(number, bytes) => format!("    {number} was cut off after {bytes} bytes"),
        Event::Said(line) => format!("    {line}"),
    };
    let last: Vec<_> = events.iter().skip(events.len().saturating_sub(LAST_CALLS)).map(shown).collect();
    last.join("\n")
}

/// Lets a writer live under strace.
fn live(file: &Path, data: &Path, ledger: &Path, random: &mut Rng, life: u64, compactions: bool) -> Outcome<()> {
    let number = life;
    let end = if random.u8(..) < 140 { End::Kill } else { End::Close };
    let life = Life {
        dir: data.to_owned(),
        seed: random.u64(..),
        life,
        writers: random.usize(1..9),
        names: 12,
        writes: random.u64(20..250),
        end,
        compact: life > 0 && (random.u8(..3) == 0 || compactions),
        say: Some(ledger.to_owned()),
    };
    let without_exchange: &[_] = if number.is_multiple_of(2) { &["-e", "inject=renameat2:error=ENOSYS"] } else { &[] };
    let traced = Command::new("strace")
        .args(["-f", "-qq", "-xx", "-y", "--seccomp-bpf", "-s", "67108864", "-e"])
        .arg(format!("trace={CALLS}"))
        .args(["-e", "signal=none"])
        .args(without_exchange)
        .arg("-o")
        .arg(file)
        .arg(std::env::current_exe()?)
        .args(life.arguments())
        .stdin(Stdio::null())
        .output()?;
    let closed = traced.status.success();
    if closed != (end == End::Close) || !traced.stderr.is_empty() {
        return Err(
            format!("a writer ended with {}: {}", traced.status, String::from_utf8_lossy(&traced.stderr)).into()
        );
    }
    Ok(())
}

/// Compares calls that a kill cut off with the real files: returns the bytes of each write, and which other calls were
/// done.
fn interrupted(disk: &Disk, data: &Path) -> Outcome<Vec<(u64, usize)>> {
    let mut found = Vec::new();
    for (call, path, at, bytes) in disk.interrupted() {
        let real = fs::read(data.join(path.join("/")))?;
        let real = real.get(at..).unwrap_or_default();
        found.push((call, real.iter().zip(bytes).take_while(|(a, b)| a == b).count()));
    }
    found.extend(disk.interrupted_changes().filter(|(_, call)| is_made(call, data)).map(|(call, _)| (call, 0)));
    found.sort_unstable();
    Ok(found)
}

/// Whether the files are as after a call.
fn is_made(call: &Call, data: &Path) -> bool {
    let len = |path: &[String]| fs::metadata(data.join(path.join("/"))).ok().map(|found| found.len());
    match call {
        Call::Open { path, create, truncate, .. } => match len(path) {
            Some(len) => *create || *truncate && len == 0,
            None => false,
        },
        Call::Truncate { path, len: to } => len(path) == Some(*to),
        Call::Rename { from, to } => len(from).is_none() && len(to).is_some(),
        Call::Remove { path } => len(path).is_none(),
        Call::MakeDir { path } => len(path).is_some(),
        // Writers kill themselves while they write, long after a compaction.
        Call::Close { .. } | Call::Exchange { .. } | Call::Write { .. } | Call::Seek { .. } | Call::Sync { .. } => {
            false
        }
    }
}

fn interrupted_before(dir: &Path, life: u64) -> Outcome<Vec<(u64, usize)>> {
    let text = fs::read_to_string(dir.join(format!("interrupted-{life}")))?;
    let parse = |line: &str| -> Outcome<(u64, usize)> {
        let (call, bytes) = line.split_once(' ').ok_or("no line about a write")?;
        Ok((call.parse()?, bytes.parse()?))
    };
    text.lines().map(parse).collect()
}

/// Replays a trace, and cuts the power in each of the cases.
fn replay(
    command: &PowerCuts,
    work: &Path,
    trace: &Trace,
    cases: Vec<u64>,
    bound: Bound,
    totals: &mut Totals,
) -> Outcome<()> {
    let mut points: BTreeMap<usize, Vec<(u64, Rng)>> = BTreeMap::new();
    // Half of the cuts come during a write: at most other moments everything is synced.
    let writes: Vec<_> =
        trace.events.iter().enumerate().filter(|(_, event)| is_change(event)).map(|(n, _)| n).collect();
    let compactions = trace.compactions();
    for case in cases {
        let mut random = Rng::with_seed(command.seed.wrapping_mul(1_000_003) ^ case);
        let any = random.usize(..trace.events.len());
        let write = random.choice(&writes).copied().unwrap_or(any);
        let at = if random.bool() { any } else { write };
        let next = usize::try_from(case).unwrap_or_default().checked_rem(compactions.len());
        let at = match next.and_then(|next| compactions.get(next)) {
            Some(next) if command.compactions => *next,
            _ => at,
        };
        points.entry(at).or_default().push((case, random));
    }
    let (mut disk, mut ledger) = (Disk::new(), Ledger::default());
    for (n, event) in trace.events.iter().enumerate() {
        if trace.lives.contains(&n) {
            disk.begin_life();
        }
        disk.hear(event)?;
        if let Event::Said(line) = event {
            let behind = || last_calls(trace.events.get(..=n).unwrap_or_default());
            let heard =
                ledger.hear(line).map_err(|fault| format!("{fault}; the trace up to there ends with\n{}", behind()))?;
            if !heard.faults.is_empty() {
                // Faults without any loss of power.
                for fault in heard.faults {
                    println!("WRONG: a life begins: {fault}");
                }
                totals.table.add("lives", "wrong");
            }
        }
        for (case, mut random) in points.remove(&n).unwrap_or_default() {
            if !bound.allows(case) {
                continue;
            }
            let unit = if case % 2 == 0 { 512 } else { 4096 };
            let loss = match random.u8(..8) {
                0 => Loss::All,
                1 => Loss::None,
                2 => Loss::Some(252),
                _ => Loss::Some(random.u8(..)),
            };
            let image = disk.cut(unit, loss, &mut random);
            let dir = work.join(format!("case-{case}"));
            image.write(&dir)?;
            let again = random.u8(..4) == 0;
            let cut = open(&dir, &ledger, again);
            totals.table.add(&format!("units of {unit}"), cut.verdict);
            totals.lossy += u64::from(image.lost + image.lost_names > 0);
            totals.in_flight += u64::from(ledger.is_writing());
            totals.present += cut.present;
            totals.absent += cut.absent;
            if cut.verdict != "right" {
                println!(
                    "{}: --seed {}{} --case {case} (event {n} of {}, units of {unit}, {loss:?}, {} lost):",
                    cut.verdict.to_uppercase(),
                    command.seed,
                    if command.compactions { " --compactions" } else { "" },
                    trace.events.len(),
                    image.lost
                );
                cut.faults.iter().take(8).for_each(|fault| println!("    {fault}"));
                if let Some(keep) = &command.keep {
                    image.write(&keep.join(format!("case-{}-{case}", command.seed)))?;
                }
            }
            fs::remove_dir_all(&dir)?;
        }
    }
    totals.writes += ledger.writes;
    Ok(())
}

/// Whether the event begins a change that a loss of power may undo.
fn is_change(event: &Event) -> bool {
    matches!(
        event,
        Event::Begin(_, Call::Write { .. } | Call::Truncate { .. } | Call::Rename { .. } | Call::Exchange { .. })
    )
}
