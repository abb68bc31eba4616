//! The writer: a process of its own that opens a store, reports its content, and writes until it has written enough or
//! is killed. The lines are those of the [ledger](crate::ledger).

use std::{
    fs::{File, OpenOptions},
    io::{BufRead as _, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use clap::{Args, ValueEnum};
use fastrand::Rng;
use mortise_store::{
    Backend, Batch, Consistency, Expectation, ExpectedId, Lock, Mutation, Options, SledBackend, StoreError,
};
use rustix::process::{Signal, getpid, kill_process};

use crate::{
    Outcome,
    ledger::{Content, Edit},
    resources::{State, describe, id, name, queries, resource},
};

/// Options of a writer.
#[derive(Debug, Clone, Args)]
pub(crate) struct Life {
    /// The data directory.
    pub(crate) dir: PathBuf,
    /// Seed of random choices.
    #[arg(long)]
    pub(crate) seed: u64,
    /// Number of this life of the store; numbers of writes follow from it.
    #[arg(long)]
    pub(crate) life: u64,
    /// Number of concurrent writers.
    #[arg(long)]
    pub(crate) writers: usize,
    /// Resources of each writer.
    #[arg(long)]
    pub(crate) names: usize,
    /// Number of writes after which it ends.
    #[arg(long)]
    pub(crate) writes: u64,
    /// Way to end.
    #[arg(long)]
    pub(crate) end: End,
    /// Whether the store is compacted before it is opened.
    #[arg(long)]
    pub(crate) compact: bool,
    /// The file for lines, instead of standard output.
    #[arg(long)]
    pub(crate) say: Option<PathBuf>,
}

/// Way in which a writer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum End {
    /// Closes the store.
    Close,
    /// Kills itself, in the middle of its writes.
    Kill,
    /// Reports `ready`, waits for a line, does one more write, reports `idle`, and waits to be killed.
    Wait,
}

impl Life {
    /// Returns the arguments for these options.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let Self { dir, seed, life, writers, names, writes, end, compact, say } = self;
        let end = end.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let mut arguments = vec!["writer".to_owned(), dir.display().to_string(), format!("--seed={seed}")];
        arguments.extend([format!("--life={life}"), format!("--writers={writers}"), format!("--names={names}")]);
        arguments.extend([format!("--writes={writes}"), format!("--end={end}")]);
        arguments.extend(compact.then(|| "--compact".to_owned()));
        arguments.extend(say.as_ref().map(|path| format!("--say={}", path.display())));
        arguments
    }
}

/// Returns options with small bounds, so that trims of the history, checkpoints and reads from the file are frequent.
pub(crate) fn options(dir: &Path) -> Options {
    Options {
        history_events: 300,
        history_bytes: 1 << 20,
        cache_bytes: 256 << 10,
        reserve_bytes: 8 << 20,
        ..Options::new(dir)
    }
}

/// Waits until no thread of a store that was dropped a moment ago holds its lock, up to a limit.
pub(crate) fn wait_until_free(dir: &Path) {
    for _ in 0..500 {
        if !matches!(Lock::take(dir), Err(StoreError::Locked { .. })) {
            return;
        }
        thread::park_timeout(Duration::from_millis(10));
    }
}

/// Reads the whole content of the store.
///
/// # Errors
/// A list fails, or a resource was never written in this form.
pub(crate) async fn content(store: &SledBackend) -> Outcome<Content> {
    let mut content = Content::new();
    for query in queries() {
        for found in store.list(Consistency::Consistent, &query).await? {
            let (name, state) = describe(&found)?;
            content.insert(name, state);
        }
    }
    Ok(content)
}

/// Output for lines.
struct Speaker(Mutex<Option<File>>);

impl Speaker {
    /// Writes a line with one system call: a kill cannot tear a line that was acted upon.
    fn say(&self, line: &str) -> Outcome<()> {
        let line = format!("{line}\n");
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(file) => file.write_all(line.as_bytes())?,
            None => std::io::stdout().write_all(line.as_bytes())?,
        }
        Ok(())
    }
}

/// Runs a life.
///
/// # Errors
/// The store answers something forbidden.
pub(crate) fn run(life: &Life) -> Outcome<()> {
    let say = life.say.as_ref().map(|path| OpenOptions::new().create(true).append(true).open(path)).transpose()?;
    let speaker = Arc::new(Speaker(Mutex::new(say)));
    if life.compact {
        SledBackend::compact(&life.dir)?;
    }
    let store = Arc::new(SledBackend::open(options(&life.dir))?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(write(life, &store, &speaker))?;
    store.close();
    Ok(())
}

async fn write(life: &Life, store: &Arc<SledBackend>, speaker: &Arc<Speaker>) -> Outcome<()> {
    let mut content = content(store).await?;
    for (name, state) in &content {
        speaker.say(&format!("found {name}={}", state.to_word()))?;
    }
    speaker.say("opened")?;
    let (written, ids) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for writer in 0..life.writers {
        let names: Vec<_> = (0..life.names).map(|slot| name(writer, slot)).collect();
        let known = names.iter().filter_map(|name| content.remove_entry(name)).collect();
        tasks.push(Writer {
            store: store.clone(),
            speaker: speaker.clone(),
            ids: ids.clone(),
            random: Rng::with_seed(life.seed ^ (life.life << 20) ^ ((writer as u64) << 40)),
            number: life.life * 1_000_000_000 + writer as u64 * 10_000_000,
            names,
            known,
        });
    }
    let mut last = if life.end == End::Wait { tasks.pop() } else { None };
    let tasks: Vec<_> = tasks
        .into_iter()
        .map(|mut writer| {
            let (written, writes, end) = (written.clone(), life.writes, life.end);
            tokio::spawn(async move {
                while written.fetch_add(1, Ordering::Relaxed) < writes {
                    writer.step().await?;
                }
                if end == End::Kill {
                    kill_process(getpid(), Signal::KILL)?;
                }
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    if let Some(writer) = &mut last {
        let mut line = String::new();
        speaker.say("ready")?;
        std::io::stdin().lock().read_line(&mut line)?;
        writer.put(0).await?;
        speaker.say("idle")?;
        // Until the end of the pipe, at the latest.
        std::io::stdin().lock().read_line(&mut line)?;
    }
    Ok(())
}

/// A writer. Only it changes its resources, so it knows their states.
struct Writer {
    store: Arc<SledBackend>,
    speaker: Arc<Speaker>,
    /// Numbers of writes, for the lines.
    ids: Arc<AtomicU64>,
    random: Rng,
    number: u64,
    names: Vec<String>,
    known: Content,
}

impl Writer {
    fn any(&mut self) -> String {
        let slot = self.random.usize(..self.names.len());
        self.names.get(slot).cloned().unwrap_or_default()
    }

    /// Returns a new state for a name, with its present version.
    fn next(&mut self, name: &str) -> State {
        self.number += 1;
        let number = self.number;
        let mut state =
            self.known.get(name).cloned().unwrap_or(State { number, incarnation: number, owner: None, version: 0 });
        state.number = number;
        if self.random.u8(..) < 60 {
            let owner = self.any();
            state.owner = self.known.get(&owner).map(|found| (owner, found.incarnation));
        }
        state
    }

    fn put_edit(&mut self, name: &str) -> (Edit, Mutation) {
        let state = self.next(name);
        let mutation = Mutation::Put(Box::new(resource(name, &state)));
        (Edit::Put(name.to_owned(), State { version: 0, ..state }), mutation)
    }

    fn delete_edit(name: &str, state: &State) -> (Edit, Mutation) {
        let mutation = Mutation::Delete { id: id(name, state.incarnation), version: state.version.to_string() };
        (Edit::Delete(name.to_owned()), mutation)
    }

    async fn put(&mut self, slot: usize) -> Outcome<()> {
        let name = self.names.get(slot).cloned().unwrap_or_default();
        let edit = self.put_edit(&name);
        self.commit(Vec::new(), vec![edit]).await
    }

    async fn step(&mut self) -> Outcome<()> {
        let name = self.any();
        match (self.known.get(&name).cloned(), self.random.u8(..)) {
            (Some(state), 0..30) => {
                let edit = Self::delete_edit(&name, &state);
                self.commit(Vec::new(), vec![edit]).await
            }
            (Some(state), 30..40) => {
                self.number += 1;
                let state = State { number: self.number, ..state };
                let mutation = Mutation::Rewrite(Box::new(resource(&name, &state)));
                self.commit(Vec::new(), vec![(Edit::Rewrite(name, state), mutation)]).await
            }
            (Some(state), 40..50) => {
                // The second edit has a version other than the stored one.
                let first = self.any();
                let first = self.put_edit(&first);
                let wrong = State { version: state.version + 1_000_000, ..self.next(&name) };
                let mutation = Mutation::Put(Box::new(resource(&name, &wrong)));
                let edit = Edit::Put(name, State { version: 0, ..wrong });
                self.refused(vec![first, (edit, mutation)]).await
            }
            (_, 50..90) => self.batch().await,
            _ => {
                let edit = self.put_edit(&name);
                self.commit(Vec::new(), vec![edit]).await
            }
        }
    }

    /// Writes some of its resources at once, on the condition that another one exists.
    async fn batch(&mut self) -> Outcome<()> {
        let mut names: Vec<_> = (0..self.random.usize(2..6)).map(|_| self.any()).collect();
        names.sort();
        names.dedup();
        let mut edits = Vec::new();
        for name in &names {
            edits.push(match self.known.get(name).cloned() {
                Some(state) if self.random.u8(..) < 60 => Self::delete_edit(name, &state),
                _ => self.put_edit(name),
            });
        }
        let other = self.any();
        let expect = match self.known.get(&other) {
            Some(state) if !names.contains(&other) => {
                vec![Expectation {
                    id: ExpectedId::from(&id(&other, state.incarnation)),
                    generation: None,
                    is_unmarked: false,
                }]
            }
            _ => Vec::new(),
        };
        self.commit(expect, edits).await
    }

    fn say(&self, verb: &str, write: u64, words: &[String]) -> Outcome<()> {
        self.speaker.say(format!("{verb} {write} {}", words.join(",")).trim_end())
    }

    fn begin(&self, verb: &str, edits: &[(Edit, Mutation)]) -> Outcome<u64> {
        let write = self.ids.fetch_add(1, Ordering::Relaxed);
        let words: Vec<_> = edits.iter().map(|(edit, _)| edit.to_word()).collect();
        self.say(verb, write, &words)?;
        Ok(write)
    }

    async fn commit(&mut self, expect: Vec<Expectation>, edits: Vec<(Edit, Mutation)>) -> Outcome<()> {
        let write = self.begin("begin", &edits)?;
        let (edits, mutations): (Vec<_>, Vec<_>) = edits.into_iter().unzip();
        let answers = self.store.commit(Batch { expect, ..Batch::new(mutations) }).await?;
        let mut versions = Vec::new();
        for (edit, answer) in edits.into_iter().zip(answers) {
            match (edit, answer) {
                (Edit::Delete(name), None) => {
                    self.known.remove(&name);
                    versions.push("0".to_owned());
                }
                (Edit::Put(name, _) | Edit::Rewrite(name, _), Some(stored)) => {
                    let stored = stored.decode()?;
                    let (_, state) = describe(&stored)?;
                    self.known.insert(name, state);
                    versions.push(stored.version);
                }
                (edit, answer) => return Err(format!("{edit:?} was answered with {answer:?}").into()),
            }
        }
        self.say("done", write, &versions)
    }

    async fn refused(&mut self, edits: Vec<(Edit, Mutation)>) -> Outcome<()> {
        let write = self.begin("try", &edits)?;
        let mutations = edits.into_iter().map(|(_, mutation)| mutation).collect();
        match self.store.commit(Batch::new(mutations)).await {
            Err(StoreError::CasFailure { .. }) => self.say("refused", write, &[]),
            other => Err(format!("a wrong version was answered with {other:?}").into()),
        }
    }
}
