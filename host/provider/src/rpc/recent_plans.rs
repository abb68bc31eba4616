//! Plans of a moment ago. Core plans each change again right before it applies the change, on the same connection; so
//! the apply needs no dry run of its own. A plan of another connection, or an older one, is made again.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use mortise_resource::pb;
use prost::Message;

use crate::{mapping::Divergences, proto::tfplugin6::Diagnostic, value::Value};

/// Longest age of a plan that an apply uses.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Most plans that a connection remembers: core has as many changes under way as its `-parallelism`.
const MAX_PLANS: usize = 64;

/// Most bytes of the plans of a connection. An apply of a larger plan makes its own dry run.
const MAX_BYTES: usize = 16 << 20;

/// The change that a plan is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    /// The name of the type's resources.
    pub(super) name: String,
    pub(super) prior: Value,
    /// Whether the server does not have the resource yet, although core has a state.
    pub(super) pending: bool,
    pub(super) config: Value,
}

/// The parts of a plan that an apply needs.
#[derive(Debug, Clone)]
pub(super) struct RecentPlan {
    pub(super) state: Value,
    pub(super) divergences: Divergences,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) request: pb::Resource,
    pub(super) writes: bool,
}

/// The plans of a connection.
#[derive(Debug, Default)]
pub(super) struct RecentPlans(Mutex<VecDeque<Known>>);

/// A remembered plan.
#[derive(Debug)]
struct Known {
    origin: Origin,
    plan: RecentPlan,
    made: Instant,
    /// Its bytes in memory.
    bytes: usize,
}

impl Known {
    fn new(origin: Origin, plan: RecentPlan) -> Self {
        let diagnostics = plan.diagnostics.iter().map(Message::encoded_len).sum::<usize>();
        let values = [&origin.prior, &origin.config, &plan.state].map(Value::memory_bytes).iter().sum::<usize>();
        let bytes = diagnostics + values + plan.divergences.memory_bytes() + plan.request.encoded_len();
        Self { origin, plan, made: Instant::now(), bytes }
    }
}

impl RecentPlans {
    /// Remembers a plan; the oldest ones go if there are too many, or too many bytes.
    pub(super) fn add(&self, origin: Origin, plan: RecentPlan) {
        let added = Known::new(origin, plan);
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plans.retain(|known| known.origin != added.origin && known.made.elapsed() <= MAX_AGE);
        if added.bytes > MAX_BYTES {
            return;
        }
        let mut bytes = added.bytes + plans.iter().map(|known| known.bytes).sum::<usize>();
        while plans.len() >= MAX_PLANS || bytes > MAX_BYTES {
            let Some(oldest) = plans.pop_front() else { break };
            bytes -= oldest.bytes;
        }
        plans.push_back(added);
    }

    /// Forgets all plans.
    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Takes the plan of the same origin; an apply uses it once.
    pub(super) fn take(&self, origin: &Origin) -> Option<RecentPlan> {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_usable = |known: &Known| known.origin == *origin && known.made.elapsed() <= MAX_AGE;
        let position = plans.iter().position(is_usable)?;
        plans.remove(position).map(|known| known.plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(name: &str) -> Origin {
        let config = Value::String(name.to_owned());
        Origin { name: name.to_owned(), prior: Value::Null, pending: false, config }
    }

    fn plan(writes: bool) -> RecentPlan {
        let (state, request) = (Value::Null, pb::Resource::default());
        RecentPlan { state, divergences: Divergences::default(), diagnostics: Vec::new(), request, writes }
    }

    #[test]
    fn a_plan_is_used_once_and_for_its_own_change() {
        let plans = RecentPlans::default();
        plans.add(origin("a"), plan(true));
        plans.add(origin("a"), plan(false));
        assert!(plans.take(&Origin { pending: true, ..origin("a") }).is_none());
        assert!(plans.take(&origin("b")).is_none());
        assert!(!plans.take(&origin("a")).unwrap().writes, "the newest of its origin");
        assert!(plans.take(&origin("a")).is_none());
        for number in 0..=MAX_PLANS {
            plans.add(origin(&number.to_string()), plan(true));
        }
        assert!(plans.take(&origin("0")).is_none() && plans.take(&origin("1")).is_some());
    }

    #[test]
    fn the_bytes_of_plans_are_bounded() {
        let plans = RecentPlans::default();
        let large = |bytes: usize| RecentPlan { state: Value::String("x".repeat(bytes)), ..plan(true) };
        for name in ["a", "b", "c"] {
            plans.add(origin(name), large(MAX_BYTES / 3));
        }
        assert!(plans.take(&origin("a")).is_none(), "the oldest one went");
        assert!(plans.take(&origin("b")).is_some() && plans.take(&origin("c")).is_some());
        plans.add(origin("small"), plan(true));
        plans.add(origin("huge"), large(MAX_BYTES));
        assert!(plans.take(&origin("huge")).is_none(), "it has too many bytes alone");
        assert!(plans.take(&origin("small")).is_some(), "and displaces none");
        let text = || "x".repeat(MAX_BYTES);
        let request = pb::Resource { version: text(), ..pb::Resource::default() };
        let mut divergences = Divergences::default();
        divergences.record(&[], Value::String(text()));
        let diagnostics = vec![Diagnostic { detail: text(), ..Diagnostic::default() }];
        let [config, prior] = ["config", "prior"].map(origin);
        let (config, prior) =
            (Origin { config: Value::String(text()), ..config }, Origin { prior: Value::String(text()), ..prior });
        for (origin, large) in [
            (origin("request"), RecentPlan { request, ..plan(true) }),
            (origin("divergences"), RecentPlan { divergences, ..plan(true) }),
            (origin("diagnostics"), RecentPlan { diagnostics, ..plan(true) }),
            (config, plan(true)),
            (prior, plan(true)),
        ] {
            plans.add(origin.clone(), large);
            assert!(plans.take(&origin).is_none(), "{} counts", origin.name);
        }
    }

    #[test]
    fn an_old_plan_is_not_used() {
        let plans = RecentPlans::default();
        let earlier = Instant::now().checked_sub(MAX_AGE + Duration::from_secs(1)).unwrap();
        plans.0.lock().unwrap().push_back(Known { made: earlier, ..Known::new(origin("a"), plan(true)) });
        assert!(plans.take(&origin("a")).is_none());
    }
}
