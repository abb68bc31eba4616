//! The server in numbers.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use mortise_plugin_manager::controllers::ControllerManager;
use mortise_region::Replication;
use mortise_resource::{
    Error,
    data::{
        self, PeerRegion, PeerState, ServerStatusResponse,
        server_status_response::{ControllerState, PluginState, ScheduledBackups, Store, TypeCount},
    },
    pb,
    tenancy::WILDCARD,
    types,
};
use mortise_service::ResourceService;
use mortise_store::{Consistency, Health, Query, Stats, TypeKey};
use prost::Message as _;
use tokio::sync::watch;

use crate::configuration::Configuration;

use super::{
    metrics_page::MetricsPage,
    process::process,
    requests::{DURATION_BOUNDS, HttpCounts, RequestCounts},
};

/// Facts about the process.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// The release.
    pub version: &'static str,
    /// The command that started it: `serve` or `dev`.
    pub mode: &'static str,
    /// The data directory.
    pub data_dir: PathBuf,
    /// Whether the data directory is removed at the end.
    pub temporary: bool,
    /// The socket to which Terraform and OpenTofu attach.
    pub provider_socket: Option<PathBuf>,
    /// Addresses of the ports of gRPC and HTTP.
    pub addresses: (String, String),
    /// When it was started.
    pub started_at: SystemTime,
    /// Time of the start on the monotonic clock.
    pub started: Instant,
}

/// The sources of the figures.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) about: ServerInfo,
    pub(crate) service: ResourceService,
    pub(crate) controller_manager: ControllerManager,
    pub(crate) regions: Replication,
    pub(crate) metrics: MetricsPage,
    pub(crate) counts: RequestCounts,
    pub(crate) http_counts: HttpCounts,
    pub(crate) configuration: Arc<dyn Configuration>,
    pub(crate) backups: watch::Receiver<Option<ScheduledBackups>>,
}

impl Sources {
    /// Collects all figures.
    pub(crate) async fn status(&self) -> Result<ServerStatusResponse, Error> {
        let fault = |e: mortise_store::StoreError| Error::internal(format!("cannot read the store's figures: {e}"));
        let stats = self.service.backend().stats().await.map_err(fault)?;
        let plugins = self.plugins().await.map_err(fault)?;
        let controllers: Vec<_> = self.controller_manager.reports("").into_iter().map(controller).collect();
        let (watches, max_watches) = self.service.open_watches();
        let watched = self.service.watches_by_type().into_iter();
        let ServerInfo { version, mode, started_at, started, .. } = &self.about;
        Ok(ServerStatusResponse {
            version: (*version).to_owned(),
            mode: (*mode).to_owned(),
            started_at: Some((*started_at).into()),
            uptime: Some(duration(started.elapsed())),
            warnings: self.warnings(&stats.health, &plugins, &controllers, watches),
            store: Some(store(&self.about, stats)),
            watches: watches as u64,
            max_watches: max_watches as u64,
            plugins,
            controllers,
            requests: self.counts.report(),
            http_requests: self.http_counts.report(),
            duration_bounds: DURATION_BOUNDS.map(|micros| duration(Duration::from_micros(micros))).to_vec(),
            watches_by_type: watched
                .map(|((group, kind), count)| TypeCount { group, kind, count: count as u64 })
                .collect(),
            process: Some(process()),
            restart_needed: self.configuration.restart_needed(),
            scheduled_backups: self.backups.borrow().clone(),
            configuration_fault: self.configuration.fault().unwrap_or_default(),
            provider_socket: self
                .about
                .provider_socket
                .as_ref()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
        })
    }

    /// Conditions for an operator's attention, a sentence each.
    fn warnings(
        &self,
        store: &Health,
        plugins: &[PluginState],
        controllers: &[ControllerState],
        watches: usize,
    ) -> Vec<String> {
        let (_, max_watches) = self.service.open_watches();
        let mut warnings = Vec::new();
        warnings.extend(self.service.audit().map(|audit| audit.sink_faults()).into_iter().flatten());
        if let Some(audit) = self.service.audit()
            && let Some(why) = &*audit.fault().borrow()
        {
            let so =
                if audit.blocks_callers() { "changes are refused meanwhile" } else { "records are dropped meanwhile" };
            warnings.push(format!("the audit log cannot be written ({why}); {so}"));
        }
        warnings.extend(store_warnings(store));
        let faults = self.service.access().map(|access| access.policy_faults()).unwrap_or_default();
        warnings.extend(
            faults.into_iter().map(|fault| format!("{fault}; the policy grants nothing until it is written again")),
        );
        for PluginState { name, stage, health, message, .. } in plugins {
            if !["Serving", "Disabled"].contains(&stage.as_str()) {
                warnings.push(format!("plugin {name} does not serve the content of its source: {stage}: {message}"));
            } else if health.contains("Quarantined") {
                warnings
                    .push(format!("plugin {name} has hooks in quarantine; mortise plugin inspect {name} shows why"));
            }
        }
        for ControllerState { name, state, .. } in controllers {
            if ["Paused", "BackingOff"].contains(&state.as_str()) {
                warnings
                    .push(format!("controller {name} is not running: {state}; mortise controllers {name} shows why"));
            }
        }
        for PeerRegion { name, state, types, last_error, stopped, .. } in self.regions.report().peers {
            if state == i32::from(PeerState::Failed) {
                warnings
                    .push(format!("nothing comes from region {name}: {last_error}; mortise regions {name} shows more"));
            }
            if !stopped.is_empty() {
                warnings.push(format!("nothing is taken from region {name}: {stopped}; see mortise regions {name}"));
            }
            let held_back: usize = types.iter().map(|entry| entry.held_back.len()).sum();
            if held_back > 0 {
                warnings.push(format!(
                    "{held_back} resources of region {name} are missing or outdated here; mortise regions {name} lists them"
                ));
            }
        }
        warnings.extend(self.configuration_warnings());
        warnings.extend(self.backups.borrow().as_ref().filter(|backups| !backups.fault.is_empty()).map(|backups| {
            format!("the last scheduled backup failed, and the next one is the next attempt: {}", backups.fault)
        }));
        if watches * 10 >= max_watches * 9 {
            warnings.push(format!("{watches} of {max_watches} watches are open (limit service.max_watches)"));
        }
        warnings
    }

    /// Changes of the configuration that are not in force, a sentence each.
    fn configuration_warnings(&self) -> impl Iterator<Item = String> {
        let fault = self.configuration.fault().map(|fault| {
            format!("the configuration as it is now is rejected, and the one from before is in force: {fault}")
        });
        let waiting = self.configuration.restart_needed();
        let waiting = (!waiting.is_empty())
            .then(|| format!("restart mortise for these changed settings to take effect: {}", waiting.join(", ")));
        fault.into_iter().chain(waiting)
    }

    /// The state of plugins, from their resources and metrics.
    async fn plugins(&self) -> Result<Vec<PluginState>, mortise_store::StoreError> {
        let any = || WILDCARD.to_owned();
        let tenancy = pb::Tenancy { partition: any(), namespace: any() };
        let query = Query { type_key: TypeKey::from(&types::plugin().to_pb()), tenancy, name_prefix: String::new() };
        let stored = self.service.backend().list(Consistency::Eventual, &query).await?;
        let text = self.metrics.recorded();
        let (calls, faults, seconds) = (
            sum_by_plugin(&text, "mortise_plugin_calls_total"),
            sum_by_plugin(&text, "mortise_plugin_faults_total"),
            sum_by_plugin(&text, "mortise_plugin_call_seconds_sum"),
        );
        let number = |numbers: &BTreeMap<String, f64>, name: &str| numbers.get(name).copied().unwrap_or(0.0);
        Ok(stored
            .into_iter()
            .map(|resource| {
                let name = resource.id.as_ref().map(|id| id.name.clone()).unwrap_or_default();
                let bytes = resource.data.as_ref().map(|any| any.value.as_slice()).unwrap_or_default();
                let plugin = data::Plugin::decode(bytes).unwrap_or_default();
                let conditions: Vec<_> = resource.status.values().flat_map(|status| &status.conditions).collect();
                let find = |kind: &str| conditions.iter().find(|condition| condition.r#type == kind);
                let reason = |kind: &str| find(kind).map(|condition| condition.reason.clone()).unwrap_or_default();
                let wrong = |c: &&&pb::Condition| c.state() != pb::condition::State::True && !c.message.is_empty();
                let message: Vec<_> =
                    conditions.iter().filter(wrong).map(|condition| condition.message.as_str()).collect();
                PluginState {
                    version: plugin.version,
                    stage: reason("Loaded"),
                    health: reason("Healthy"),
                    message: message.join("; "),
                    calls: number(&calls, &name) as u64,
                    faults: number(&faults, &name) as u64,
                    time: Duration::try_from_secs_f64(number(&seconds, &name)).ok().map(duration),
                    name,
                }
            })
            .collect())
    }
}

fn store(about: &ServerInfo, stats: Stats) -> Store {
    let Stats { head, bytes_on_disk, snapshots, health } = stats;
    let count = |(key, count): (TypeKey, u64)| TypeCount { group: key.group, kind: key.kind, count };
    Store {
        data_dir: about.data_dir.display().to_string(),
        temporary: about.temporary,
        commit: head.sequence,
        events: head.events(),
        first_event: head.first_event,
        event_bytes: head.event_bytes,
        resources: head.resources.into_iter().map(count).collect(),
        bytes_on_disk,
        backups: snapshots as u64,
        refuses_writes: health.poisoned.unwrap_or_default(),
        damaged: health.damaged.unwrap_or_default(),
    }
}

/// Faults of the store for an operator, a sentence each.
fn store_warnings(Health { poisoned, full, damaged, away }: &Health) -> impl Iterator<Item = String> {
    let poisoned =
        poisoned.iter().map(|why| format!("the store refuses writes ({why}); repair this, then restart mortise"));
    let damaged = damaged.iter().map(|why| {
        format!(
            "the store is damaged: some acknowledged data is missing ({why}); mortise check lists it, and a \
             backup restores it"
        )
    });
    let full = full.iter().map(|why| format!("the store refuses writes that need disk space: {why}"));
    let away = away.iter().map(|why| {
        format!(
            "the shared store cannot be reached ({why}); writes and consistent reads fail, other reads may be stale"
        )
    });
    poisoned.chain(damaged).chain(full).chain(away)
}

/// Sums a metric of a Prometheus text by its label `plugin`, over all other labels.
fn sum_by_plugin(text: &str, metric: &str) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix(metric).and_then(|rest| rest.strip_prefix('{')) else { continue };
        let Some((labels, value)) = rest.rsplit_once("} ") else { continue };
        // Names of plugins need no escapes.
        let plugin = labels.split(',').find_map(|label| label.strip_prefix("plugin=\"")?.strip_suffix('"'));
        if let (Some(plugin), Ok(value)) = (plugin, value.trim().parse::<f64>()) {
            *sums.entry(plugin.to_owned()).or_insert(0.0) += value;
        }
    }
    sums
}

fn controller(report: data::ControllerReport) -> ControllerState {
    let data::ControllerReport { name, state, queued, reconciles, errors, .. } = report;
    ControllerState { name, state, queued, reconciles, errors }
}

fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_over_hooks() {
        let text = "# HELP calls x\ncalls{plugin=\"a\",hook=\"mutate\"} 2\ncalls{hook=\"list\",plugin=\"a\"} 3\n\
                    calls{plugin=\"b\"} 1\ncalls_more{plugin=\"a\"} 9\ncalls 7\n";
        assert_eq!(sum_by_plugin(text, "calls"), BTreeMap::from([("a".to_owned(), 5.0), ("b".to_owned(), 1.0)]));
    }

    #[test]
    fn a_store_that_is_damaged_full_or_refuses_writes_says_so() {
        let about = ServerInfo {
            version: "1",
            mode: "serve",
            data_dir: "data".into(),
            temporary: false,
            provider_socket: None,
            addresses: Default::default(),
            started_at: SystemTime::now(),
            started: Instant::now(),
        };
        let seen = |health: Health| {
            let warnings: Vec<_> = store_warnings(&health).collect();
            let store = store(&about, Stats { health, ..Stats::default() });
            (store.refuses_writes, store.damaged, warnings)
        };
        let why = || Some("a reason".to_owned());
        assert_eq!(seen(Health::default()), (String::new(), String::new(), vec![]));
        for (health, refuses, damaged, warning) in [
            (Health { poisoned: why(), ..Health::default() }, "a reason", "", "the store refuses writes (a reason); "),
            (Health { damaged: why(), ..Health::default() }, "", "a reason", "the store is damaged: "),
            (Health { full: why(), ..Health::default() }, "", "", "the store refuses writes that need disk space: "),
            (Health { away: why(), ..Health::default() }, "", "", "the shared store cannot be reached (a reason); "),
        ] {
            let (said_refuses, said_damaged, warnings) = seen(health);
            assert_eq!((&*said_refuses, &*said_damaged), (refuses, damaged), "{warning}");
            assert!(
                matches!(&*warnings, [warning_text] if warning_text.starts_with(warning) && warning_text.contains("a reason")),
                "{warnings:?}"
            );
        }
        let all = Health { poisoned: why(), damaged: why(), full: why(), away: why() };
        assert_eq!(store_warnings(&all).count(), 4);
    }
}
