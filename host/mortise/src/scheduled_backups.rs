//! Scheduled backups: a task that takes a backup whenever one is due.
//!
//! # Contract
//! One run at a time, and of servers that share a store only the one that holds the lease [`LEASE`]. A run ends with a
//! whole, verified file or without one. After a failure the next due time is the next attempt. Whether a run was missed
//! while the server was down shows in the directory: the name of the newest file has its time.
//!
//! # Limits
//! A run has [`MAX_RUN_TIME`]. The date is that of `mortise-clock`, which never goes back within a run of the process.

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;
use mortise_api::begin_backup;
use mortise_backup::{
    BackupError, BackupFile, Retention, Schedule, Timetable, list_backups, remove_old_backups, write_backup,
};
use mortise_controller::Leases;
use mortise_plugin_manager::Manager;
use mortise_resource::{Error, data::server_status_response::ScheduledBackups as State};
use mortise_service::ResourceService;
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{sleep, timeout},
};

use crate::settings::{Config, SettingError, parts};

/// Name of the lease.
const LEASE: &str = "scheduled backups";

/// Longest run.
const MAX_RUN_TIME: Duration = Duration::from_secs(12 * 60 * 60);

/// Longest sleep before the date is looked at again, since the clock may have been set.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// A failed run.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Begin(#[from] Error),
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error("it took longer than {} hours, and was ended", MAX_RUN_TIME.as_secs() / 3_600)]
    Late,
    #[error("another server takes the backups now, and this one ended its own")]
    LeaseLost,
    #[error("it panicked ({0}); please report it with the log")]
    Panic(#[from] tokio::task::JoinError),
}

/// The parts of scheduled backups.
#[derive(Clone)]
pub(crate) struct ScheduledBackups {
    schedule: Schedule,
    dir: PathBuf,
    retention: Retention,
    include_config: bool,
    /// Interval for tests, in place of the schedule.
    interval: Option<Duration>,
    state: watch::Sender<Option<State>>,
}

impl ScheduledBackups {
    /// Makes the metrics, and the parts if there is a schedule. Returns its state, too.
    pub(crate) fn new(config: &Config) -> Result<(Option<Self>, watch::Receiver<Option<State>>), SettingError> {
        for outcome in ["done", "failed"] {
            metrics::counter!("mortise_backup_runs_total", "outcome" => outcome).increment(0);
        }
        metrics::gauge!("mortise_backup_last_success_timestamp_seconds").set(0.0);
        let schedule = config.backup.times()?;
        let dir = std::path::absolute(parts::backup_dir(config)).unwrap_or_else(|_| parts::backup_dir(config));
        let begin = schedule.as_ref().map(|_| State {
            schedule: config.backup.schedule.clone(),
            dir: dir.display().to_string(),
            ..State::default()
        });
        let (state, followed) = watch::channel(begin);
        let backups = schedule.map(|schedule| Self {
            schedule,
            dir,
            retention: config.backup.retention(),
            include_config: config.backup.include_config,
            interval: config.test_limits.backup_interval_ms.map(Into::into),
            state,
        });
        Ok((backups, followed))
    }

    /// Takes backups until the service stops.
    pub(crate) async fn follow(self, manager: Manager, service: ResourceService, leases: Arc<dyn Leases>) {
        let mut lease = leases.lease(LEASE);
        let stopped = service.stopped();
        let working = async {
            let newest = self.look().await.map(|file| file.taken_at);
            let mut timetable = Timetable::new(self.schedule.clone(), newest);
            // An error means that this server never gets the lease.
            while lease.wait_for(|is_held| *is_held).await.is_ok() {
                // Another server may have written into the same directory meanwhile.
                timetable.note_other_run(self.look().await.map(|file| file.taken_at));
                self.change(|state| state.is_here = true);
                self.work(&mut timetable, &manager, &service, &mut lease).await;
                self.change(|state| (state.is_here, state.next) = (false, None));
            }
        };
        tokio::select! {
            () = stopped => {}
            () = working => {}
        }
    }

    /// Takes backups for as long as this server holds the lease.
    async fn work(
        &self,
        timetable: &mut Timetable,
        manager: &Manager,
        service: &ResourceService,
        lease: &mut watch::Receiver<bool>,
    ) {
        while *lease.borrow() {
            let date = now();
            let due = timetable.due(date);
            let mut wait = Duration::try_from(due.duration_since(date)).unwrap_or_default();
            if let Some(interval) = self.interval.filter(|_| !wait.is_zero()) {
                wait = interval;
            }
            if !wait.is_zero() {
                self.change(|state| state.next = Some(std::time::SystemTime::from(due).into()));
                tokio::select! {
                    () = sleep(wait.min(CHECK_INTERVAL)) => {}
                    () = lost(lease) => return,
                }
                if self.interval.is_none() {
                    continue;
                }
            }
            let at = now();
            timetable.note_run(at);
            self.change(|state| (state.is_running, state.next) = (true, None));
            let ended = self.run(at, manager, service, lease).await;
            self.note(ended).await;
        }
    }

    /// Takes one backup in a task of its own, so that a panic is a failure of this run alone.
    async fn run(
        &self,
        at: Timestamp,
        manager: &Manager,
        service: &ResourceService,
        lease: &mut watch::Receiver<bool>,
    ) -> Result<BackupFile, RunError> {
        let (manager, service, dir) = (manager.clone(), service.clone(), self.dir.clone());
        let include_config = self.include_config;
        let mut running = AbortOnDrop(tokio::spawn(async move {
            let (snapshot, sources) = begin_backup(&manager, &service, include_config).await?;
            Ok::<_, RunError>(write_backup(&dir, at, snapshot, sources).await?)
        }));
        tokio::select! {
            ended = timeout(MAX_RUN_TIME, &mut running.0) => ended.map_err(|_| RunError::Late)??,
            () = lost(lease) => Err(RunError::LeaseLost),
        }
    }

    /// Notes the end of a run, and removes old files after a success.
    async fn note(&self, ended: Result<BackupFile, RunError>) {
        let outcome = if ended.is_ok() { "done" } else { "failed" };
        metrics::counter!("mortise_backup_runs_total", "outcome" => outcome).increment(1);
        let mut fault = String::new();
        match &ended {
            Ok(file) => {
                tracing::info!(
                    "scheduled backup: {} is written and verified, {} bytes",
                    file.path.display(),
                    file.bytes
                );
                let (dir, retention, now) = (self.dir.clone(), self.retention, now());
                match spawn_blocking(move || remove_old_backups(&dir, retention, now)).await {
                    Ok(Ok(removed)) => {
                        for path in removed {
                            tracing::info!("scheduled backup: {} is removed (backup.keep)", path.display());
                        }
                    }
                    Ok(Err(e)) => fault = format!("old files cannot be removed: {e}"),
                    Err(e) => fault = format!("old files cannot be removed: {e}"),
                }
            }
            Err(e) => fault = e.to_string(),
        }
        if !fault.is_empty() {
            tracing::error!("scheduled backup: {fault}; the next one is the next attempt");
        }
        let failed_at = (!fault.is_empty()).then(mortise_clock::timestamp);
        self.change(|state| {
            (state.is_running, state.fault, state.failed_at) = (false, fault, failed_at);
        });
        self.look().await;
    }

    /// Reads the directory, and shows its newest file in the state and in the metrics.
    async fn look(&self) -> Option<BackupFile> {
        let dir = self.dir.clone();
        let files = match spawn_blocking(move || list_backups(&dir)).await {
            Ok(Ok(files)) => files,
            Ok(Err(e)) => {
                tracing::error!("scheduled backups: the directory cannot be read: {e}");
                return None;
            }
            Err(_) => return None,
        };
        let newest = files.first().cloned();
        #[allow(clippy::cast_precision_loss, reason = "seconds of a few thousand years are exact")]
        let seconds = newest.as_ref().map_or(0.0, |file| file.taken_at.as_second() as f64);
        metrics::gauge!("mortise_backup_last_success_timestamp_seconds").set(seconds);
        self.change(|state| {
            state.files = files.len() as u64;
            state.last_file = newest.as_ref().map(|file| file.path.display().to_string()).unwrap_or_default();
            state.last_success = newest.as_ref().map(|file| std::time::SystemTime::from(file.taken_at).into());
            state.last_bytes = newest.as_ref().map_or(0, |file| file.bytes);
        });
        newest
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_modify(|state| {
            if let Some(state) = state {
                change(state);
            }
        });
    }
}

/// A task that ends with its handle.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The current date, in whole seconds, as names of files have it.
fn now() -> Timestamp {
    let now = Timestamp::try_from(mortise_clock::date()).unwrap_or(Timestamp::UNIX_EPOCH);
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Resolves once the lease is lost.
pub(crate) async fn lost(lease: &mut watch::Receiver<bool>) {
    if lease.wait_for(|is_held| !*is_held).await.is_err() {
        // The last value stays in force.
        std::future::pending::<()>().await;
    }
}
