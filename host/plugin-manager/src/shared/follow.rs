//! Brings this server's plugins to the plans of the others.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use mortise_resource::{Code, Error};

use super::{Plan, PlannedComponent, Shared, StoredPlan, Wanted, publish::Command};
use crate::{
    commands::{disable::disable, enable::enable, install::install, remove::remove},
    core::Core,
    files::folder,
    load::stage::{Failure, Stage},
    retry::retry_pause,
    state::{BUNDLED, ManagerState, plugin::ManagedPlugin},
};

/// Pause before another look at plans that wait for other servers, and after a fault of the shared store.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Most attempts to follow a plan that fails for a fault that may pass.
const MAX_ATTEMPTS: u32 = 6;

/// Outcome of a look at a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// This server has followed the plan, or has reported why not.
    Done,
    /// Another server has its turn.
    Waits,
    /// Another server could not follow the plan, so this one keeps what it serves.
    Stopped,
    /// A fault that may pass.
    Again,
}

/// Reason why this server cannot follow a plan.
enum Obstacle {
    /// It is in the plan, or in what this server has.
    Lasting(String),
    /// It may pass.
    Passing(String),
}

impl Core {
    /// Follows the plans until the manager stops, if several servers share the store.
    pub(crate) fn spawn_follower(self: &Arc<Self>) {
        if let Some(shared) = self.options.shared.clone() {
            let core = self.clone();
            self.work.spawn(async move {
                core.share_inherited().await;
                core.follow_plans(&shared).await;
            });
        }
    }

    /// Makes plans for the plugins that this server had before it shared its store.
    async fn share_inherited(&self) {
        let inherited = std::mem::take(&mut self.lock().await.inherited);
        for name in inherited {
            let is_installed =
                |managed: &ManagedPlugin| !managed.is_file_only() && managed.record.data.source != BUNDLED;
            if !self.lock().await.plugins.get(&name).is_some_and(is_installed) {
                continue;
            }
            if let Err(error) = self.publish(&name, Command::Component).await {
                tracing::error!(
                    plugin = name,
                    "{}: `mortise plugin install` brings it to the other servers",
                    error.message
                );
            }
        }
    }

    /// Looks at the plans after each of their changes. Plans of different plugins do not wait for each other.
    async fn follow_plans(self: &Arc<Self>, shared: &Shared) {
        let mut changes = shared.plans.changes();
        let (mut running, mut busy) = (FuturesUnordered::new(), BTreeSet::new());
        let mut attempts: BTreeMap<(String, i64), u32> = BTreeMap::new();
        let mut is_fault_logged = false;
        loop {
            changes.borrow_and_update();
            let mut pause = None;
            // Whether a later plan waits for the end of an earlier one.
            let mut is_behind = false;
            match shared.plans.list().await {
                Err(error) => {
                    if !std::mem::replace(&mut is_fault_logged, true) {
                        tracing::error!(%error, "the plans for plugins cannot be read; they are followed later");
                    }
                    pause = Some(LOOK_PAUSE);
                }
                Ok(plans) => {
                    is_fault_logged = false;
                    let followed = self.lock().await.followed.clone();
                    attempts.retain(|(name, revision), _| {
                        plans.iter().any(|stored| stored.plan.plugin == *name && stored.revision == *revision)
                    });
                    for stored in plans {
                        let name = stored.plan.plugin.clone();
                        let is_new = followed.get(&name).is_none_or(|revision| *revision < stored.revision);
                        is_behind |= is_new && busy.contains(&name);
                        if is_new && busy.insert(name.clone()) {
                            let key = (name, stored.revision);
                            let tried = attempts.get(&key).copied().unwrap_or_default();
                            // A task of its own: it goes on while this one waits for a lock that it has.
                            let (core, shared) = (self.clone(), shared.clone());
                            let following = async move { (key, core.follow_plan(&shared, stored, tried).await) };
                            running.push(self.work.spawn_awaited(following));
                        }
                    }
                }
            }
            // A plan that waits is looked at with the next change, or after a pause: a server may be gone.
            loop {
                let pausing = async {
                    match pause {
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    Some(ended) = running.next() => {
                        let (key, step) = match ended {
                            Ok(Some(ended)) => ended,
                            Ok(None) => return,
                            // The manager ends with a defect, as after that of any background task.
                            Err(ended) => match ended.try_into_panic() {
                                Ok(panic) => std::panic::resume_unwind(panic),
                                Err(_) => return,
                            },
                        };
                        busy.remove(&key.0);
                        match step {
                            Step::Done => drop(attempts.remove(&key)),
                            Step::Waits => pause = Some(LOOK_PAUSE),
                            Step::Stopped => {}
                            Step::Again => {
                                let tried = attempts.entry(key).or_default();
                                pause = Some(retry_pause(*tried));
                                *tried += 1;
                            }
                        }
                        // The plan may have changed meanwhile.
                        if is_behind || changes.has_changed().unwrap_or(false) {
                            break;
                        }
                    }
                    changed = changes.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    () = pausing => break,
                }
            }
        }
    }

    async fn follow_plan(&self, shared: &Shared, stored: StoredPlan, tried: u32) -> Step {
        let StoredPlan { plan, revision, .. } = &stored;
        let is_there = self.lock().await.is_as_planned(plan);
        if !is_there && plan.wanted == Wanted::Serve && plan.component.is_some() {
            if let Some((server, fault)) = other_fault(&stored, &shared.server) {
                let text = format!(
                    "server {server} could not load it ({fault}), so it is loaded on no further server; install another version"
                );
                self.lock().await.stands_still(plan, "RolloutStopped", text).await;
                return Step::Stopped;
            }
            if !is_turn(&stored, &shared.server, &shared.plans.servers()) {
                return Step::Waits;
            }
        }
        let followed = match is_there {
            true => Ok(()),
            false => self.carry_out(shared, plan).await,
        };
        let fault = match followed {
            Ok(()) => None,
            Err(Obstacle::Passing(text)) if tried < MAX_ATTEMPTS => {
                tracing::warn!(plugin = plan.plugin, "the plan of another server cannot be followed yet: {text}");
                return Step::Again;
            }
            Err(Obstacle::Lasting(text) | Obstacle::Passing(text)) => {
                tracing::error!(plugin = plan.plugin, "the plan of another server cannot be followed: {text}");
                Some(text)
            }
        };
        if let Err(error) = shared.plans.report(&plan.plugin, *revision, fault.as_deref()).await {
            tracing::warn!(plugin = plan.plugin, %error, "the outcome of a plan cannot be reported yet");
            return Step::Again;
        }
        self.lock().await.followed.insert(plan.plugin.clone(), *revision);
        Step::Done
    }

    async fn carry_out(&self, shared: &Shared, plan: &Plan) -> Result<(), Obstacle> {
        let name = &plan.plugin;
        tracing::info!(plugin = name, wanted = ?plan.wanted, "following the plan of another server");
        match plan.wanted {
            Wanted::Removed => remove(self, name).await.map(drop).map_err(Obstacle::from),
            Wanted::Disabled => disable(self, name).await.map(drop).map_err(Obstacle::from),
            Wanted::Serve => {
                let is_disabled = self.lock().await.plugins.get(name).is_some_and(ManagedPlugin::is_disabled);
                let Some(component) = &plan.component else {
                    return enable(self, name).await.map(drop).map_err(Obstacle::from);
                };
                // A disabled plugin takes no other component. If its file is gone, it is removed first.
                if is_disabled && enable(self, name).await.is_err() {
                    remove(self, name).await?;
                }
                if self.lock().await.is_as_planned(plan) {
                    return Ok(());
                }
                let content = self.planned_content(shared, component).await?;
                let Err(error) = install(self, name, content, component.signature.clone()).await else { return Ok(()) };
                let text = error.message.clone();
                if !self.lock().await.plugins.contains_key(name) {
                    self.lock().await.stands_still(plan, "NotFollowed", text).await;
                }
                Err(error.into())
            }
        }
    }

    /// Gets the content of a plan's component, which is the one that it names.
    async fn planned_content(&self, shared: &Shared, component: &PlannedComponent) -> Result<Vec<u8>, Obstacle> {
        let digest = &component.digest;
        let found = shared.plans.component(digest).await.map_err(|e| Obstacle::Passing(e.to_string()))?;
        // The next plan comes soon.
        let content = found.ok_or_else(|| Obstacle::Passing(format!("the shared store has no component {digest}")))?;
        match folder::digest(&content) == *digest {
            true => Ok(content),
            false => Err(Obstacle::Lasting(format!(
                "the component {digest} in the shared store has other content; install it again"
            ))),
        }
    }
}

impl From<Error> for Obstacle {
    fn from(error: Error) -> Self {
        match error.code {
            Code::Unavailable | Code::Internal | Code::Aborted => Self::Passing(error.message),
            _ => Self::Lasting(error.message),
        }
    }
}

impl ManagerState {
    /// Returns whether this server has what a plan says. A plugin that it does not know has no hooks.
    pub(crate) fn is_as_planned(&self, plan: &Plan) -> bool {
        let known = self.plugins.get(&plan.plugin).filter(|managed| !managed.is_file_only());
        match (plan.wanted, &plan.component) {
            (Wanted::Removed, _) => known.is_none_or(ManagedPlugin::is_removed),
            (Wanted::Disabled, _) => known.is_none_or(|known| known.is_disabled() || known.is_removed()),
            (Wanted::Serve, None) => known.is_none_or(|known| !known.is_disabled()),
            (Wanted::Serve, Some(component)) => {
                let registry = self.registry.load();
                registry.plugin(&plan.plugin).is_some_and(|plugin| plugin.digest() == component.digest)
            }
        }
    }

    /// Shows that this server does not follow a plan.
    async fn stands_still(&mut self, plan: &Plan, reason: &'static str, text: String) {
        let digest = plan.component.as_ref().map(|component| component.digest.clone());
        let managed = self.managed(&plan.plugin);
        if managed.last_failure.as_ref().is_some_and(|failure| failure.message == text) {
            return;
        }
        if managed.is_file_only() {
            managed.record.data.source = format!("{}.wasm", plan.plugin);
        }
        self.failed(&plan.plugin, Failure::new(Stage::Waiting, reason, text), digest).await;
    }
}

/// Returns another server that could not follow the plan, with its reason.
fn other_fault<'p>(stored: &'p StoredPlan, own: &str) -> Option<(&'p str, &'p str)> {
    let others = stored.reports.iter().filter(|report| report.server != own);
    others.filter_map(|report| Some((report.server.as_str(), report.fault.as_deref()?))).next()
}

/// Returns whether all running servers before this one have followed the plan.
fn is_turn(stored: &StoredPlan, own: &str, servers: &[String]) -> bool {
    let has_followed =
        |server: &String| stored.server == *server || stored.reports.iter().any(|report| report.server == *server);
    let mut before = servers.iter().filter(|server| server.as_str() < own);
    servers.iter().any(|server| server == own) && before.all(has_followed)
}

#[cfg(test)]
mod tests {
    use mortise_store::plans::Report;

    use super::*;

    fn stored(reports: &[(&str, Option<&str>)]) -> StoredPlan {
        let report = |(server, fault): &(&str, Option<&str>)| Report {
            server: (*server).into(),
            fault: fault.map(str::to_owned),
        };
        StoredPlan {
            plan: Plan { plugin: "p".into(), wanted: Wanted::Serve, component: None },
            revision: 1,
            server: "b".into(),
            reports: reports.iter().map(report).collect(),
        }
    }

    fn servers(names: &str) -> Vec<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn servers_follow_in_the_order_of_their_names() {
        let all = servers("a b c d");
        assert!(is_turn(&stored(&[]), "a", &all));
        assert!(!is_turn(&stored(&[]), "c", &all), "the server of the command needs no report, the first one does");
        assert!(is_turn(&stored(&[("a", None)]), "c", &all));
        assert!(!is_turn(&stored(&[("a", None)]), "d", &all));
        assert!(is_turn(&stored(&[]), "c", &servers("b c d")), "a server that is gone is not waited for");
        assert!(!is_turn(&stored(&[]), "c", &servers("b")), "a server without a lease waits");
    }

    #[test]
    fn a_fault_of_another_server_stops_the_roll_out() {
        assert_eq!(other_fault(&stored(&[("a", None), ("c", Some("why"))]), "d"), Some(("c", "why")));
        assert_eq!(other_fault(&stored(&[("c", Some("why"))]), "c"), None, "its own may pass");
    }
}
