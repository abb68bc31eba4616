//! The hooks of a type for one request: each check point of an RPC calls one here, and gets an error in the words of
//! the API. The error names a plugin's fault as the plugin's.
//!
//! Types of the host have hooks of their own ([`crate::rules::builtin_types`]). For a type without an authorize hook,
//! the host requires the permission that the type declares, or else `operator:read` or `operator:write`.

use std::sync::Arc;

use super::{accept::accept, builtin_types, hook_call::HookCall};
use crate::{
    call::{Caller, RuledCaller},
    registry::{Owner, ResourceType},
};
use mortise_plugin_host::{Call, Decision, HookError, MutateReply, NewResourceReply, Permission, Plugin};
use mortise_resource::{
    Code, Diagnostic, EncodedResource, Error, FieldPath, IdRef, PathStep, Severity,
    authorizer::{Authorizer as _, Effect, Names, Verb, denial_text},
    pb,
    types::Gvk,
};
use prost::Message as _;

/// The hooks of one type for one request.
pub(crate) struct RequestHooks {
    pub(crate) kind: Arc<ResourceType>,
    pub(crate) caller: Caller,
    call: HookCall,
    /// Whether the plugin calls about its own types, as its grants allow.
    is_own: bool,
    /// Whether a rule by type and place allows the request.
    allows: bool,
    /// Warning about a skipped broken `mutate`; added to those of validation.
    skipped: Option<Diagnostic>,
}

/// The decision of an authorize hook about a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadDecision {
    /// The caller may read it.
    Allowed,
    /// The hook decides when it gets the resource.
    NeedsResource,
}

/// The plugin's prediction for a write.
#[derive(Default)]
pub(crate) struct PlanPrediction {
    /// Final resource, if it differs from the result of the write.
    pub(crate) predicted: Option<pb::Resource>,
    /// Fields that the stored resource cannot change.
    pub(crate) replace: Vec<FieldPath>,
    pub(crate) warnings: Vec<Diagnostic>,
}

impl RequestHooks {
    /// Prepares the hooks; costs nothing until one is called.
    pub(crate) fn new(kind: Arc<ResourceType>, caller: &Caller) -> Self {
        let is_own = |asks: &Arc<str>| matches!(&kind.owner, Owner::Plugin(plugin) if plugin.name() == &**asks);
        let is_own = caller.hook_of.as_ref().is_some_and(is_own);
        Self { kind, caller: caller.clone(), call: HookCall::default(), is_own, allows: false, skipped: None }
    }

    /// Returns the call into the type's plugin; `None` if it has none.
    pub(super) fn call(&mut self) -> Option<&mut Call> {
        self.call.begun(&self.kind, &self.caller, self.allows)
    }

    /// Returns the call for a hook about a resource, if the type has the hook.
    fn call_about(&mut self, has_hook: bool, resource: &pb::Resource) -> Option<&mut Call> {
        if has_hook { self.call.begun_about(&self.kind, &self.caller, self.allows, resource) } else { None }
    }

    /// Blames the plugin for an answer that breaks the contract.
    fn blame(&mut self, plugin: &Plugin, hook: &'static str, what: String) -> HookError {
        if let Some(call) = self.call.if_begun() {
            call.spoil();
        }
        plugin.blame_answer(hook, self.caller.number(), what)
    }

    fn call_if(&mut self, has_hook: bool) -> Option<&mut Call> {
        if has_hook { self.call() } else { None }
    }

    /// Calls `mutate`, which fills in defaults.
    pub(super) async fn mutate(&mut self, resource: &mut pb::Resource) -> Result<(), Error> {
        if let Owner::Host = self.kind.owner {
            builtin_types::mutate(&self.kind, resource);
            return Ok(());
        }
        let Some(call) = self.call_about(self.kind.hooks.mutate, resource) else { return Ok(()) };
        const CONTEXT: &str = "failed mutate hook";
        let answer = match call.mutate(resource.encode_to_vec()).await {
            Ok(answer) => answer,
            Err(e) => return self.without_mutate(e).map_err(|e| Error::from(e).context(CONTEXT)),
        };
        match answer {
            MutateReply::Unchanged => Ok(()),
            MutateReply::Changed(bytes) => {
                let kind = self.kind.clone();
                match (accept(&kind, resource, &bytes), &kind.owner) {
                    (Ok(accepted), _) => {
                        *resource = accepted;
                        Ok(())
                    }
                    (Err(what), Owner::Plugin(plugin)) => {
                        let error = self.blame(plugin, "mutate", what.to_string());
                        self.without_mutate(error).map_err(|e| Error::from(e).context(CONTEXT))
                    }
                    (Err(what), Owner::Host | Owner::Missing(_)) => Err(Error::internal(format!("{CONTEXT}: {what}"))),
                }
            }
            MutateReply::Refused(diagnostics) => Err(refusal(diagnostics).context(CONTEXT)),
        }
    }

    /// Handles a broken `mutate`: refuses the write, unless the type's policy is to go on without the hook.
    fn without_mutate(&mut self, error: HookError) -> Result<(), HookError> {
        let skips = matches!(&self.kind.owner, Owner::Plugin(plugin) if plugin.bypasses_mutate(&self.kind.gvk));
        if !skips {
            return Err(error);
        }
        self.skipped = Some(Diagnostic {
            severity: Severity::Warning.into(),
            path: String::new(),
            summary: format!("written without mutate: {error}"),
            detail: "the type is named in quarantine.bypass_mutate_types".into(),
        });
        Ok(())
    }

    /// Calls `validate` on a mutated resource; returns warnings.
    pub(crate) async fn validate(
        &mut self,
        resource: &pb::Resource,
        prior: Option<&pb::Resource>,
    ) -> Result<Vec<Diagnostic>, Error> {
        if let Owner::Host = self.kind.owner {
            return builtin_types::validate(&self.kind, resource).map(|()| Vec::new());
        }
        let skipped = self.skipped.clone();
        let Some(call) = self.call_about(self.kind.hooks.validate, resource) else {
            return Ok(skipped.into_iter().collect());
        };
        let prior = prior.map(prost::Message::encode_to_vec);
        let diagnostics = call
            .validate(resource.encode_to_vec(), prior)
            .await
            .map_err(|e| Error::from(e).context("failed validate hook"))?;
        if diagnostics.iter().all(|d| d.severity() == Severity::Warning) {
            return Ok(skipped.into_iter().chain(diagnostics).collect());
        }
        Err(refusal(diagnostics))
    }

    /// Calls `plan` on a mutated resource, if the type has that hook.
    pub(crate) async fn plan(
        &mut self,
        resource: &pb::Resource,
        prior: Option<&pb::Resource>,
        kept: Option<Vec<u8>>,
    ) -> Result<PlanPrediction, Error> {
        let Some(call) = self.call_about(self.kind.hooks.plan, resource) else { return Ok(PlanPrediction::default()) };
        const CONTEXT: &str = "failed plan hook";
        let reply = call.plan(resource.encode_to_vec(), prior.map(prost::Message::encode_to_vec), kept).await;
        let reply = reply.map_err(|e| Error::from(e).context(CONTEXT))?;
        if reply.diagnostics.iter().any(|d| d.severity() != Severity::Warning) {
            return Err(refusal(reply.diagnostics));
        }
        let kind = self.kind.clone();
        let mut unusable = |what: String| match &kind.owner {
            Owner::Plugin(plugin) => Error::from(self.blame(plugin, "plan", what)).context(CONTEXT),
            Owner::Host | Owner::Missing(_) => Error::internal(format!("{CONTEXT}: {what}")),
        };
        let root =
            |path: &FieldPath| matches!(path.0.first(), Some(PathStep::Field(f)) if f == "data" || f == "metadata");
        if let Some(path) = reply.replace.iter().find(|path| !root(path)) {
            let path: String = path.to_string().chars().take(200).collect();
            return Err(unusable(format!("it names {path:?} to be replaced; paths begin with data or metadata")));
        }
        let predicted = reply.predicted.map(|bytes| accept(&kind, resource, &bytes)).transpose();
        let predicted = predicted.map_err(|what| unusable(format!("its prediction: {what}")))?;
        let predicted = predicted.filter(|predicted| predicted != resource);
        Ok(PlanPrediction { predicted, replace: reply.replace, warnings: reply.diagnostics })
    }

    /// Calls `move` on the stored resource of another type.
    pub(crate) async fn move_to(
        &mut self,
        source: &pb::Resource,
        since: u32,
        kept: Option<Vec<u8>>,
    ) -> Result<NewResourceReply, Error> {
        const CONTEXT: &str = "failed move hook";
        let gvk = self.kind.gvk.to_pb();
        match self.call() {
            Some(call) => call
                .move_to(gvk, source.encode_to_vec(), since, kept)
                .await
                .map_err(|e| Error::from(e).context(CONTEXT)),
            None => Err(Error::internal(format!("{CONTEXT}: the type has no plugin"))),
        }
    }

    /// Checks whether the caller may read the resource of this id. The hook may need the resource first.
    pub(crate) async fn authorize_read(&mut self, id: &pb::Id) -> Result<ReadDecision, Error> {
        self.apply_rules(Verb::Read, id.into(), Some(&id.name))?;
        let Some(call) = self.call_if(self.kind.hooks.authorize_read) else {
            return self
                .check_permission(&self.kind.permissions.read, id.into(), "operator:read")
                .map(|()| ReadDecision::Allowed);
        };
        match call.authorize_read(id, None).await.map_err(|e| Error::from(e).context("failed read acl"))? {
            Decision::Allow => Ok(ReadDecision::Allowed),
            Decision::Deny(reason) => Err(Error::denied(&*reason)),
            Decision::NeedResource => Ok(ReadDecision::NeedsResource),
        }
    }

    /// Refuses a resource without data if the hook decides by its data who may read it: no caller could.
    pub(crate) async fn check_readable_without_data(&mut self, resource: &pb::Resource) -> Result<(), Error> {
        let Some(call) = self.call_if(self.kind.hooks.authorize_read) else { return Ok(()) };
        let id = resource.id.clone().unwrap_or_default();
        match call.authorize_read(&id, None).await {
            Ok(Decision::NeedResource) => {
                let what = format!("is required: the permission to read a {} depends on it", self.kind.gvk);
                Err(Error::invalid(format!("resource.data {what}")).with_violation("data", what))
            }
            // A refusal concerns this caller alone, and faults of the hook show at reads.
            _ => Ok(()),
        }
    }

    /// Whether the caller may read every resource of a type, without a question to a hook or a rule.
    pub(crate) fn reads_all(kind: &ResourceType, caller: &Caller) -> bool {
        !kind.hooks.authorize_read && caller.authorizer.allows_all()
    }

    /// Checks whether the caller may read this resource.
    pub(crate) async fn authorize_read_of(&mut self, resource: &EncodedResource) -> Result<(), Error> {
        if Self::reads_all(&self.kind, &self.caller) {
            return Ok(());
        }
        let id = resource.id();
        self.apply_rules(Verb::Read, id, Some(id.name))?;
        if self.is_own {
            return Ok(());
        }
        let Some(call) = self.call_if(self.kind.hooks.authorize_read) else {
            return self.check_permission(&self.kind.permissions.read, id, "operator:read");
        };
        let id = resource.decode_id()?.unwrap_or_default();
        settle(call.authorize_read(&id, Some(resource)).await, "failed read acl")
    }

    /// Checks whether the caller may read one of many resources: a refusal is not an error, and each item has a
    /// request's fuel and time.
    pub(crate) async fn may_read(&mut self, resource: &EncodedResource) -> Result<bool, Error> {
        self.next_item();
        match self.authorize_read_of(resource).await {
            Ok(()) => Ok(true),
            Err(e) if e.code == Code::PermissionDenied => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Checks whether the caller may write a resource: the incoming one in Write, the stored one in WriteStatus and
    /// Delete.
    pub(crate) async fn authorize_write(
        &mut self,
        verb: Verb,
        resource: &pb::Resource,
        context: &'static str,
    ) -> Result<(), Error> {
        let id = resource.id.as_ref().map(IdRef::from).unwrap_or_default();
        self.apply_rules(verb, id, Some(id.name))?;
        let Some(call) = self.call_if(self.kind.hooks.authorize_write) else {
            return self.check_permission(&self.kind.permissions.write, id, "operator:write");
        };
        settle(call.authorize_write(resource.encode_to_vec()).await, context)
    }

    /// Checks whether the caller may list or watch the type in a tenancy.
    pub(crate) async fn authorize_list(&mut self, within: &pb::Tenancy) -> Result<(), Error> {
        let mut filled = within.clone();
        self.kind.scope.fill_query(&mut filled);
        let resource_type = Some(self.kind.gvk.to_pb());
        let place = pb::Id { r#type: resource_type, tenancy: Some(filled), ..pb::Id::default() };
        self.apply_rules(Verb::List, IdRef::from(&place), None)?;
        if self.is_own {
            return Ok(());
        }
        let Some(call) = self.call_if(self.kind.hooks.authorize_list) else {
            let place = pb::Id { tenancy: Some(within.clone()), ..place };
            return self.check_permission(&self.kind.permissions.list, IdRef::from(&place), "operator:read");
        };
        settle(call.authorize_list(&place.r#type.unwrap_or_default(), within).await, "failed list acl")
    }

    /// Starts a new item of a list, with the fuel and the time of a request.
    pub(crate) fn next_item(&mut self) {
        if let Some(call) = self.call.if_begun() {
            call.next_item();
        }
    }

    /// Gives the plugin's instance back. Instances are few, and the next step may wait for a disk, a client, or another
    /// place, another instance included; a request that waits with an instance could wait for itself.
    pub(crate) fn release(&mut self) {
        if let Some(call) = self.call.if_begun() {
            call.release();
        }
    }

    /// Applies the caller's rules by type and place: refuses where they deny, and answers the hook's questions where
    /// they allow.
    fn apply_rules(&mut self, verb: Verb, id: IdRef<'_>, name: Option<&str>) -> Result<(), Error> {
        let caller = &*self.caller.authorizer;
        caller.check_valid()?;
        let effect = caller.effect(verb, id, name);
        self.allows = effect == Effect::Allow;
        match effect {
            Effect::Allow | Effect::Undecided => Ok(()),
            Effect::Deny => {
                let permission = format!("{}:{}", self.kind.gvk, verb.name());
                Err(Error::denied(denial_text(caller.caller(), &permission, name.unwrap_or_default())))
            }
        }
    }

    /// Checks the declared permission, or else `otherwise`.
    fn check_permission(&self, declared: &Option<Permission>, id: IdRef<'_>, otherwise: &str) -> Result<(), Error> {
        let caller = &RuledCaller::new(self.caller.authorizer.clone(), self.allows);
        match declared {
            None if caller.allows() => Ok(()),
            Some(permission) => permission.refusal(caller, id).map_or(Ok(()), |refusal| Err(Error::denied(refusal))),
            None if caller.is_allowed(otherwise, "") => Ok(()),
            None => Err(Error::denied(denial_text(caller.caller(), otherwise, ""))),
        }
    }

    /// Returns the name of the provider, for warnings.
    pub(crate) fn owner_name(&self) -> &str {
        match &self.kind.owner {
            Owner::Host => "mortise",
            Owner::Plugin(plugin) => plugin.name(),
            Owner::Missing(missing) => &missing.name,
        }
    }
}

/// Whether [`RequestHooks::may_read`] would surely allow every resource of the type, now.
pub(crate) fn may_read_all(kind: &ResourceType, caller: &Caller) -> bool {
    if RequestHooks::reads_all(kind, caller) {
        return true;
    }
    if kind.hooks.authorize_read {
        return false;
    }
    let Gvk { group, group_version, kind: name } = &kind.gvk;
    let of = IdRef { group, group_version, kind: name, ..IdRef::default() };
    let caller = &*caller.authorizer;
    match &kind.permissions.read {
        Some(permission) => permission.is_held_on_all(caller, Verb::Read, of),
        None => caller.allows_every(Verb::Read, of, "operator:read", Names::One("")),
    }
}

/// Requires a final decision.
fn settle(decision: Result<Decision, HookError>, context: &'static str) -> Result<(), Error> {
    match decision.map_err(|e| Error::from(e).context(context))? {
        Decision::Allow => Ok(()),
        Decision::Deny(reason) => Err(Error::denied(&*reason)),
        // The host refuses this answer earlier.
        Decision::NeedResource => Err(Error::internal(format!("{context}: the decision was postponed"))),
    }
}

/// Returns the error for a request that a plugin refuses.
pub(crate) fn refusal(diagnostics: Vec<Diagnostic>) -> Error {
    let mut error = Error::invalid(text(&diagnostics));
    error.violations = diagnostics;
    error
}

/// Returns the text of the errors among diagnostics.
fn text(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|d| d.severity() != Severity::Warning);
    let text = errors.map(|d| d.summary.as_str()).collect::<Vec<_>>().join("; ");
    if text.is_empty() { "refused without a reason".into() } else { text }
}

#[cfg(test)]
mod tests {
    use crate::registry::Registry;
    use mortise_plugin_host::Permissions;
    use mortise_resource::authorizer::Authorizer;
    use mortise_store::Consistency;

    use super::*;

    /// A caller with one permission on one thing.
    struct Only(&'static str, &'static str);

    impl Authorizer for Only {
        fn is_allowed(&self, permission: &str, name: &str) -> bool {
            (permission, name) == (self.0, self.1)
        }

        fn caller(&self) -> &'static str {
            "the tester"
        }

        fn fingerprint(&self) -> u64 {
            1
        }
    }

    /// Returns whether a caller with this permission may read by id, read with the resource, write, and list.
    async fn may(permissions: &Permissions, permission: &'static str, on: &'static str) -> [bool; 4] {
        let registry = Registry::builtin().unwrap();
        let namespace = pb::Type { group: "tenancy".into(), group_version: "v2beta1".into(), kind: "Namespace".into() };
        let kind = ResourceType::clone(registry.resolve(&namespace).unwrap());
        let kind = Arc::new(ResourceType { permissions: permissions.clone(), ..kind });
        let caller = Caller { authorizer: Arc::new(Only(permission, on)), ..Caller::host(Consistency::Eventual) };
        let place = pb::Tenancy { partition: "p".into(), namespace: String::new() };
        let id = pb::Id { uid: String::new(), name: "n".into(), r#type: Some(namespace), tenancy: Some(place.clone()) };
        let resource = pb::Resource { id: Some(id.clone()), ..pb::Resource::default() };
        let mut hooks = RequestHooks::new(kind, &caller);
        [
            hooks.authorize_read(&id).await.is_ok(),
            hooks.authorize_read_of(&EncodedResource::encode(&resource).unwrap()).await.is_ok(),
            hooks.authorize_write(Verb::Write, &resource, "").await.is_ok(),
            hooks.authorize_list(&place).await.is_ok(),
        ]
    }

    #[tokio::test]
    async fn each_question_asks_for_its_own_permission() {
        let none = Permissions::default();
        assert_eq!(may(&none, "operator:read", "").await, [true, true, false, true]);
        assert_eq!(may(&none, "operator:write", "").await, [false, false, true, false]);

        let described = |on: &str| {
            let wire = mortise_resource::manifest::Permission { permission: "key:x".into(), on: on.into() };
            Some(mortise_plugin_host::Permission::read(&wire).unwrap())
        };
        let all = Permissions {
            read: described("r/{name}"),
            write: described("w/{partition}/{name}"),
            list: described("l/{kind}"),
        };
        assert_eq!(may(&all, "key:x", "r/n").await, [true, true, false, false]);
        assert_eq!(may(&all, "key:x", "w/p/n").await, [false, false, true, false]);
        assert_eq!(may(&all, "key:x", "l/Namespace").await, [false, false, false, true]);
        assert_eq!(may(&all, "operator:read", "").await, [false; 4], "what is declared takes the default's place");
    }
}
