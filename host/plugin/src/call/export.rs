//! Exports of a plugin, one type for each: its arguments, its name, and how its answer is read.
//!
//! # Contract
//! An export is called by [`Instance::call`](crate::call::instance::Instance::call) alone. Where an answer breaks the
//! contract, `call` returns the [`HookFault`] as its error, which ends the instance as a trap does.
//!
//! # Limits
//! An answer has at most `reply_bytes`, private bytes at most [`MAX_PRIVATE_BYTES`].

mod authorize;
mod control;

use std::{
    hash::{DefaultHasher, Hasher as _},
    sync::Arc,
};

use mortise_resource::{Diagnostic, pb};
use wasmtime::{
    Store,
    component::{Instance, InstancePre},
};

use crate::{
    bindings::{
        self,
        authorizes::{Authorizes, AuthorizesIndices},
        brings::{Brings, BringsIndices},
        computes::ComputesIndices,
        configures::Configures,
        controls::{Controls, ControlsIndices},
        described::Described,
        initializes::{Initializes, InitializesIndices},
        maps::{Maps, MapsIndices},
        moves::MovesIndices,
        mutates::MutatesIndices,
        plans::PlansIndices,
        upgrades::UpgradesIndices,
        validates::ValidatesIndices,
    },
    call::answer::{FunctionFault, MutateReply, NewResourceReply, PlanReply, UpgradeReply, diagnostics, field_path},
    error::HookFault,
    hook::Hook,
    host::{private_bytes::MAX_PRIVATE_BYTES, state::State},
    manifest::exports::Exports,
};

pub(crate) use self::{
    authorize::{AuthorizeList, AuthorizeRead, AuthorizeWrite},
    control::{Initialize, Map, Reconcile},
};

/// A function that a plugin exports, with its arguments.
pub(crate) trait Export: Send + 'static {
    /// Name in errors, logs and metrics.
    const NAME: &'static str;
    /// Exported functions of an instance, among which this one is found.
    type Guest: Sync;
    /// Answer, checked.
    type Reply: Send + 'static;

    /// Bytes of the arguments.
    fn size(&self) -> usize {
        0
    }

    /// Calls the export once.
    fn call(
        self,
        guest: &Self::Guest,
        store: &mut Store<State>,
    ) -> impl Future<Output = wasmtime::Result<Self::Reply>> + Send;
}

/// An export that is called repeatedly while the plugin serves. Its calls are counted, and quarantined, as its hook.
pub(crate) trait HookExport: Export {
    const HOOK: Hook;

    /// Arguments that distinguish one input from another, for quarantine: faults of one input count once.
    fn input(&self) -> Vec<&[u8]>;

    /// Hash of the input: of each part's length and first [`HASHED_ARGUMENT_BYTES`] bytes, as arguments can be large.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for part in self.input() {
            hasher.write_usize(part.len());
            hasher.write(part.get(..HASHED_ARGUMENT_BYTES).unwrap_or(part));
        }
        hasher.finish()
    }
}

/// Bytes of an argument that enter the hash of the input.
const HASHED_ARGUMENT_BYTES: usize = 4 << 10;

/// Indices of a component's request hooks.
pub(crate) struct HookExports {
    mutating: Option<MutatesIndices>,
    validating: Option<ValidatesIndices>,
    authorizing: Option<AuthorizesIndices>,
    pub(crate) upgrading: Option<UpgradesIndices>,
    planning: Option<PlansIndices>,
    moving: Option<MovesIndices>,
    functions: Option<ComputesIndices>,
}

impl HookExports {
    pub(crate) fn find(pre: &InstancePre<State>, exports: Exports) -> wasmtime::Result<Self> {
        Ok(Self {
            mutating: exports.mutating.then(|| MutatesIndices::new(pre)).transpose()?,
            validating: exports.validating.then(|| ValidatesIndices::new(pre)).transpose()?,
            authorizing: exports.authorizing.then(|| AuthorizesIndices::new(pre)).transpose()?,
            upgrading: exports.upgrading.then(|| UpgradesIndices::new(pre)).transpose()?,
            planning: exports.planning.then(|| PlansIndices::new(pre)).transpose()?,
            moving: exports.moving.then(|| MovesIndices::new(pre)).transpose()?,
            functions: exports.functions.then(|| ComputesIndices::new(pre)).transpose()?,
        })
    }
}

/// Hooks of one instance. A function is looked up when it is called: most requests call one or two of them.
pub(crate) struct HookGuest {
    pub(crate) exports: Arc<HookExports>,
    pub(crate) instance: Instance,
}

impl HookGuest {
    fn authorizing(&self, store: &mut Store<State>) -> wasmtime::Result<Authorizes> {
        self.exports.authorizing.as_ref().ok_or_else(missing)?.load(store, &self.instance)
    }
}

/// Indices of a component's controller calls.
pub(crate) struct ControllerExports {
    controlling: Option<ControlsIndices>,
    mapping: Option<MapsIndices>,
    initializing: Option<InitializesIndices>,
    importing: Option<BringsIndices>,
}

impl ControllerExports {
    pub(crate) fn find(pre: &InstancePre<State>, exports: Exports) -> wasmtime::Result<Self> {
        Ok(Self {
            controlling: exports.controlling.then(|| ControlsIndices::new(pre)).transpose()?,
            mapping: exports.mapping.then(|| MapsIndices::new(pre)).transpose()?,
            initializing: exports.initializing.then(|| InitializesIndices::new(pre)).transpose()?,
            importing: exports.importing.then(|| BringsIndices::new(pre)).transpose()?,
        })
    }
}

/// Controller calls of one instance, looked up once: a warm instance serves many calls.
pub(crate) struct ControllerGuest {
    controlling: Option<Controls>,
    mapping: Option<Maps>,
    initializing: Option<Initializes>,
    importing: Option<Brings>,
}

impl ControllerGuest {
    pub(crate) fn load(
        exports: &ControllerExports,
        store: &mut Store<State>,
        instance: &Instance,
    ) -> wasmtime::Result<Self> {
        Ok(Self {
            controlling: exports.controlling.as_ref().map(|export| export.load(&mut *store, instance)).transpose()?,
            mapping: exports.mapping.as_ref().map(|export| export.load(&mut *store, instance)).transpose()?,
            initializing: exports.initializing.as_ref().map(|export| export.load(&mut *store, instance)).transpose()?,
            importing: exports.importing.as_ref().map(|export| export.load(&mut *store, instance)).transpose()?,
        })
    }
}

/// `mutating.mutate` of an encoded resource.
pub(crate) struct Mutate {
    pub(crate) resource: Vec<u8>,
}

impl Export for Mutate {
    const NAME: &'static str = Hook::Mutate.name();
    type Guest = HookGuest;
    type Reply = MutateReply;

    fn size(&self) -> usize {
        self.resource.len()
    }

    async fn call(self, guest: &HookGuest, store: &mut Store<State>) -> wasmtime::Result<MutateReply> {
        let mutates = guest.exports.mutating.as_ref().ok_or_else(missing)?.load(&mut *store, &guest.instance)?;
        Ok(match mutates.mortise_plugin_mutating().call_mutate(&mut *store, &self.resource).await? {
            Ok(None) => MutateReply::Unchanged,
            Ok(Some(bytes)) => MutateReply::Changed(check_size(bytes, store)?),
            Err(reasons) => MutateReply::Refused(diagnostics(reasons)),
        })
    }
}

impl HookExport for Mutate {
    const HOOK: Hook = Hook::Mutate;

    fn input(&self) -> Vec<&[u8]> {
        vec![&self.resource]
    }
}

/// `validating.validate` of an encoded resource, with the stored resource.
pub(crate) struct Validate {
    pub(crate) resource: Vec<u8>,
    pub(crate) prior: Option<Vec<u8>>,
}

impl Export for Validate {
    const NAME: &'static str = Hook::Validate.name();
    type Guest = HookGuest;
    type Reply = Vec<Diagnostic>;

    fn size(&self) -> usize {
        self.resource.len() + self.prior.as_ref().map_or(0, Vec::len)
    }

    async fn call(self, guest: &HookGuest, store: &mut Store<State>) -> wasmtime::Result<Vec<Diagnostic>> {
        let validates = guest.exports.validating.as_ref().ok_or_else(missing)?.load(&mut *store, &guest.instance)?;
        let validating = validates.mortise_plugin_validating();
        Ok(diagnostics(validating.call_validate(store, &self.resource, self.prior.as_ref()).await?))
    }
}

impl HookExport for Validate {
    const HOOK: Hook = Hook::Validate;

    fn input(&self) -> Vec<&[u8]> {
        vec![&self.resource]
    }
}

/// `upgrading.upgrade` of data of an older schema version.
pub(crate) struct Upgrade {
    pub(crate) kind: pb::Type,
    pub(crate) since: u32,
    pub(crate) data: Vec<u8>,
}

impl Export for Upgrade {
    const NAME: &'static str = Hook::Upgrade.name();
    type Guest = HookGuest;
    type Reply = UpgradeReply;

    fn size(&self) -> usize {
        self.data.len()
    }

    async fn call(self, guest: &HookGuest, store: &mut Store<State>) -> wasmtime::Result<UpgradeReply> {
        let upgrades = guest.exports.upgrading.as_ref().ok_or_else(missing)?.load(&mut *store, &guest.instance)?;
        let upgrading = upgrades.mortise_plugin_upgrading();
        Ok(match upgrading.call_upgrade(&mut *store, &type_name(self.kind), self.since, &self.data).await? {
            Ok(bytes) => UpgradeReply::Data(check_size(bytes, store)?),
            Err(reasons) => UpgradeReply::Refused(diagnostics(reasons)),
        })
    }
}

impl HookExport for Upgrade {
    const HOOK: Hook = Hook::Upgrade;

    fn input(&self) -> Vec<&[u8]> {
        vec![&self.data]
    }
}

/// `planning.plan` of an encoded, mutated resource, with the stored resource and its private bytes (`kept`).
pub(crate) struct Plan {
    pub(crate) input: Vec<u8>,
    pub(crate) prior: Option<Vec<u8>>,
    pub(crate) kept: Option<Vec<u8>>,
}

impl Export for Plan {
    const NAME: &'static str = Hook::Plan.name();
    type Guest = HookGuest;
    type Reply = PlanReply;

    fn size(&self) -> usize {
        self.input.len() + [&self.prior, &self.kept].into_iter().flatten().map(Vec::len).sum::<usize>()
    }

    async fn call(self, guest: &HookGuest, store: &mut Store<State>) -> wasmtime::Result<PlanReply> {
        let plans = guest.exports.planning.as_ref().ok_or_else(missing)?.load(&mut *store, &guest.instance)?;
        let planning = plans.mortise_plugin_planning();
        let Self { input, prior, kept } = self;
        let planned = planning.call_plan(&mut *store, &input, prior.as_ref(), kept.as_deref()).await?;
        Ok(PlanReply {
            predicted: planned.predicted.map(|bytes| check_size(bytes, store)).transpose()?,
            replace: planned.replace.into_iter().map(field_path).collect(),
            diagnostics: diagnostics(planned.diagnostics),
        })
    }
}

impl HookExport for Plan {
    const HOOK: Hook = Hook::Plan;

    fn input(&self) -> Vec<&[u8]> {
        vec![&self.input]
    }
}

/// `moving.move-to` of an encoded resource of schema version `since`, with its private bytes (`kept`).
pub(crate) struct Move {
    pub(crate) source: Vec<u8>,
    pub(crate) since: u32,
    pub(crate) to: pb::Type,
    pub(crate) kept: Option<Vec<u8>>,
}

impl Export for Move {
    const NAME: &'static str = Hook::Move.name();
    type Guest = HookGuest;
    type Reply = NewResourceReply;

    fn size(&self) -> usize {
        self.source.len() + self.kept.as_ref().map_or(0, Vec::len)
    }

    async fn call(self, guest: &HookGuest, store: &mut Store<State>) -> wasmtime::Result<NewResourceReply> {
        let moves = guest.exports.moving.as_ref().ok_or_else(missing)?.load(&mut *store, &guest.instance)?;
        let Self { source, since, to, kept } = self;
        let moving = moves.mortise_plugin_moving();
        match moving.call_move_to(&mut *store, &source, since, &type_name(to), kept.as_deref()).await? {
            Ok(moved) => new_resource_reply(moved.made, moved.kept, store),
            Err(reasons) => Ok(NewResourceReply::Refused(diagnostics(reasons))),
        }
    }
}

impl HookExport for Move {
    const HOOK: Hook = Hook::Move;

    fn input(&self) -> Vec<&[u8]> {
        vec![&self.source]
    }
}

/// `functions.call` with encoded arguments.
pub(crate) struct CallFunction {
    pub(crate) name: String,
    pub(crate) arguments: Vec<Vec<u8>>,
}

impl Export for CallFunction {
    const NAME: &'static str = Hook::Function.name();
    type Guest = HookGuest;
    type Reply = Result<Vec<u8>, FunctionFault>;

    fn size(&self) -> usize {
        self.arguments.iter().map(Vec::len).sum()
    }

    async fn call(self, guest: &HookGuest, store: &mut Store<State>) -> wasmtime::Result<Self::Reply> {
        let computes = guest.exports.functions.as_ref().ok_or_else(missing)?.load(&mut *store, &guest.instance)?;
        let functions = computes.mortise_plugin_functions();
        match functions.call_call(&mut *store, &self.name, &self.arguments).await? {
            Ok(result) => check_size(result, store).map(Ok),
            Err(fault) => Ok(Err(FunctionFault { argument: fault.argument, text: fault.text })),
        }
    }
}

impl HookExport for CallFunction {
    const HOOK: Hook = Hook::Function;

    fn input(&self) -> Vec<&[u8]> {
        [self.name.as_bytes()].into_iter().chain(self.arguments.iter().map(Vec::as_slice)).collect()
    }
}

/// `importing.import` of an external object.
pub(crate) struct Import {
    pub(crate) kind: pb::Type,
    pub(crate) within: pb::Tenancy,
    pub(crate) external_id: String,
}

impl Export for Import {
    const NAME: &'static str = Hook::Import.name();
    type Guest = ControllerGuest;
    type Reply = NewResourceReply;

    async fn call(self, guest: &ControllerGuest, store: &mut Store<State>) -> wasmtime::Result<NewResourceReply> {
        let guest = guest.importing.as_ref().ok_or_else(missing)?;
        let within = bindings::types::Tenancy { partition: self.within.partition, namespace: self.within.namespace };
        let importing = guest.mortise_plugin_importing();
        match importing.call_import(&mut *store, &type_name(self.kind), &within, &self.external_id).await? {
            Ok(imported) => new_resource_reply(imported.made, imported.kept, store),
            Err(reasons) => Ok(NewResourceReply::Refused(diagnostics(reasons))),
        }
    }
}

impl HookExport for Import {
    const HOOK: Hook = Hook::Import;

    fn input(&self) -> Vec<&[u8]> {
        vec![self.kind.kind.as_bytes(), self.external_id.as_bytes()]
    }
}

/// `plugin.describe`: the encoded manifest.
pub(crate) struct Describe;

impl Export for Describe {
    const NAME: &'static str = "describe";
    type Guest = Described;
    type Reply = Vec<u8>;

    async fn call(self, guest: &Described, store: &mut Store<State>) -> wasmtime::Result<Vec<u8>> {
        check_size(guest.mortise_plugin_plugin().call_describe(&mut *store).await?, store)
    }
}

/// `configuring.check` of the plugin's settings, as JSON.
pub(crate) struct Check {
    pub(crate) settings: Arc<str>,
}

impl Export for Check {
    const NAME: &'static str = "check";
    type Guest = Configures;
    type Reply = Vec<Diagnostic>;

    async fn call(self, guest: &Configures, store: &mut Store<State>) -> wasmtime::Result<Vec<Diagnostic>> {
        Ok(diagnostics(guest.mortise_plugin_configuring().call_check(store, &self.settings).await?))
    }
}

fn missing() -> wasmtime::Error {
    wasmtime::Error::msg("the component does not export it")
}

/// Bytes of an answer, unless they are over the limit.
fn check_size(bytes: Vec<u8>, store: &Store<State>) -> wasmtime::Result<Vec<u8>> {
    let limit = store.data().limits.reply_bytes;
    if bytes.len() > limit { Err(HookFault::Reply { limit }.into()) } else { Ok(bytes) }
}

/// An encoded resource that a guest made, and the private bytes to keep with it.
fn new_resource_reply(
    resource: Vec<u8>,
    kept: Option<Vec<u8>>,
    store: &Store<State>,
) -> wasmtime::Result<NewResourceReply> {
    if kept.as_ref().is_some_and(|kept| kept.len() > MAX_PRIVATE_BYTES) {
        return Err(HookFault::Reply { limit: MAX_PRIVATE_BYTES }.into());
    }
    Ok(NewResourceReply::Made { resource: check_size(resource, store)?, kept })
}

fn type_name(resource_type: pb::Type) -> bindings::types::TypeName {
    bindings::types::TypeName {
        group: resource_type.group,
        group_version: resource_type.group_version,
        kind: resource_type.kind,
    }
}
