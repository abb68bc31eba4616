//! One fresh instance of a plugin, for one request.
//!
//! The hooks of one request share the instance, its fuel and its deadline; then it is dropped, so that nothing of one
//! caller reaches the next. After a fault the instance is dead and is never entered again.
#![allow(clippy::ptr_arg, reason = "the generated bindings take bytes as vectors")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_resource::{
    Diagnostic, FieldPath, PathStep, Severity,
    authorizer::{Authorizer, denial},
    pb,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout_at,
};
use wasmtime::{Store, component::Instance};

use crate::{
    bindings,
    engine::{
        low_priority::{SHARE, could_have_worked, timed},
        store::{GRACE, WORKED, classify, excused, store},
    },
    error::{HookError, HookFault},
    hook::Hook,
    host::state::State,
    plugin::Plugin,
    sandbox::TickGuard,
};

/// Calls into one instance after which the next item of a list gets another one.
const RETIRE_CALLS: u32 = 64;

/// Bytes into one instance after which the next call gets another one: guests of the SDK free nothing.
const RETIRE_BYTES: usize = 512 << 10;

/// What `mutate` answered.
#[derive(Debug, Clone, PartialEq)]
pub enum MutateReply {
    /// Nothing to change.
    Unchanged,
    /// The encoded resource to go on with.
    Changed(Vec<u8>),
    /// The plugin refuses, for these reasons.
    Refused(Vec<Diagnostic>),
}

/// What `upgrade` answered.
#[derive(Debug, Clone, PartialEq)]
pub enum UpgradeReply {
    /// The data as it is now.
    Data(Vec<u8>),
    /// The plugin cannot upgrade it, for these reasons.
    Refused(Vec<Diagnostic>),
}

/// What an authorize hook answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Go ahead.
    Allow,
    /// No, in these words, which begin with `Permission denied`.
    Deny(Arc<str>),
    /// Ask again with the resource.
    NeedResource,
}

/// An instance, and what it holds while it lives.
pub(crate) struct Session {
    plugin: Arc<Plugin>,
    store: Store<State>,
    instance: Instance,
    dead: bool,
    /// Whether so much of the request's time went by before the instance was there that being late is no fault of it.
    starved: bool,
    /// Wall clock of the request, or of the item that has its own.
    within: Duration,
    /// What was left before the call that runs, or ran last.
    fuel: u64,
    calls: u32,
    bytes: usize,
    _ticking: TickGuard,
    _turn: OwnedSemaphorePermit,
    _slot: OwnedSemaphorePermit,
}

impl Session {
    /// A fresh instance; waits for a free one until the request's deadline.
    pub(crate) async fn open(plugin: &Arc<Plugin>, hook: &'static str) -> Result<Self, HookError> {
        let limits = &plugin.limits;
        let begun = Instant::now();
        let within = limits.deadline();
        let permit = async |of: &Arc<Semaphore>| {
            if let Ok(permit) = of.clone().try_acquire_owned() {
                return Some(permit);
            }
            let left = within.saturating_sub(begun.elapsed());
            tokio::time::timeout(left, of.clone().acquire_owned()).await.ok()?.ok()
        };
        let Some(turn) = permit(&plugin.turns).await else {
            let fault = HookFault::Busy { limit: limits.concurrency, setting: "sandbox.concurrency" };
            return Err(plugin.fault(hook, fault, None));
        };
        let Some(slot) = permit(&plugin.sandbox.slots).await else {
            let fault = HookFault::Busy { limit: plugin.sandbox.slot_count, setting: "sandbox.instances" };
            return Err(plugin.fault(hook, fault, None));
        };
        let ticking = plugin.sandbox.tick();
        let left = within.saturating_sub(begun.elapsed());
        let starved = left < within / 2;
        let name = plugin.manifest().name.clone();
        let mut store = store(&plugin.sandbox, name, plugin.settings.clone(), limits.clone(), left)
            .map_err(|e| plugin.fault(hook, HookFault::Host(format!("{e:#}")), Some(&e)))?;
        let instance = tokio::time::timeout(left + GRACE, plugin.pre.instantiate_async(&mut store)).await;
        let instance = match instance {
            Ok(Ok(instance)) => instance,
            Ok(Err(e)) => return Err(excused(plugin.fault(hook, classify(&e, store.data()), Some(&e)), starved)),
            Err(_) => return Err(excused(plugin.fault(hook, HookFault::late(limits), None), starved)),
        };
        plugin.metrics.begins();
        Ok(Self {
            plugin: plugin.clone(),
            store,
            instance,
            dead: false,
            starved,
            within: left,
            fuel: 0,
            calls: 0,
            bytes: 0,
            _ticking: ticking,
            _turn: turn,
            _slot: slot,
        })
    }

    /// Whether the next call should get an instance of its own.
    pub(crate) fn must_retire(&self) -> bool {
        self.dead || self.calls >= RETIRE_CALLS || self.bytes >= RETIRE_BYTES
    }

    /// Gives the next call a request's fuel and time of its own: for the items of a list.
    pub(crate) fn renew(&mut self) {
        let limits = self.plugin.limits.clone();
        // Cannot fail: the engine counts fuel.
        if self.store.set_fuel(limits.fuel).is_err() {
            self.dead = true;
        }
        let state = self.store.data_mut();
        state.deadline = Instant::now() + limits.deadline();
        state.host_calls = 0;
        self.starved = false;
        self.within = limits.deadline();
    }

    /// Fuel that the last call used, units.
    pub(crate) fn spent(&self) -> u64 {
        self.fuel.saturating_sub(self.store.get_fuel().unwrap_or(0))
    }

    /// Linear memory of the instance, bytes.
    pub(crate) fn memory(&self) -> usize {
        self.store.data().memory
    }

    /// Counts a call that is about to begin, and says until when it may run.
    fn enter(&mut self, hook: &'static str, bytes: usize) -> Result<tokio::time::Instant, HookError> {
        if self.dead {
            let fault = HookFault::Answer("its instance failed before in this request".into());
            return Err(self.plugin.fault(hook, fault, None));
        }
        self.calls += 1;
        self.bytes += bytes;
        let state = self.store.data_mut();
        state.growth_refused = None;
        state.hook = hook;
        self.fuel = self.store.get_fuel().unwrap_or(0);
        // Only a call that ends well leaves an instance that may be entered again; a dropped future does not.
        self.dead = true;
        Ok(tokio::time::Instant::from_std(self.store.data().deadline + GRACE))
    }

    /// Names what went wrong in a call that is over, and took so much processor time after its first tick.
    fn leave<R>(
        &mut self,
        hook: &'static str,
        (outcome, spent): (Result<wasmtime::Result<R>, tokio::time::error::Elapsed>, Duration),
    ) -> Result<R, HookError> {
        if spent >= SHARE && self.could_have_worked() {
            self.plugin
                .lower_priority(hook, || format!("a call took {spent:?} of processor time after its first tick"));
        }
        let starved = self.starved || spent < self.within / WORKED;
        match outcome {
            Ok(Ok(answer)) => {
                self.dead = false;
                Ok(answer)
            }
            Ok(Err(e)) => Err(excused(self.plugin.fault(hook, classify(&e, self.store.data()), Some(&e)), starved)),
            Err(_) => Err(excused(self.plugin.fault(hook, HookFault::late(&self.plugin.limits), None), starved)),
        }
    }

    fn could_have_worked(&self) -> bool {
        let state = self.store.data();
        could_have_worked(self.spent(), state.memory, state.host_calls)
    }

    fn missing(&self, hook: &'static str) -> HookError {
        self.plugin.fault(hook, HookFault::Answer("the component does not export it".into()), None)
    }

    fn bounded(&self, hook: &'static str, size: usize) -> Result<(), HookError> {
        let limit = self.plugin.limits.reply_bytes;
        if size > limit { Err(self.plugin.fault(hook, HookFault::Reply { limit }, None)) } else { Ok(()) }
    }

    pub(crate) async fn mutate(&mut self, resource: &Vec<u8>) -> Result<MutateReply, HookError> {
        const HOOK: &str = "mutate";
        let plugin = self.plugin.clone();
        let indices = plugin.exports.mutating.as_ref().ok_or_else(|| self.missing(HOOK))?;
        let until = self.enter(HOOK, resource.len())?;
        let call = async {
            let guest = indices.load(&mut self.store, &self.instance)?;
            guest.mortise_plugin_mutating().call_mutate(&mut self.store, resource).await
        };
        let outcome = timed(timeout_at(until, call)).await;
        match self.leave(HOOK, outcome)? {
            Ok(None) => Ok(MutateReply::Unchanged),
            Ok(Some(bytes)) => {
                self.bounded(HOOK, bytes.len())?;
                Ok(MutateReply::Changed(bytes))
            }
            Err(diagnostics) => Ok(MutateReply::Refused(diagnostics.into_iter().map(diagnostic).collect())),
        }
    }

    pub(crate) async fn validate(
        &mut self,
        resource: &Vec<u8>,
        prior: Option<&Vec<u8>>,
    ) -> Result<Vec<Diagnostic>, HookError> {
        const HOOK: &str = "validate";
        let plugin = self.plugin.clone();
        let indices = plugin.exports.validating.as_ref().ok_or_else(|| self.missing(HOOK))?;
        let size = resource.len() + prior.map_or(0, Vec::len);
        let until = self.enter(HOOK, size)?;
        let call = async {
            let guest = indices.load(&mut self.store, &self.instance)?;
            guest.mortise_plugin_validating().call_validate(&mut self.store, resource, prior).await
        };
        let outcome = timed(timeout_at(until, call)).await;
        Ok(self.leave(HOOK, outcome)?.into_iter().map(diagnostic).collect())
    }

    pub(crate) async fn upgrade(
        &mut self,
        of: &pb::Type,
        since: u32,
        data: &Vec<u8>,
    ) -> Result<UpgradeReply, HookError> {
        const HOOK: &str = "upgrade";
        let plugin = self.plugin.clone();
        let indices = plugin.exports.upgrading.as_ref().ok_or_else(|| self.missing(HOOK))?;
        let until = self.enter(HOOK, data.len())?;
        let call = async {
            let guest = indices.load(&mut self.store, &self.instance)?;
            guest.mortise_plugin_upgrading().call_upgrade(&mut self.store, &type_name(of), since, data).await
        };
        let outcome = timed(timeout_at(until, call)).await;
        match self.leave(HOOK, outcome)? {
            Ok(bytes) => {
                self.bounded(HOOK, bytes.len())?;
                Ok(UpgradeReply::Data(bytes))
            }
            Err(diagnostics) => Ok(UpgradeReply::Refused(diagnostics.into_iter().map(diagnostic).collect())),
        }
    }

    /// One of the three authorize hooks, on behalf of `caller`.
    pub(crate) async fn authorize(
        &mut self,
        caller: Arc<dyn Authorizer>,
        question: Question,
    ) -> Result<Decision, HookError> {
        let hook = question.hook().name();
        let plugin = self.plugin.clone();
        let indices = plugin.exports.authorizing.as_ref().ok_or_else(|| self.missing(hook))?;
        let state = self.store.data_mut();
        state.caller = Some(caller.clone());
        state.refused = None;
        let until = self.enter(hook, question.size())?;
        let call = async {
            let guest = indices.load(&mut self.store, &self.instance)?;
            let guest = guest.mortise_plugin_authorizing();
            match &question {
                Question::Read { id, resource } => guest.call_read(&mut self.store, id, resource.as_ref()).await,
                Question::Write { resource } => guest.call_write(&mut self.store, resource).await,
                Question::List { of, within } => {
                    guest.call_list(&mut self.store, &type_name(of), &tenancy(within)).await
                }
            }
        };
        let outcome = timed(timeout_at(until, call)).await;
        let answer = self.leave(hook, outcome);
        self.store.data_mut().caller = None;
        match answer? {
            bindings::Decision::Allow => Ok(Decision::Allow),
            bindings::Decision::Deny(reason) => {
                let refused = self.store.data_mut().refused.take();
                Ok(Decision::Deny(denied(caller.caller(), &reason, refused).into()))
            }
            bindings::Decision::NeedResource if matches!(question, Question::Read { resource: None, .. }) => {
                Ok(Decision::NeedResource)
            }
            bindings::Decision::NeedResource => {
                let fault = HookFault::Answer("it answered need-resource where it may not".into());
                Err(self.plugin.fault(hook, fault, None))
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let metrics = &self.plugin.metrics;
        let state = self.store.data_mut();
        state.end_log(|| metrics.label());
        metrics.ends(state.memory);
    }
}

/// What an authorize hook is asked.
pub(crate) enum Question {
    /// Encoded id, and the encoded resource when it is at hand.
    Read { id: Vec<u8>, resource: Option<Vec<u8>> },
    /// Encoded resource.
    Write { resource: Vec<u8> },
    /// A type in a tenancy.
    List { of: pb::Type, within: pb::Tenancy },
}

impl Question {
    pub(crate) fn hook(&self) -> Hook {
        match self {
            Self::Read { .. } => Hook::AuthorizeRead,
            Self::Write { .. } => Hook::AuthorizeWrite,
            Self::List { .. } => Hook::AuthorizeList,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Read { id, resource } => id.len() + resource.as_ref().map_or(0, Vec::len),
            Self::Write { resource } => resource.len(),
            Self::List { .. } => 0,
        }
    }
}

fn type_name(of: &pb::Type) -> bindings::types::TypeName {
    bindings::types::TypeName {
        group: of.group.clone(),
        group_version: of.group_version.clone(),
        kind: of.kind.clone(),
    }
}

fn tenancy(of: &pb::Tenancy) -> bindings::types::Tenancy {
    bindings::types::Tenancy { partition: of.partition.clone(), namespace: of.namespace.clone() }
}

/// The words of a refusal: the guest's, or, if it gave none, those that name the permission it missed.
fn denied(caller: &str, reason: &str, refused: Option<(String, String)>) -> String {
    match (reason, refused) {
        ("", Some((permission, name))) => denial(caller, &permission, &name),
        ("", None) => format!("Permission denied: {caller} may not do this"),
        (text, _) if text.starts_with("Permission denied") => text.to_owned(),
        (text, _) => format!("Permission denied: {text}"),
    }
}

/// Severities that the contract does not know count as errors.
pub(crate) fn diagnostic(wit: bindings::Diagnostic) -> Diagnostic {
    let step = |step| match step {
        bindings::PathStep::Field(name) => PathStep::Field(name),
        bindings::PathStep::Index(index) => PathStep::Index(index),
        bindings::PathStep::Key(key) => PathStep::Key(key),
    };
    let severity = if wit.severity == 2 { Severity::Warning } else { Severity::Error };
    Diagnostic {
        severity: severity.into(),
        path: FieldPath(wit.path.into_iter().map(step).collect()).to_string(),
        summary: wit.summary,
        detail: wit.detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_permission() {
        let asked = || Some(("key:read".to_owned(), "resource/x".to_owned()));
        assert_eq!(
            denied("anonymous token", "", asked()),
            "Permission denied: anonymous token lacks permission 'key:read' on \"resource/x\""
        );
        assert_eq!(denied("anonymous token", "not today", asked()), "Permission denied: not today");
        assert_eq!(denied("t", "Permission denied: no", None), "Permission denied: no");
        assert_eq!(denied("t", "", None), "Permission denied: t may not do this");
    }
}
