//! A run of a controller, from its initializer to the end of its last task. The order is Consul's:
//!
//! 1. the initializer, without a cache;
//! 2. a new cache, empty but for its indexes; `notify_start`;
//! 3. priming: one watch for each type fills the cache; no mapper and no reconcile runs, and the queues are closed;
//! 4. each resource of the managed type is queued once, each of a watched type for its mapper; then the queues open;
//! 5. the first error of a watch ends the run: no new work begins, and work under way has until the drain deadline.
//!
//! The queues outlive the run. A run also queues the resources that the previous run knew and that no longer exist.

mod mapping;
mod priming;
mod reconcile;
mod state;
mod type_watch;
mod user_code;

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::{
    mapping::{Mapping, mapping_loop},
    priming::Priming,
    reconcile::reconcile_loop,
    state::{Run, RunError},
    type_watch::{WatchedType, watch_type},
    user_code::{catch_panic, until_drained},
};
use crate::{
    cache::Cache,
    controller::Controller,
    definition::Definition,
    key::GroupKind,
    reconciler::{Context, RunContext},
    source::Source,
    status::State,
};

/// Runs until a task fails, or until `ending` is cancelled; when it returns, all of its tasks have ended. `known` holds
/// the cache of the previous run, and that of this one as soon as it is complete.
///
/// # Errors
/// [`RunError`] when the run broke.
pub(crate) async fn run(
    controller: &Arc<Controller>,
    definition: &Arc<Definition>,
    source: &Arc<dyn Source>,
    known: &mut Option<Arc<Cache>>,
    ending: &CancellationToken,
) -> Result<(), RunError> {
    let context = |cache| Context {
        run: Arc::new(RunContext {
            name: controller.name.clone(),
            managed: definition.managed.clone(),
            cache: Arc::new(cache),
            ending: ending.clone(),
            writes: controller.writes.clone(),
        }),
        chain: 0,
    };
    controller.recorder.set(State::Initializing);
    let early = context(Cache::default());
    let initialize = catch_panic(async { definition.reconciler.initialize(&early).await });
    match until_drained(ending, definition.drain, initialize).await {
        Some(result) => result.map_err(RunError::Initializer)?,
        None => return Ok(()),
    }
    if ending.is_cancelled() {
        return Ok(());
    }
    let context = context(Cache::new(definition.types()));
    notify(controller, ending, definition.drain, async { definition.reconciler.notify_start(&context).await }).await;
    let run = Arc::new(Run {
        controller: controller.clone(),
        definition: definition.clone(),
        source: source.clone(),
        context: context.run.clone(),
    });
    let mut tasks = JoinSet::new();
    let result = work(&run, &mut tasks, known, ending).await;
    controller.recorder.set(State::Stopping);
    ending.cancel();
    controller.queue.close();
    controller.mappings.lock().values().for_each(|queue| queue.close());
    let drained = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(definition.drain, drained).await.is_err() {
        tracing::warn!(
            controller = &*controller.name, drain = ?definition.drain,
            "calls did not end within the drain deadline of the stopping controller; they are dropped"
        );
        tasks.shutdown().await;
    }
    notify(controller, ending, definition.drain, async { definition.reconciler.notify_stop(&context).await }).await;
    result
}

/// Runs from priming to the end; leaves tasks that are still running.
async fn work(
    run: &Arc<Run>,
    tasks: &mut JoinSet<Result<(), RunError>>,
    known: &mut Option<Arc<Cache>>,
    ending: &CancellationToken,
) -> Result<(), RunError> {
    run.controller.recorder.set(State::Priming);
    let (watches, mappings) = plan(&run.controller, &run.definition);
    let priming = Arc::new(Priming::of(watches.len()));
    for watched in watches {
        let watch = watch_type(run.clone(), watched, priming.clone(), known.clone());
        let ending = ending.clone();
        tasks.spawn(async move { ending.run_until_cancelled(watch).await.unwrap_or(Ok(())) });
    }
    tokio::select! {
        () = ending.cancelled() => return Ok(()),
        error = first_error(tasks) => return Err(error),
        () = priming.finish() => {}
    }
    *known = Some(run.context.cache.clone());
    run.controller.recorder.set(State::Running);
    run.controller.queue.open();
    for mapping in mappings {
        mapping.queue.open();
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
        () = ending.cancelled() => Ok(()),
        error = first_error(tasks) => Err(error),
    }
}

/// The types to watch, each once, and the mappings.
fn plan(controller: &Controller, definition: &Definition) -> (Vec<WatchedType>, Vec<Arc<Mapping>>) {
    let mut watches = vec![WatchedType { resource_type: definition.managed.clone(), managed: true, mapping: None }];
    let mut mappings = Vec::new();
    for watched in &definition.watched {
        let mapping = Arc::new(Mapping::new(controller, &watched.resource_type, watched.mapper.clone()));
        mappings.push(mapping.clone());
        let group_kind = GroupKind::from(&watched.resource_type);
        match watches.iter_mut().find(|watch| group_kind.matches(&watch.resource_type)) {
            Some(watch) => watch.mapping = Some(mapping),
            None => watches.push(WatchedType {
                resource_type: watched.resource_type.clone(),
                managed: false,
                mapping: Some(mapping),
            }),
        }
    }
    controller.mappings.lock().retain(|place, _| mappings.iter().any(|mapping| mapping.place == *place));
    (watches, mappings)
}

/// Waits for the first task that fails; waits for ever if none does.
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

/// Calls one of the notifications; its panic is logged and has no other effect.
async fn notify(controller: &Controller, ending: &CancellationToken, drain: Duration, call: impl Future<Output = ()>) {
    let call = catch_panic(async {
        call.await;
        Ok(())
    });
    if let Some(Err(error)) = until_drained(ending, drain, call).await {
        tracing::error!(controller = &*controller.name, "a notification failed: {error}");
    }
}
