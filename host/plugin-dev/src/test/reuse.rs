//! `mortise plugin test --reuse`: looks for hooks whose answers depend on earlier calls.
//!
//! # Contract
//! Each case of a hook runs in a fresh instance, and then in instances that served other cases: all cases twice in the
//! order of the files, and twice in each of [`RANDOM_ORDERS`] random orders. A case fails if an answer or a fault differs
//! from those of the fresh instance. Authorize hooks have fresh instances in any case, as on a server.
//!
//! # Limits
//! Only cases with the same settings and grants share instances.

use std::{path::Path, sync::Arc};

use mortise_plugin_host::{CallerClass, LookupHost, Plugin, PluginSettings};

use super::{
    case::{Case, Invocation},
    codec::Codec,
    error::CaseError,
    hooks::HookCase,
    reconcile,
    stored::StoredResources,
};
use crate::{offline::Offline, server_settings::ServerSettings};

/// Random orders of all cases.
const RANDOM_ORDERS: u64 = 10;

/// A case of a hook that is called in reused instances.
pub(super) struct ReusedCase<'a> {
    pub(super) case: &'a Case,
    pub(super) invocation: &'a Invocation,
    /// The difference that was found, as text.
    pub(super) problem: Option<String>,
}

/// Counts of a check.
#[derive(Debug, Default)]
pub(super) struct ReuseCounts {
    /// Requests that ran where an instance may be reused.
    pub(super) requests: usize,
    /// Requests among them whose instance had served another request.
    pub(super) reused: usize,
}

/// A check of all cases of a component.
pub(super) struct ReuseCheck<'a> {
    offline: &'a Offline,
    codec: &'a Arc<Codec>,
    server: Option<&'a ServerSettings>,
    /// Number of the last class, which separates the orders from each other.
    classes: u64,
    counts: ReuseCounts,
}

/// Cases that share a loaded plugin, by their places in the list.
struct Group {
    settings: PluginSettings,
    plugin: Arc<Plugin>,
    cases: Vec<usize>,
}

impl<'a> ReuseCheck<'a> {
    /// Makes a check. `offline` must reuse the instances of all plugins.
    pub(super) fn new(offline: &'a Offline, codec: &'a Arc<Codec>, server: Option<&'a ServerSettings>) -> Self {
        Self { offline, codec, server, classes: 0, counts: ReuseCounts::default() }
    }

    /// Runs the cases, and notes the first difference of each. `dir` holds their files.
    ///
    /// # Errors
    /// A case that cannot be run, or a plugin that does not load.
    pub(super) async fn run(
        mut self,
        cases: &mut [ReusedCase<'_>],
        dir: &Path,
        seed: u64,
    ) -> Result<ReuseCounts, CaseError> {
        let mut random = fastrand::Rng::with_seed(seed);
        for group in self.groups(cases, dir).await? {
            let mut fresh = Vec::new();
            for place in &group.cases {
                let Some(case) = cases.get(*place) else { continue };
                fresh.push((*place, self.answers(&group.plugin, case, None).await?));
            }
            for number in 0..=RANDOM_ORDERS {
                let mut order: Vec<usize> = (0..fresh.len()).chain(0..fresh.len()).collect();
                if number > 0 {
                    random.shuffle(&mut order);
                }
                self.order(&group.plugin, &order, &fresh, cases).await?;
            }
        }
        Ok(self.counts)
    }

    /// Loads the plugin for each set of settings and grants.
    async fn groups(&self, cases: &[ReusedCase<'_>], dir: &Path) -> Result<Vec<Group>, CaseError> {
        let manifest = self.offline.describe().await?;
        let mut groups: Vec<Group> = Vec::new();
        for (place, case) in cases.iter().enumerate() {
            let settings = reconcile::settings(case.case, &manifest.name, &manifest.controllers, self.server, dir)?;
            match groups.iter_mut().find(|group| group.settings == settings) {
                Some(group) => group.cases.push(place),
                // A case may expect that the plugin refuses its settings; then it has no hook to call.
                None => match self.offline.load(&settings).await {
                    Ok(plugin) => groups.push(Group { settings, plugin, cases: vec![place] }),
                    Err(_) if case.case.expect.fault.is_some() => {}
                    Err(fault) => return Err(fault.into()),
                },
            }
        }
        Ok(groups)
    }

    /// Runs cases one after the other in one class, and compares each with its fresh answers.
    async fn order(
        &mut self,
        plugin: &Arc<Plugin>,
        order: &[usize],
        fresh: &[(usize, Vec<String>)],
        cases: &mut [ReusedCase<'_>],
    ) -> Result<(), CaseError> {
        let class = self.class();
        let mut before: Vec<usize> = Vec::new();
        for which in order {
            let Some((place, expected)) = fresh.get(*which) else { continue };
            let Some(case) = cases.get(*place) else { continue };
            let found = self.answers(plugin, case, Some(&class)).await?;
            if found != *expected && case.problem.is_none() {
                let culprit = self.culprit(plugin, &before, (*place, expected), cases).await?;
                let culprit = culprit.and_then(|place| cases.get(place)).map(|case| case.case.name.clone());
                let text = problem(expected, &found, culprit.as_deref(), before.len());
                cases.iter_mut().skip(*place).take(1).for_each(|case| case.problem = Some(text.clone()));
            }
            before.push(*place);
        }
        Ok(())
    }

    /// The one case after which the answers differ, if one alone has this effect.
    async fn culprit(
        &mut self,
        plugin: &Arc<Plugin>,
        before: &[usize],
        (place, expected): (usize, &Vec<String>),
        cases: &[ReusedCase<'_>],
    ) -> Result<Option<usize>, CaseError> {
        let mut tried = Vec::new();
        for earlier in before.iter().rev() {
            let (Some(first), Some(second), false) = (cases.get(*earlier), cases.get(place), tried.contains(earlier))
            else {
                continue;
            };
            tried.push(*earlier);
            let class = self.class();
            self.answers(plugin, first, Some(&class)).await?;
            if self.answers(plugin, second, Some(&class)).await? != *expected {
                return Ok(Some(*earlier));
            }
        }
        Ok(None)
    }

    /// A class that no instance has served yet.
    fn class(&mut self) -> CallerClass {
        self.classes += 1;
        CallerClass::new(self.classes, 0, None)
    }

    /// Runs a case; its answers and faults as text, in order.
    async fn answers(
        &mut self,
        plugin: &Arc<Plugin>,
        case: &ReusedCase<'_>,
        class: Option<&CallerClass>,
    ) -> Result<Vec<String>, CaseError> {
        let stored = StoredResources::of_case(self.codec, case.case)?;
        let lookups: Arc<dyn LookupHost> = stored.clone();
        self.offline.sandbox.set_lookup_host(&lookups);
        let mut hooks = HookCase::new(plugin, self.codec, case.case);
        hooks.class = class.cloned();
        hooks.run(case.invocation, stored.now()).await?;
        if class.is_some() {
            self.counts.requests += 1;
            self.counts.reused += usize::from(hooks.was_reused);
        }
        Ok(hooks.answers)
    }
}

fn problem(expected: &[String], found: &[String], culprit: Option<&str>, before: usize) -> String {
    let after = match culprit {
        Some(name) => format!("after the case {name:?} in the same instance"),
        None => format!("after {before} other calls in the same instance"),
    };
    let diff = mortise_text::diff::unified(&text(expected), &text(found), ("fresh", "reused"));
    format!(
        "it answers otherwise {after}, so its hooks are not pure: keep nothing of a call in variables that outlive it\n{}",
        diff.trim_end()
    )
}

fn text(answers: &[String]) -> String {
    answers.iter().map(|answer| format!("{}\n", answer.trim_end())).collect()
}
