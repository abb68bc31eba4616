//! Runs a case of a hook: the calls of one request, in the sandbox.

use std::{
    collections::hash_map::DefaultHasher,
    fmt::Debug,
    hash::{Hash as _, Hasher as _},
    sync::Arc,
};

use mortise_plugin_host::{
    Call, CallerClass, Decision, HookError, MutateReply, Permission, Plugin, TypeDecl, UpgradeReply,
};
use mortise_resource::{
    Diagnostic, EncodedResource, Severity,
    authorizer::{AllowAll, Authorizer, denial_text},
    meta::DELETION_TIMESTAMP,
    pb,
    types::Gvk,
};
use mortise_service::registry::Schema;
use prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde_json::Value;

use super::{
    case::{Authorize, Caller, Case, Invocation, List, Upgrade},
    changes::unusable_data,
    codec::{Codec, type_name},
    error::CaseError,
    problems::{self, Problems, is_refusal},
};

/// A running case of a hook.
pub(super) struct HookCase<'a> {
    pub(super) plugin: &'a Arc<Plugin>,
    pub(super) codec: &'a Codec,
    pub(super) case: &'a Case,
    /// Differences from what the case expects, so far.
    pub(super) problems: Problems,
    pub(super) fuel: u64,
    /// Class of requests with which the case shares instances; `None`: its instance is fresh.
    pub(super) class: Option<CallerClass>,
    /// Whether an instance served another request before.
    pub(super) was_reused: bool,
    /// Answers and faults as text, in order.
    pub(super) answers: Vec<String>,
}

impl<'a> HookCase<'a> {
    pub(super) fn new(plugin: &'a Arc<Plugin>, codec: &'a Codec, case: &'a Case) -> Self {
        let problems = Problems::default();
        Self { plugin, codec, case, problems, fuel: 0, class: None, was_reused: false, answers: Vec::new() }
    }

    /// Runs the call of the case, at a time in milliseconds since 1970.
    pub(super) async fn run(&mut self, invocation: &Invocation, now: u64) -> Result<(), CaseError> {
        match invocation {
            Invocation::Mutate(resource) => self.mutate(resource).await,
            Invocation::Validate(resource) => self.validate(resource).await,
            Invocation::Write(resource) => self.write(resource).await,
            Invocation::Authorize(asked) => self.authorize(asked).await,
            Invocation::Upgrade(asked) => self.upgrade(asked).await,
            Invocation::Plan(resource) => self.plan(resource).await,
            Invocation::Move(asked) => self.move_to(asked).await,
            Invocation::Import(asked) => self.import(asked, now).await,
            Invocation::Function(asked) => self.function(asked).await,
            Invocation::Reconcile(_) | Invocation::Map(_) => Err("the case calls no hook".into()),
        }
    }

    pub(super) fn call(&self) -> Result<Call, CaseError> {
        let mut call = Call::new(self.plugin.clone(), authorizer(self.case.caller.as_ref())?);
        if let Some(class) = &self.class {
            call.share_within(|| class.clone());
        }
        Ok(call)
    }

    pub(super) fn decl(&self, resource: &pb::Resource) -> Result<&'a TypeDecl, CaseError> {
        let resource_type = resource.id.as_ref().and_then(|id| id.r#type.as_ref());
        self.decl_of(&type_name(resource_type))
    }

    pub(super) fn decl_of(&self, name: &str) -> Result<&'a TypeDecl, CaseError> {
        let gvk = self.codec.named(name)?;
        let found = self.plugin.manifest().types.iter().find(|decl| decl.gvk == gvk);
        found.ok_or_else(|| format!("{gvk} is another plugin's type; its hooks are tested with that plugin").into())
    }

    /// Counts the fuel of a call, and compares a fault with the expected one.
    pub(super) fn count<T: Debug>(&mut self, call: &Call, answer: Result<T, HookError>) -> Option<T> {
        self.fuel += call.used().fuel;
        self.was_reused |= call.is_reused();
        match answer {
            Ok(answer) => {
                self.answers.push(format!("{answer:#?}"));
                Some(answer)
            }
            Err(fault) => {
                self.answers.push(format!("fault: {fault}"));
                self.problems.fault(self.case.expect.fault.as_deref(), &fault.to_string());
                None
            }
        }
    }

    pub(super) async fn mutate(&mut self, resource: &Value) -> Result<(), CaseError> {
        let before = self.codec.read("mutate", resource)?;
        if !self.decl(&before)?.hooks.mutate {
            return Err(format!("{} has no mutate hook", type_of(&before)).into());
        }
        let mut call = self.call()?;
        let mut diagnostics = Vec::new();
        if let Some(after) = self.call_mutate(&mut call, &before, &mut diagnostics).await? {
            self.problems.no_fault(self.case.expect.fault.as_deref());
            if diagnostics.is_empty() {
                self.compare(&before, &after)?;
                self.check_idempotent(&mut call, &after).await;
            }
            self.problems.diagnostics(&self.case.expect.diagnostics, &diagnostics);
        }
        Ok(())
    }

    /// Calls `mutate`; its refusals go to `all`. `None` after a fault.
    pub(super) async fn call_mutate(
        &mut self,
        call: &mut Call,
        before: &pb::Resource,
        all: &mut Vec<Diagnostic>,
    ) -> Result<Option<pb::Resource>, CaseError> {
        let answer = call.mutate(before.encode_to_vec()).await;
        let answer = self.count(call, answer);
        if let (Some(MutateReply::Changed(bytes)), Some(text)) = (&answer, self.answers.last_mut()) {
            // A resource is easier to read than its bytes.
            pb::Resource::decode(bytes.as_slice()).iter().for_each(|after| *text = self.codec.yaml(after));
        }
        Ok(match answer {
            None => None,
            Some(MutateReply::Unchanged) => Some(before.clone()),
            Some(MutateReply::Refused(diagnostics)) if !is_refusal(&diagnostics) => {
                self.problems.add(problems::without_error("mutate"));
                None
            }
            Some(MutateReply::Refused(diagnostics)) => {
                all.extend(diagnostics);
                Some(before.clone())
            }
            Some(MutateReply::Changed(bytes)) => match pb::Resource::decode(bytes.as_slice()) {
                Err(e) => {
                    self.problems.add(format!("mutate's answer is not a resource: {e}"));
                    None
                }
                Ok(after) => self.check_reserved_fields("mutate", before, &after)?.then_some(after),
            },
        })
    }

    /// Checks the server's demands on the answer of `mutate`, or on a prediction. False when its data is unusable.
    pub(super) fn check_reserved_fields(
        &mut self,
        hook: &str,
        before: &pb::Resource,
        after: &pb::Resource,
    ) -> Result<bool, CaseError> {
        let going = |resource: &pb::Resource| resource.metadata.get(DELETION_TIMESTAMP).cloned();
        for (field, same) in [
            ("id", before.id == after.id),
            ("owner", before.owner == after.owner),
            ("version", before.version == after.version),
            ("generation", before.generation == after.generation),
            ("status", before.status == after.status),
            ("metadata.deletionTimestamp", going(before) == going(after)),
        ] {
            if !same {
                self.problems.add(format!("{hook} changed {field}; it may change data and metadata only"));
            }
        }
        let decl = self.decl(before)?;
        let fault = after.data.as_ref().and_then(|data| unusable_data(decl, hook, data));
        let usable = fault.is_none();
        self.problems.extend(fault);
        Ok(usable)
    }

    /// Calls `mutate` on its own answer, as it happens when a resource is read, changed and written back.
    async fn check_idempotent(&mut self, call: &mut Call, after: &pb::Resource) {
        if self.case.expect.idempotent == Some(false) {
            return;
        }
        // A fault of this second call is a problem of its own, even if the case expects one of the first.
        match call.mutate(after.encode_to_vec()).await {
            Ok(MutateReply::Changed(bytes)) => {
                let again = pb::Resource::decode(bytes.as_slice()).unwrap_or_default();
                let (first, second) = (self.codec.yaml(after), self.codec.yaml(&again));
                if first != second {
                    let diff = mortise_text::diff::unified(&first, &second, ("answer", "second answer"));
                    self.problems.add(format!("mutate changes its own answer when it is called a second time (`idempotent: false` allows that):\n{diff}"));
                }
            }
            Ok(_) => {}
            Err(fault) => self.problems.add(format!("mutate fails on its own answer: {fault}")),
        }
    }

    /// Compares a resource with the expected one.
    pub(super) fn compare(&mut self, before: &pb::Resource, after: &pb::Resource) -> Result<(), CaseError> {
        let expect = &self.case.expect;
        if expect.unchanged {
            self.problems.same("it must stay unchanged:", &self.codec.yaml(before), &self.codec.yaml(after));
        }
        let mut expected = after.clone();
        if let Some(data) = &expect.data {
            expected.data = self.data(after, data)?;
        }
        if let Some(metadata) = &expect.metadata {
            expected.metadata.clone_from(metadata);
        }
        self.problems.same("another resource than expected:", &self.codec.yaml(&expected), &self.codec.yaml(after));
        Ok(())
    }

    /// Encodes expected data, for the type of a resource.
    fn data(&self, like: &pb::Resource, data: &Value) -> Result<Option<prost_types::Any>, CaseError> {
        let name = like.id.as_ref().map_or("x", |id| id.name.as_str());
        let whole = serde_json::json!({"type": type_of(like), "name": name, "data": data});
        Ok(self.codec.read("expect", &whole)?.data)
    }

    pub(super) async fn validate(&mut self, resource: &Value) -> Result<(), CaseError> {
        let resource = self.codec.read("validate", resource)?;
        if !self.decl(&resource)?.hooks.validate {
            return Err(format!("{} has no validate hook", type_of(&resource)).into());
        }
        let mut call = self.call()?;
        let stored = self.stored()?;
        if let Some(diagnostics) = self.call_validate(&mut call, &resource, stored.as_ref()).await? {
            self.problems.no_fault(self.case.expect.fault.as_deref());
            self.problems.diagnostics(&self.case.expect.diagnostics, &diagnostics);
        }
        Ok(())
    }

    pub(super) async fn call_validate(
        &mut self,
        call: &mut Call,
        resource: &pb::Resource,
        prior: Option<&pb::Resource>,
    ) -> Result<Option<Vec<Diagnostic>>, CaseError> {
        let answer = call.validate(resource.encode_to_vec(), prior.map(|prior| prior.encode_to_vec())).await;
        Ok(self.count(call, answer))
    }

    /// Returns the stored resource of the same name.
    pub(super) fn stored(&self) -> Result<Option<pb::Resource>, CaseError> {
        self.case.stored.as_ref().map(|stored| self.codec.read("stored", stored)).transpose()
    }

    /// Makes the last check of a server: no immutable field differs from the stored one.
    fn immutable_change(&self, decl: &TypeDecl, after: &pb::Resource) -> Result<Option<Diagnostic>, CaseError> {
        let is_of = |stored: &pb::Resource| {
            stored
                .id
                .as_ref()
                .and_then(|id| id.r#type.as_ref())
                .is_some_and(|resource_type| decl.gvk.matches(resource_type))
        };
        let Some(stored) = self.stored()?.filter(is_of) else { return Ok(None) };
        let bytes = |resource_type: &pb::Resource| {
            resource_type.data.as_ref().map(|data| data.value.clone()).unwrap_or_default()
        };
        let changed = schema(decl).changed_immutable(&bytes(&stored), &bytes(after));
        Ok(changed.into_iter().next().map(|path| Diagnostic {
            severity: Severity::Error.into(),
            summary: format!("{path} cannot be changed once the resource exists"),
            path: path.to_string(),
            detail: String::new(),
        }))
    }

    /// Runs all hooks of a write, in a server's order, in one instance.
    pub(super) async fn write(&mut self, resource: &Value) -> Result<(), CaseError> {
        let before = self.codec.read("write", resource)?;
        let decl = self.decl(&before)?;
        let (mut call, stored) = (self.call()?, self.stored()?);
        let accepted = self.accept(&mut call, decl, &before, stored.as_ref()).await?;
        let Some((after, mut warnings)) = accepted else { return Ok(()) };
        if !is_refusal(&warnings) {
            let permission = &decl.permissions.write;
            let decision = if decl.hooks.authorize_write {
                let answer = call.authorize_write(after.encode_to_vec()).await;
                let Some(decision) = self.count(&call, answer) else { return Ok(()) };
                decision
            } else {
                self.decide_by_permission(permission.as_ref(), &after.id.clone().unwrap_or_default(), "operator:write")?
            };
            self.compare_decision(&decision, false);
            self.compare(&before, &after)?;
            if decision == Decision::Allow {
                warnings.extend(self.immutable_change(decl, &after)?);
            }
        }
        self.problems.no_fault(self.case.expect.fault.as_deref());
        self.problems.diagnostics(&self.case.expect.diagnostics, &warnings);
        Ok(())
    }

    pub(super) async fn authorize(&mut self, asked: &Authorize) -> Result<(), CaseError> {
        let mut call = self.call()?;
        let decision = match (&asked.read, &asked.write, &asked.list) {
            (Some(resource), None, None) => {
                let resource = self.codec.read("authorize.read", resource)?;
                let (decl, id) = (self.decl(&resource)?, resource.id.clone().unwrap_or_default());
                if decl.hooks.authorize_read {
                    let mut answer = call.authorize_read(&id, None).await;
                    if matches!(answer, Ok(Decision::NeedResource)) {
                        let encoded = EncodedResource::encode(&resource);
                        let encoded = encoded.map_err(|e| CaseError::field("authorize.read", e))?;
                        answer = call.authorize_read(&id, Some(&encoded)).await;
                    }
                    self.count(&call, answer)
                } else {
                    Some(self.decide_by_permission(decl.permissions.read.as_ref(), &id, "operator:read")?)
                }
            }
            (None, Some(resource), None) => {
                let resource = self.codec.read("authorize.write", resource)?;
                let decl = self.decl(&resource)?;
                if decl.hooks.authorize_write {
                    let answer = call.authorize_write(resource.encode_to_vec()).await;
                    self.count(&call, answer)
                } else {
                    let id = resource.id.clone().unwrap_or_default();
                    Some(self.decide_by_permission(decl.permissions.write.as_ref(), &id, "operator:write")?)
                }
            }
            (None, None, Some(List { type_name: list_type, partition, namespace })) => {
                let decl = self.decl_of(list_type)?;
                let mut within = pb::Tenancy { partition: partition.clone(), namespace: namespace.clone() };
                decl.scope.fill_query(&mut within);
                let resource_type = decl.gvk.to_pb();
                if decl.hooks.authorize_list {
                    let answer = call.authorize_list(&resource_type, &within).await;
                    self.count(&call, answer)
                } else {
                    let place = pb::Id { r#type: Some(resource_type), tenancy: Some(within), ..pb::Id::default() };
                    Some(self.decide_by_permission(decl.permissions.list.as_ref(), &place, "operator:read")?)
                }
            }
            _ => return Err("authorize must ask exactly one of read, write, list".into()),
        };
        if let Some(decision) = decision {
            self.problems.no_fault(self.case.expect.fault.as_deref());
            self.compare_decision(&decision, true);
        }
        Ok(())
    }

    /// Decides as the host does for a type without a hook: by the permission that it declares, or the usual one.
    fn decide_by_permission(
        &self,
        declared: Option<&Permission>,
        id: &pb::Id,
        otherwise: &str,
    ) -> Result<Decision, CaseError> {
        let caller = authorizer(self.case.caller.as_ref())?;
        let refused = match declared {
            Some(permission) => permission.refusal(&*caller, id.into()),
            None => (!caller.is_allowed(otherwise, "")).then(|| denial_text(caller.caller(), otherwise, "")),
        };
        Ok(refused.map_or(Decision::Allow, |reason| Decision::Deny(reason.into())))
    }

    /// Compares a decision; by default it must be to allow.
    fn compare_decision(&mut self, decision: &Decision, always: bool) {
        let expect = &self.case.expect;
        let problem = match (decision, &expect.deny) {
            (Decision::Allow, None) => None,
            (Decision::Allow, Some(_)) => Some("expected a denial, but it was allowed".to_owned()),
            (Decision::Deny(reason), Some(part)) if reason.contains(part.as_str()) => None,
            (Decision::Deny(reason), Some(part)) => {
                Some(format!("denied for another reason than expected:\n-…{part}…\n+{reason}\n"))
            }
            (Decision::Deny(reason), None) => Some(format!("expected no denial, but it was denied: {reason}")),
            (Decision::NeedResource, _) if always => Some("it asked for the resource once more".to_owned()),
            (Decision::NeedResource, _) => None,
        };
        self.problems.extend(problem);
    }

    /// Finds a message of the plugin; `field` of the case names it.
    pub(super) fn message(&self, field: &str, name: &str) -> Result<MessageDescriptor, CaseError> {
        self.plugin.manifest().pool.get_message_by_name(name).ok_or_else(|| {
            format!("{field}: {name} is not among the plugin's descriptors; let build.rs compile its file, too").into()
        })
    }

    pub(super) async fn upgrade(&mut self, asked: &Upgrade) -> Result<(), CaseError> {
        let decl = self.decl_of(&asked.type_name)?;
        if !self.plugin.upgrades() {
            return Err("the plugin does not export upgrading".into());
        }
        let (gvk, message): (&Gvk, _) = (
            &decl.gvk,
            match &asked.message {
                None => decl.message.clone(),
                Some(name) => self.message("upgrade.message", name)?,
            },
        );
        let old = DynamicMessage::deserialize(message, asked.data.clone())
            .map_err(|e| CaseError::field("upgrade.data", e))?;
        let mut call = self.call()?;
        let answer = call.upgrade(gvk.to_pb(), asked.since, mortise_text::encode_message(&old)).await;
        match self.count(&call, answer) {
            None => {}
            Some(UpgradeReply::Refused(diagnostics)) => {
                self.problems.no_fault(self.case.expect.fault.as_deref());
                self.problems.diagnostics(&self.case.expect.diagnostics, &diagnostics);
            }
            Some(UpgradeReply::Data(value)) => {
                self.problems.no_fault(self.case.expect.fault.as_deref());
                self.problems.diagnostics(&self.case.expect.diagnostics, &[]);
                let id = pb::Id { name: "upgraded".into(), r#type: Some(gvk.to_pb()), ..pb::Id::default() };
                let type_url = format!("type.googleapis.com/{}", decl.message.full_name());
                let data = Some(prost_types::Any { type_url, value });
                let after = pb::Resource { id: Some(id), data, ..pb::Resource::default() };
                if let Some(data) = &self.case.expect.data {
                    let expected = pb::Resource { data: self.data(&after, data)?, ..after.clone() };
                    self.problems.same(problems::OTHER_DATA, &self.codec.yaml(&expected), &self.codec.yaml(&after));
                }
            }
        }
        Ok(())
    }
}

/// Schema that data of the type is checked against.
pub(super) fn schema(decl: &TypeDecl) -> Schema {
    Schema::new(decl.message.clone(), decl.immutable.clone(), decl.query.spec.clone())
}

pub(super) fn type_of(resource: &pb::Resource) -> String {
    type_name(resource.id.as_ref().and_then(|id| id.r#type.as_ref()))
}

/// A caller with these permissions and no others.
struct CaseCaller {
    name: String,
    may: Vec<(String, String)>,
}

impl Authorizer for CaseCaller {
    fn is_allowed(&self, permission: &str, name: &str) -> bool {
        self.may.iter().any(|(held, on)| held == permission && on == name)
    }

    fn caller(&self) -> &str {
        &self.name
    }

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.name, &self.may).hash(&mut hasher);
        hasher.finish()
    }
}

/// Returns the caller of a case; by default one with every permission.
fn authorizer(caller: Option<&Caller>) -> Result<Arc<dyn Authorizer>, CaseError> {
    let Some(caller) = caller else { return Ok(Arc::new(AllowAll)) };
    let read = |text: &String| {
        let (permission, on) = text.split_once(" on ").unwrap_or((text, ""));
        let is_permission =
            permission.split_once(':').is_some_and(|(area, level)| !area.is_empty() && !level.is_empty());
        is_permission.then(|| (permission.trim().to_owned(), on.trim().to_owned())).ok_or_else(|| {
            CaseError::from(format!(
                "caller.permissions: {text:?} is not a permission; write `key:read on NAME`, or `operator:read`"
            ))
        })
    };
    let may = caller.permissions.iter().map(read).collect::<Result<_, CaseError>>()?;
    Ok(Arc::new(CaseCaller { name: caller.name.clone().unwrap_or_else(|| "the caller".into()), may }))
}
