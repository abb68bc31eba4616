//! A history: clients and watches at work, faults of the server meanwhile, then an end at which all deferred work is
//! done, and a mark that every watch must show.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use fastrand::Rng;
use mortise_proof::record::{
    Answer, DEFAULT_NAMESPACE, DRAFT, Entry, History, Key, Mode, NAMESPACE, NODE, OnDelete, Scope, State,
};
use mortise_test_process::Outcome;
use tokio::{process::Command, sync::watch, task::JoinSet};

use super::{
    access, backup,
    client::{Client, Extras},
    convert::{ALBUM, ARTIST},
    server::Server,
    watcher::{self, LAST_TEXT, Plan},
    workload,
    world::{Life, World},
};

/// Time limit for the types of a server that starts.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Pause between two looks at the progress.
const PAUSE: Duration = Duration::from_millis(5);
/// Pause between two looks at deferred deletions, which list everything.
const END_PAUSE: Duration = Duration::from_millis(50);
/// Attempts of a call at the end.
const ATTEMPTS: usize = 5;
/// Rows of the watched pages.
const PAGE_ROWS: usize = 10;

/// Options of a history.
#[derive(Debug, Clone)]
pub(crate) struct Plans {
    pub(crate) operations: usize,
    pub(crate) clients: usize,
    /// Names of each kind in each namespace.
    pub(crate) names: usize,
    pub(crate) kills: usize,
    /// Ends with SIGTERM.
    pub(crate) stops: usize,
    pub(crate) reloads: usize,
    pub(crate) backups: usize,
    /// Time limit of each wait at the end.
    pub(crate) patience: Duration,
    /// Command of the shell that disturbs servers of others.
    pub(crate) disturbance: Option<String>,
}

/// Work beside the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Kill,
    Stop,
    Reload,
    Backup,
    Command,
}

/// The servers under test, and the channel by which clients learn of their lives.
pub(crate) struct Subjects {
    /// The process of this run; `None` for servers that others run.
    pub(crate) server: Option<Server>,
    pub(crate) life: watch::Sender<Life>,
}

impl Subjects {
    pub(crate) async fn start(binary: &Path, env: &[(&str, &str)]) -> Outcome<Self> {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self::begin(Server::prepare(binary, tempfile::tempdir()?, env)?).await
    }

    /// Starts a prepared server.
    pub(crate) async fn begin(mut server: Server) -> Outcome<Self> {
        let (addrs, http) = (vec![server.restart().await?], Vec::from_iter(server.process()?.http));
        Ok(Self { server: Some(server), life: watch::Sender::new(Life { number: 1, addrs, http }) })
    }

    /// Kills the server, and starts it again.
    pub(crate) async fn kill(&mut self, world: &World) -> Outcome<()> {
        self.again(world, "killed").await
    }

    /// Ends the server with SIGTERM, and starts it again.
    pub(crate) async fn restart(&mut self, world: &World) -> Outcome<()> {
        self.again(world, "stopped").await
    }

    async fn again(&mut self, world: &World, end: &str) -> Outcome<()> {
        let Some(server) = &mut self.server else { return Ok(()) };
        let note = |fault: &str| world.add(Entry::Fault { time: world.now(), fault: fault.to_owned() });
        self.life.send_modify(|life| *life = Life { number: life.number, ..Life::default() });
        note(end);
        match server.take_process() {
            Some(process) if end == "stopped" => process.stop().await?,
            Some(process) => process.kill().await?,
            None => {}
        }
        let (addrs, http) = (vec![server.restart().await?], Vec::from_iter(server.process()?.http));
        note("started");
        self.life.send_modify(|life| *life = Life { number: life.number + 1, addrs, http });
        Ok(())
    }

    fn reload(&mut self, world: &World) -> Outcome<()> {
        let Some(server) = &mut self.server else { return Ok(()) };
        world.add(Entry::Fault { time: world.now(), fault: "reloaded".to_owned() });
        server.reload()
    }
}

/// Runs a history with kills, reloads and backups at random moments; returns its record, and the number of refusals of
/// each code.
pub(crate) async fn run(
    subjects: &mut Subjects,
    plans: &Plans,
    seed: u64,
    prefix: String,
) -> Outcome<(History, String)> {
    let mut random = Rng::with_seed(seed);
    let mut world = World::new(prefix, plans.operations, plans.names, subjects.life.subscribe());
    world.patience = plans.patience;
    let world = Arc::new(world);
    let mut works: Vec<(usize, Work)> = Vec::new();
    let counts = [
        (plans.kills, Work::Kill),
        (plans.stops, Work::Stop),
        (plans.reloads, Work::Reload),
        (plans.backups, Work::Backup),
        (usize::from(plans.disturbance.is_some()), Work::Command),
    ];
    for (count, work) in counts {
        works.extend((0..count).map(|_| (random.usize(..plans.operations.max(1)), work)));
    }
    // The last one first, since operations are counted down.
    works.sort_unstable();
    let disturb = async |subjects: &mut Subjects, world: &World| {
        while let Some((left, work)) = works.pop() {
            while world.left() > left {
                tokio::time::sleep(PAUSE).await;
            }
            match (work, &mut subjects.server) {
                (Work::Kill, _) => subjects.kill(world).await?,
                (Work::Stop, _) => subjects.restart(world).await?,
                (Work::Reload, _) => subjects.reload(world)?,
                (Work::Backup, Some(server)) => backup::take(server, world).await?,
                (Work::Command, _) => command(plans.disturbance.as_deref().unwrap_or_default(), world).await?,
                (Work::Backup, None) => {}
            }
        }
        Ok(())
    };
    run_disturbed(subjects, plans.clients, &world, random, seed, disturb).await
}

/// Runs a command of the shell, which may end and start servers.
async fn command(text: &str, world: &World) -> Outcome<()> {
    let note = |fault: String| world.add(Entry::Fault { time: world.now(), fault });
    note(format!("begin of {text}"));
    let status = Command::new("sh").args(["-c", text]).status().await?;
    note(format!("end of {text}"));
    if status.success() { Ok(()) } else { Err(format!("the command {text:?} failed: {status}").into()) }
}

/// Runs a history while a function disturbs the servers, and until the operations of the world are done.
pub(crate) async fn run_disturbed(
    subjects: &mut Subjects,
    count: usize,
    world: &Arc<World>,
    mut random: Rng,
    seed: u64,
    disturb: impl AsyncFnOnce(&mut Subjects, &World) -> Outcome<()>,
) -> Outcome<(History, String)> {
    let mut first = Client::new(world.clone(), 0).await;
    if !first.wait_for_type(ALBUM, START_LIMIT).await {
        return Err("the server does not serve demo.v2.Album; start it with the demo plugin".into());
    }
    // Other people's servers may lack the types with references; their histories go without these.
    let has_nodes = match subjects.server.is_some() {
        true => first.wait_for_type(NODE, START_LIMIT).await,
        false => first.serves(NODE).await,
    };
    if subjects.server.is_some() && !has_nodes {
        return Err("the server does not serve references.v1.Node; read its log".into());
    }
    world.has_nodes.store(has_nodes, Ordering::Relaxed);
    workload::prepare(&mut first).await;
    let mut watches = JoinSet::new();
    for (number, plan) in plans_of_watches(world).into_iter().enumerate() {
        let mark = match plan.mode {
            Mode::Single => watched(world),
            _ => mark(world, &plan.scope.kind),
        };
        watches.spawn(watcher::keep(world.clone(), number, plan, mark, random.fork()));
    }
    let mut clients = JoinSet::new();
    for number in 1..=count {
        let client = Client::new(world.clone(), number).await;
        clients.spawn(workload::run(client, random.fork()));
    }
    // Other people's servers have no tokens.
    if subjects.server.is_some() {
        access::spawn(&mut clients, world, &mut random);
    }
    disturb(subjects, world).await?;
    while let Some(ended) = clients.join_next().await {
        ended?;
    }
    let ending = end(&mut first, world).await.ok_or("the servers do not answer at the end of the history")?;
    world.finish.send_replace(true);
    while let Some(ended) = watches.join_next().await {
        ended?;
    }
    let refusals = super::world::lock(&world.refusals)
        .iter()
        .map(|(code, count)| format!("{code} {count}"))
        .collect::<BTreeSet<_>>();
    let has_several_servers = subjects.life.borrow().addrs.len() > 1;
    let history = History { seed, has_several_servers, entries: world.take_record(), ending: Some(ending) };
    Ok((history, refusals.into_iter().collect::<Vec<_>>().join(", ")))
}

/// Waits until all deferred deletions are done, writes the marks, and lists everything.
async fn end(client: &mut Client, world: &World) -> Option<Vec<State>> {
    let begun = Instant::now();
    loop {
        let states = everything(client, world).await?;
        let namespaces: BTreeSet<&str> =
            states.iter().filter(|state| state.key.kind == NAMESPACE).map(|state| state.key.name.as_str()).collect();
        let living: BTreeSet<(&Key, &str)> = states.iter().map(|state| (&state.key, state.uid.as_str())).collect();
        let is_left = |state: &State| {
            state.owner.as_ref().is_some_and(|owner| !living.contains(&(&owner.key, owner.uid.as_str())))
                || (state.key.kind != NAMESPACE
                    && state.key.namespace != DEFAULT_NAMESPACE
                    && !state.key.namespace.contains('/')
                    && !namespaces.contains(state.key.namespace.as_str()))
                || state.is_marked
        };
        let left: Vec<&State> = states.iter().filter(|state| is_left(state)).collect();
        if left.is_empty() || begun.elapsed() > world.patience {
            break;
        }
        for state in left.into_iter().filter(|state| state.is_marked && state.key.kind != NAMESPACE) {
            client.release(&state.key).await;
        }
        // A deletion that goes on later may wait for a blocking reference.
        let blocks = |state: &&State| state.references.iter().any(|reference| reference.on_delete == OnDelete::Block);
        for state in states.iter().filter(blocks) {
            client.write_node(&state.key, ("", Some(state.version)), Vec::new()).await;
        }
        tokio::time::sleep(END_PAUSE).await;
    }
    let kinds = world.kinds().into_iter().filter(|kind| *kind != NAMESPACE);
    // The marks come last, since watches end with them.
    for key in [watched(world)].into_iter().chain(kinds.map(|kind| mark(world, kind))) {
        for _ in 0..ATTEMPTS {
            let content = world.text() + LAST_TEXT;
            let answer = client.write(&key, ("", None), content, Extras::default(), false).await;
            if let Answer::Stored(_) = answer {
                break;
            }
        }
    }
    everything(client, world).await
}

/// The resource that comes last in a history, and first in lists.
fn mark(world: &World, kind: &str) -> Key {
    Key { kind: kind.to_owned(), namespace: DEFAULT_NAMESPACE.to_owned(), name: format!("{}0end", world.prefix) }
}

/// The resource that is watched by itself.
fn watched(world: &World) -> Key {
    Key { kind: ARTIST.to_owned(), namespace: DEFAULT_NAMESPACE.to_owned(), name: format!("{}k0", world.prefix) }
}

/// Lists all resources of the history; `None` without an answer.
async fn everything(client: &mut Client, world: &World) -> Option<Vec<State>> {
    let mut all = Vec::new();
    for kind in world.kinds() {
        let mut found = None;
        // The connection may be one to a killed server.
        for _ in 0..ATTEMPTS {
            if let Answer::Found(states) =
                client.list(Scope { kind: kind.to_owned(), namespace: None, name: None }, true).await
            {
                found = Some(states);
                break;
            }
        }
        all.extend(found?);
    }
    Some(all)
}

fn plans_of_watches(world: &World) -> Vec<Plan> {
    let all = |kind: &str| Scope { kind: kind.to_owned(), namespace: None, name: None };
    let of = |kind: &str, namespace: &str| Scope {
        kind: kind.to_owned(),
        namespace: Some(namespace.to_owned()),
        name: None,
    };
    let plan = |name: &str, mode, scope, is_restless| Plan {
        name: name.to_owned(),
        mode,
        scope,
        is_restless,
        reads: false,
        is_http: false,
    };
    let Key { kind, namespace, name } = watched(world);
    let single = Scope { kind, namespace: Some(namespace), name: Some(name) };
    let mut plans = vec![
        plan("single artist", Mode::Single, single, true),
        plan("list of artists", Mode::List, all(ARTIST), false),
        Plan { reads: true, ..plan("list of albums, read after each event", Mode::List, all(ALBUM), false) },
        plan("list of albums in default", Mode::List, of(ALBUM, DEFAULT_NAMESPACE), true),
        plan("changes of artists", Mode::Stateless, all(ARTIST), false),
        plan("changes of albums, resumed", Mode::Stateless, all(ALBUM), true),
        plan("changes of artists in default, resumed", Mode::Stateless, of(ARTIST, DEFAULT_NAMESPACE), true),
        plan("page of artists", Mode::Stateful(PAGE_ROWS), all(ARTIST), false),
        plan("page of albums in default", Mode::Stateful(PAGE_ROWS), of(ALBUM, DEFAULT_NAMESPACE), true),
    ];
    if world.kinds().contains(&NODE) {
        plans.push(plan("list of nodes", Mode::List, all(NODE), false));
        plans.push(plan("changes of drafts, resumed", Mode::Stateless, all(DRAFT), true));
    }
    if world.http().is_some() {
        let http = |plan| Plan { is_http: true, ..plan };
        plans.push(http(plan("events of artists, again", Mode::List, all(ARTIST), true)));
        plans.push(http(plan("events of albums that match, resumed", Mode::Stateless, all(ALBUM), true)));
    }
    plans
}
