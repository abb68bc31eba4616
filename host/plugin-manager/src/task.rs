//! The manager's task: examines files and settings when they change, and starts background work for the changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::resume_unwind,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{Notify, mpsc};

use crate::{
    core::Core,
    event::Event,
    files::{folder, watch::Watcher},
    state::file::Observation,
};

/// Follows files, settings, health and background work.
pub(crate) struct ManagerTask {
    core: Arc<Core>,
    events: mpsc::Receiver<Event>,
    kick: Arc<Notify>,
    health: Arc<Notify>,
    watcher: Watcher,
    /// Fault of the last scan, which is in the log.
    scan_fault: Option<String>,
}

/// Least time between two looks that notifications cause: however often they come, the work is bounded.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

impl ManagerTask {
    pub(crate) async fn new(core: Arc<Core>, events: mpsc::Receiver<Event>) -> Self {
        let (kick, health) = {
            let state = core.lock().await;
            (state.kick.clone(), state.health.clone())
        };
        let watcher = Watcher::new(&core.options.plugin_dir, core.options.config.path.as_deref(), kick.clone());
        Self { core, events, kick, health, watcher, scan_fault: None }
    }

    /// Runs until it is dropped; panics after a panic of another task ([`Core`]).
    pub(crate) async fn run(mut self) {
        self.watcher.ensure();
        // Finds changes between the first look and the watch.
        let mut next_look = Instant::now();
        let mut rescan = Instant::now() + self.core.options.limits.rescan;
        let mut soonest = Instant::now();
        loop {
            let due = next_look.min(rescan);
            let kicked = async {
                tokio::time::sleep_until(soonest.into()).await;
                self.kick.notified().await;
            };
            let rescanning = tokio::select! {
                Some(event) = self.events.recv() => { self.handle(event).await; continue }
                () = self.health.notified() => { self.core.lock().await.reflect_health().await; continue }
                () = kicked => false,
                () = self.core.work.given_up() => resume_unwind(Box::new(
                    "a task that changes plugins panicked before; the log says where",
                )),
                () = tokio::time::sleep_until(due.into()) => Instant::now() >= rescan,
            };
            if rescanning {
                rescan = Instant::now() + self.core.options.limits.rescan;
                self.watcher.ensure();
                self.core.lock().await.collect_garbage().await;
            }
            let wait = self.look().await;
            soonest = Instant::now() + LOOK_PAUSE;
            next_look = wait.map_or(rescan, |wait| Instant::now() + wait);
        }
    }

    async fn handle(&self, event: Event) {
        let mut state = self.core.lock().await;
        match event {
            Event::Drained { plugin } => state.drained(&plugin).await,
            Event::Migrated(migrated) => state.migrated(migrated).await,
        }
    }

    /// Examines the folder and the configuration, and starts work for settled changes. Returns the time until the next
    /// look, if it is sooner than usual.
    async fn look(&mut self) -> Option<Duration> {
        let core = &self.core;
        let config = core.look_at_config().await;
        let mut state = core.lock().await;
        let found = match folder::scan(&core.options.plugin_dir) {
            Ok(found) => found,
            Err(e) => {
                let (dir, fault) = (core.options.plugin_dir.display(), e.to_string());
                if self.scan_fault.as_ref() != Some(&fault) {
                    tracing::error!("plugin_dir {dir}: {fault}; the plugins stay as they are until it can be read");
                    self.scan_fault = Some(fault);
                }
                return config;
            }
        };
        let left_out = (found.len() > folder::MAX_FILES).then(|| format!("more than {} files", folder::MAX_FILES));
        if self.scan_fault != left_out {
            let dir = core.options.plugin_dir.display();
            match &left_out {
                Some(what) => tracing::warn!("plugin_dir {dir}: {what}; those that sort last are ignored"),
                None => tracing::info!("plugin_dir {dir}: read again, all of it"),
            }
            self.scan_fault = left_out;
        }
        let found: BTreeMap<_, _> = found.into_iter().take(folder::MAX_FILES).collect();
        let mut names: BTreeSet<String> = found.keys().cloned().collect();
        names.extend(state.files.keys().cloned());
        let (mut next, mut gone) = (config, Vec::new());
        for name in names {
            let now = found.get(&name).copied();
            match state.file(&name).observe(now, core.options.limits.settle, core.options.limits.unfinished) {
                Observation::Nothing => {}
                Observation::NeverThere => drop(state.files.remove(&name)),
                Observation::Wait(wait) => next = Some(next.map_or(wait, |known| known.min(wait))),
                Observation::Changed(None, _) => gone.push(name),
                Observation::Changed(Some(stamp), since) => {
                    state.file(&name).load_begins();
                    core.spawn_file(name, stamp, since);
                }
            }
        }
        // A new file may be a removed one under a new name; its plugin must not be removed then. The plugin of a new
        // file is known after its load, which wakes this task.
        let unknown = state.files.values().any(|file| file.is_busy() && file.provides.is_none());
        if !unknown {
            for name in gone {
                state.file(&name).load_begins();
                core.spawn_gone(name);
            }
        }
        next
    }
}
