//! One run of a controller: from its initializer to the end of its last task. The order is Consul's:
//!
//! 1. the initializer, without a cache;
//! 2. a new cache, empty but for its indexes; `notify_start`;
//! 3. priming: one watch for each type fills the cache; no mapper and no reconcile runs, and the queues are shut;
//! 4. each resource of the managed type is queued once, each of a watched type for its mapper; then the queues open;
//! 5. the first error of a watch ends the run: nothing new begins, what runs has until the drain deadline.
//!
//! The queues outlive the run. A run that takes over from another also wakes for what that one knew and is gone now.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;

use crate::{
    cache::Cache,
    core::{Core, guard, within},
    definition::Definition,
    feed::{Feed, Priming, feed, pump},
    key::Slot,
    latch::Latch,
    mapping::{Mapping, With, mapping_loop},
    reconcile::reconcile_loop,
    reconciler::{Context, Shared},
    request::ReconcileError,
    source::{Source, SourceError},
    status::State,
};

/// What the tasks of a run share.
pub(crate) struct Run {
    pub(crate) core: Arc<Core>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) shared: Arc<Shared>,
}

/// Why a run ended by itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("initializer failed: {0}")]
    Initializer(#[source] ReconcileError),
    #[error("watch of {of} broke: {error}")]
    Watch { of: String, error: SourceError },
    #[error("a task of the run failed: {0}")]
    Task(tokio::task::JoinError),
}

/// Runs until something breaks, or until `ending` fires; then nothing of it is left. Leaves its cache in `known`, where
/// it finds that of the run before.
pub(crate) async fn run(
    core: &Arc<Core>,
    definition: &Arc<Definition>,
    source: &Arc<dyn Source>,
    known: &mut Option<Arc<Cache>>,
    ending: &Latch,
) -> Result<(), RunError> {
    let context = |cache| Context {
        run: Arc::new(Shared {
            name: core.name.clone(),
            managed: definition.managed.clone(),
            cache: Arc::new(cache),
            ending: ending.clone(),
            writes: core.writes.clone(),
        }),
        chain: 0,
    };
    core.board.set(State::Initializing);
    let early = context(Cache::default());
    let initialize = guard(async { definition.reconciler.initialize(&early).await });
    match within(ending, definition.drain, initialize).await {
        Some(result) => result.map_err(RunError::Initializer)?,
        None => return Ok(()),
    }
    if ending.has_fired() {
        return Ok(());
    }
    let context = context(Cache::new(definition.types()));
    notify(core, ending, definition.drain, async { definition.reconciler.notify_start(&context).await }).await;
    let run = Arc::new(Run {
        core: core.clone(),
        definition: definition.clone(),
        source: source.clone(),
        shared: context.run.clone(),
    });
    let mut tasks = JoinSet::new();
    let result = work(&run, &mut tasks, known, ending).await;
    core.board.set(State::Stopping);
    ending.fire();
    core.work.close();
    core.mappings.lock().values().for_each(|work| work.close());
    let drained = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(definition.drain, drained).await.is_err() {
        tracing::warn!(
            controller = &*core.name, drain = ?definition.drain,
            "what ran when the controller had to stop did not end in time; it is dropped"
        );
        tasks.shutdown().await;
    }
    notify(core, ending, definition.drain, async { definition.reconciler.notify_stop(&context).await }).await;
    result
}

/// From priming to the end; leaves tasks that are still running.
async fn work(
    run: &Arc<Run>,
    tasks: &mut JoinSet<Result<(), RunError>>,
    known: &mut Option<Arc<Cache>>,
    ending: &Latch,
) -> Result<(), RunError> {
    run.core.board.set(State::Priming);
    let (feeds, mappings) = plan(&run.core, &run.definition);
    let priming = Arc::new(Priming::of(feeds.len()));
    for each in feeds {
        let feed = feed(run.clone(), each, priming.clone(), known.clone());
        let ending = ending.clone();
        tasks.spawn(async move {
            tokio::select! {
                result = feed => result,
                () = ending.fired() => Ok(()),
            }
        });
    }
    tokio::select! {
        () = ending.fired() => return Ok(()),
        error = first_error(tasks) => return Err(error),
        () = priming.primed.zero.fired() => {}
    }
    priming.go.fire();
    tokio::select! {
        () = ending.fired() => return Ok(()),
        error = first_error(tasks) => return Err(error),
        () = priming.handed.zero.fired() => {}
    }
    *known = Some(run.shared.cache.clone());
    run.core.board.set(State::Running);
    run.core.work.open();
    for mapping in mappings {
        mapping.work.open();
        if let With::Source(source) = &mapping.with {
            let (source, work, ending) = (source.clone(), mapping.work.clone(), ending.clone());
            tasks.spawn(async move {
                tokio::select! {
                    () = async { pump(source.open(), work).await } => {}
                    () = ending.fired() => {}
                }
                Ok(())
            });
        }
        let run = run.clone();
        tasks.spawn(async move {
            mapping_loop(run, mapping).await;
            Ok(())
        });
    }
    for _ in 0..run.definition.parallel {
        let run = run.clone();
        tasks.spawn(async move {
            reconcile_loop(run).await;
            Ok(())
        });
    }
    tokio::select! {
        () = ending.fired() => Ok(()),
        error = first_error(tasks) => Err(error),
    }
}

/// One feed for each type, and the mappers.
fn plan(core: &Core, definition: &Definition) -> (Vec<Feed>, Vec<Arc<Mapping>>) {
    let mut feeds = vec![Feed { of: definition.managed.clone(), managed: true, mapping: None }];
    let mut mappings = Vec::new();
    for watched in &definition.watched {
        let mapping = Arc::new(Mapping::of_type(core, &watched.of, watched.mapper.clone()));
        mappings.push(mapping.clone());
        let slot = Slot::from(&watched.of);
        match feeds.iter_mut().find(|feed| slot.holds(&feed.of)) {
            Some(feed) => feed.mapping = Some(mapping),
            None => feeds.push(Feed { of: watched.of.clone(), managed: false, mapping: Some(mapping) }),
        }
    }
    mappings.extend(definition.custom.iter().map(|source| Arc::new(Mapping::of_source(core, source.clone()))));
    core.mappings.lock().retain(|place, _| mappings.iter().any(|mapping| mapping.place == *place));
    (feeds, mappings)
}

/// Waits for the first task that fails. Tasks that end well are none of its business.
async fn first_error(tasks: &mut JoinSet<Result<(), RunError>>) -> RunError {
    loop {
        match tasks.join_next().await {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => return error,
            Some(Err(error)) => return RunError::Task(error),
            None => std::future::pending().await,
        }
    }
}

/// Calls one of the notifications; its panic is told and nothing more.
async fn notify(core: &Core, ending: &Latch, drain: Duration, call: impl Future<Output = ()>) {
    let call = guard(async {
        call.await;
        Ok(())
    });
    if let Some(Err(error)) = within(ending, drain, call).await {
        tracing::error!(controller = &*core.name, "a notification failed: {error}");
    }
}
