//! Runs a case of `plan`, `move` or `import`: the call, and the hooks of the write around it, in a server's order.
//!
//! # Limits
//! References and owners are not checked, as in all cases of hooks, and no caller is asked for permissions.

use std::sync::Arc;

use mortise_plugin_host::{Call, Cancel, NewResourceReply, PlanReply, Reconciler, TypeDecl};
use mortise_resource::{Diagnostic, FieldPath, PathStep, meta, pb, types::Gvk};
use prost::Message as _;
use prost_reflect::DynamicMessage;
use serde_json::Value;

use super::{
    case::{Import, MoveTo},
    error::CaseError,
    exchange::Journal,
    hooks::{HookCase, schema, type_of},
    outside::{Outside, compare_requests},
    private_bytes,
    problems::{is_refusal, without_error},
};

/// Longest external id, as on a server.
const MAX_EXTERNAL_ID_BYTES: usize = 1024;

/// Fault of a call whose type has no such hook.
fn without(gvk: &Gvk, hook: &str) -> CaseError {
    format!("{gvk} has no {hook} hook").into()
}

impl HookCase<'_> {
    pub(super) async fn plan(&mut self, resource: &Value) -> Result<(), CaseError> {
        let mut before = self.codec.read("plan", resource)?;
        let decl = self.decl(&before)?;
        if !decl.hooks.plan {
            return Err(without(&decl.gvk, "plan"));
        }
        let stored = self.stored()?;
        if let Some(stored) = &stored {
            check_same(&before, stored)?;
            before.status.clone_from(&stored.status);
        }
        let kept = self.kept_for(&before)?;
        if kept.is_some() && stored.is_none() {
            return Err("private_bytes: a resource that is created has none; give it `stored`".into());
        }
        let mut call = self.call()?;
        let Some((mut after, mut all)) = self.accept(&mut call, decl, &before, None).await? else { return Ok(()) };
        let mut replace = Vec::new();
        if !is_refusal(&all) {
            // A write without a version leaves these as they are.
            for key in [meta::FINALIZERS, meta::DELETION_TIMESTAMP] {
                let kept = stored.as_ref().and_then(|stored| stored.metadata.get(key));
                if let Some(kept) = kept.filter(|_| before.version.is_empty() && !after.metadata.contains_key(key)) {
                    after.metadata.insert(key.to_owned(), kept.clone());
                }
            }
            let prior = stored.as_ref().map(prost::Message::encode_to_vec);
            let answer = call.plan(after.encode_to_vec(), prior, kept).await;
            let Some(planned) = self.count(&call, answer) else { return Ok(()) };
            if is_refusal(&planned.diagnostics) {
                all = planned.diagnostics;
            } else {
                if let Some(stored) = &stored {
                    replace = fixed_by_host(decl, stored, &after);
                    for path in planned.replace.iter() {
                        self.check_replaceable(path);
                        replace.push(path.clone());
                    }
                    replace.dedup();
                    // As in the write, `validate` sees the resource that is to be replaced.
                    if replace.is_empty() && decl.hooks.validate {
                        let Some(diagnostics) = self.call_validate(&mut call, &after, Some(stored)).await? else {
                            return Ok(());
                        };
                        all = diagnostics;
                    }
                }
                after = self.predicted(&after, &planned)?;
                if !is_refusal(&all) {
                    all.extend(planned.diagnostics);
                }
            }
        }
        self.problems.no_fault(self.case.expect.fault.as_deref());
        if !is_refusal(&all) {
            self.compare(&before, &after)?;
            let lines = |paths: &mut dyn Iterator<Item = String>| paths.map(|path| path + "\n").collect::<String>();
            let expected = lines(&mut self.case.expect.replace.iter().cloned());
            let found = lines(&mut replace.iter().map(ToString::to_string));
            self.problems.same("other fields to be replaced than expected:", &expected, &found);
        }
        self.problems.diagnostics(&self.case.expect.diagnostics, &all);
        Ok(())
    }

    /// Checks that a path is one that a plan may name.
    fn check_replaceable(&mut self, path: &FieldPath) {
        if !matches!(path.0.first(), Some(PathStep::Field(first)) if first == "data" || first == "metadata") {
            self.problems.add(format!("plan names {path} to be replaced; paths begin with data or metadata"));
        }
    }

    /// The resource that a plan predicts: as the write leaves it, unless the plugin says otherwise.
    fn predicted(&mut self, after: &pb::Resource, planned: &PlanReply) -> Result<pb::Resource, CaseError> {
        let Some(bytes) = &planned.predicted else { return Ok(after.clone()) };
        match pb::Resource::decode(bytes.as_slice()) {
            Err(e) => self.problems.add(format!("plan's prediction is not a resource: {e}")),
            Ok(predicted) if self.check_reserved_fields("plan", after, &predicted)? => return Ok(predicted),
            Ok(_) => {}
        }
        Ok(after.clone())
    }

    pub(super) async fn move_to(&mut self, asked: &MoveTo) -> Result<(), CaseError> {
        let decl = self.decl_of(&asked.to)?;
        let source = self.source(decl, asked)?;
        let kept = self.kept_for(&source)?;
        let mut call = self.call()?;
        let answer = call.move_to(decl.gvk.to_pb(), source.encode_to_vec(), asked.since, kept).await;
        let Some(reply) = self.count(&call, answer) else { return Ok(()) };
        let id = pb::Id { r#type: Some(decl.gvk.to_pb()), ..source.id.clone().unwrap_or_default() };
        self.compare_new(&mut call, decl, "move", reply, id).await
    }

    /// The resource that is moved, in the form in which it is stored.
    fn source(&self, to: &TypeDecl, asked: &MoveTo) -> Result<pb::Resource, CaseError> {
        let gvk: Gvk = asked.type_name.parse().map_err(|e| CaseError::field("move.type", e))?;
        if !to.moved_from.contains(&gvk) {
            let from = to.moved_from.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let from = if from.is_empty() { "nothing".to_owned() } else { from };
            return Err(format!("{} is made from {from}, not from {gvk}", to.gvk).into());
        }
        let known = self.codec.message(&gvk);
        let message = match &asked.message {
            Some(name) => Some(self.message("move.message", name)?),
            None => known,
        };
        let message = message.ok_or_else(|| {
            format!("the plugin has no type {gvk} any more; name the message of its data: `message: NAME`")
        })?;
        let data = DynamicMessage::deserialize(message.clone(), asked.data.clone())
            .map_err(|e| CaseError::field("move.data", e))?;
        if let Some(fault) = mortise_resource::name::fault(&asked.name) {
            return Err(CaseError::field("move.name", fault));
        }
        let id = pb::Id {
            r#type: Some(gvk.to_pb()),
            tenancy: Some(self.tenancy(to, asked.partition.as_ref(), asked.namespace.as_ref())?),
            name: asked.name.clone(),
            uid: String::new(),
        };
        let type_url = format!("type.googleapis.com/{}", message.full_name());
        let data = Some(prost_types::Any { type_url, value: mortise_text::encode_message(&data) });
        Ok(pb::Resource { id: Some(id), metadata: asked.metadata.clone(), data, ..pb::Resource::default() })
    }

    /// Imports an external object, at a time in milliseconds since 1970.
    pub(super) async fn import(&mut self, asked: &Import, now: u64) -> Result<(), CaseError> {
        let decl = self.decl_of(&asked.type_name)?;
        let importer = Reconciler::new(self.plugin).filter(|_| decl.hooks.import);
        let importer = importer.ok_or_else(|| without(&decl.gvk, "import"))?;
        if !(1..=MAX_EXTERNAL_ID_BYTES).contains(&asked.id.len()) || asked.id.chars().any(char::is_control) {
            let what = format!("import.id must be 1 to {MAX_EXTERNAL_ID_BYTES} bytes without control characters");
            return Err(what.into());
        }
        let within = self.tenancy(decl, asked.partition.as_ref(), asked.namespace.as_ref())?;
        let journal = Journal::new(Arc::new(Outside::of(self.case, now)));
        let id = pb::Id { r#type: Some(decl.gvk.to_pb()), tenancy: Some(within.clone()), ..pb::Id::default() };
        let answer = importer.import(decl.gvk.to_pb(), within, asked.id.clone(), journal.clone(), &Cancel::new()).await;
        self.fuel += importer.used().fuel;
        if let Some(expected) = &self.case.expect.requests {
            compare_requests(&mut self.problems, expected, &journal.exchanges());
        }
        match answer {
            Err(fault) => self.problems.fault(self.case.expect.fault.as_deref(), &fault.to_string()),
            Ok(reply) => {
                let mut call = self.call()?;
                self.compare_new(&mut call, decl, "import", reply, id).await?;
            }
        }
        Ok(())
    }

    /// Runs the hooks of a write on a new resource, and compares it with the expected one. An id without a name gets
    /// that of the plugin.
    async fn compare_new(
        &mut self,
        call: &mut Call,
        decl: &TypeDecl,
        hook: &str,
        reply: NewResourceReply,
        mut id: pb::Id,
    ) -> Result<(), CaseError> {
        let (bytes, kept) = match reply {
            NewResourceReply::Made { resource, kept } => (resource, kept),
            NewResourceReply::Refused(diagnostics) if !is_refusal(&diagnostics) => {
                self.problems.add(without_error(hook));
                return Ok(());
            }
            NewResourceReply::Refused(diagnostics) => {
                self.problems.no_fault(self.case.expect.fault.as_deref());
                self.problems.diagnostics(&self.case.expect.diagnostics, &diagnostics);
                return Ok(());
            }
        };
        let mut made = match pb::Resource::decode(bytes.as_slice()) {
            Ok(made) => made,
            Err(e) => {
                self.problems.add(format!("{hook}'s answer is not a resource: {e}"));
                return Ok(());
            }
        };
        if let Some(fault) = made.data.as_ref().and_then(|data| unusable_data(decl, hook, data)) {
            self.problems.add(fault);
            return Ok(());
        }
        if id.name.is_empty() {
            id.name = made.id.take().map(|id| id.name).unwrap_or_default();
            if let Some(fault) = mortise_resource::name::fault(&id.name) {
                self.problems
                    .add(format!("{hook} names the resource {:?}, which no resource can be called: {fault}", id.name));
            }
        }
        made.metadata.retain(|key, _| key != meta::FINALIZERS && key != meta::DELETION_TIMESTAMP);
        let made = pb::Resource { id: Some(id), data: made.data, metadata: made.metadata, ..pb::Resource::default() };
        let Some((after, all)) = self.accept(call, decl, &made, None).await? else { return Ok(()) };
        self.problems.no_fault(self.case.expect.fault.as_deref());
        if !is_refusal(&all) {
            self.compare_made(decl, &after, kept)?;
        }
        self.problems.diagnostics(&self.case.expect.diagnostics, &all);
        Ok(())
    }

    fn compare_made(&mut self, decl: &TypeDecl, after: &pb::Resource, kept: Option<Vec<u8>>) -> Result<(), CaseError> {
        let (id, expect) = (after.id.clone().unwrap_or_default(), &self.case.expect);
        if let Some(name) = &expect.name {
            self.problems.same("another name than expected:", name, &id.name);
        }
        self.compare(after, after)?;
        let expected = expect.private_bytes.clone().unwrap_or_default();
        let found: Vec<_> = kept.into_iter().map(|bytes| (id.clone(), bytes)).collect();
        private_bytes::compare(&mut self.problems, self.codec, &decl.gvk, &expected, &found)
    }

    /// Runs `mutate` and `validate` on a resource, as a write does; returns it with their diagnostics. `None` after a
    /// fault.
    pub(super) async fn accept(
        &mut self,
        call: &mut Call,
        decl: &TypeDecl,
        before: &pb::Resource,
        prior: Option<&pb::Resource>,
    ) -> Result<Option<(pb::Resource, Vec<Diagnostic>)>, CaseError> {
        let (mut after, mut all) = (before.clone(), Vec::new());
        if decl.hooks.mutate {
            match self.call_mutate(call, before, &mut all).await? {
                Some(mutated) => after = mutated,
                None => return Ok(None),
            }
        }
        if decl.hooks.validate && all.is_empty() {
            match self.call_validate(call, &after, prior).await? {
                Some(diagnostics) => all.extend(diagnostics),
                None => return Ok(None),
            }
        }
        Ok(Some((after, all)))
    }

    /// Tenancy that a case gives, filled in as on a server.
    fn tenancy(
        &self,
        decl: &TypeDecl,
        partition: Option<&String>,
        namespace: Option<&String>,
    ) -> Result<pb::Tenancy, CaseError> {
        let unit = |given: Option<&String>| given.cloned().unwrap_or_default();
        let given = pb::Tenancy { partition: unit(partition), namespace: unit(namespace) };
        decl.scope
            .check("resource", &decl.gvk.to_string(), &given)
            .map_err(|fault| CaseError::Invalid(fault.message.into()))?;
        Ok(self.codec.tenancy(&decl.gvk, partition, namespace))
    }

    /// Private bytes that the case gives for a resource.
    fn kept_for(&self, resource: &pb::Resource) -> Result<Option<Vec<u8>>, CaseError> {
        let id = resource.id.clone().unwrap_or_default();
        let own: Gvk = id.r#type.as_ref().map(Gvk::from).unwrap_or_else(|| Gvk::new("", "", ""));
        match self.case.private_bytes.iter().collect::<Vec<_>>().as_slice() {
            [] => Ok(None),
            [(name, text)] if is_of(&private_bytes::id(self.codec, &own, name)?, &id) => {
                Ok(Some(text.as_bytes().to_vec()))
            }
            _ => Err(format!("private_bytes: only those of {}/{} are used here", type_of(resource), id.name).into()),
        }
    }
}

/// Tells whether two ids have the same type and name.
fn is_of(one: &pb::Id, other: &pb::Id) -> bool {
    one.r#type == other.r#type && one.name == other.name
}

/// Refuses a stored resource that a write of this one would not meet.
fn check_same(planned: &pb::Resource, stored: &pb::Resource) -> Result<(), CaseError> {
    let place = |resource: &pb::Resource| {
        let id = resource.id.clone().unwrap_or_default();
        let kind = id.r#type.unwrap_or_default();
        (kind.group, kind.kind, id.name, id.tenancy)
    };
    match place(planned) == place(stored) {
        true => Ok(()),
        false => Err("stored is another resource than that of plan; both have one type, name and tenancy".into()),
    }
}

/// Changes that a server refuses in place: another owner, another value of an immutable field.
fn fixed_by_host(decl: &TypeDecl, stored: &pb::Resource, after: &pb::Resource) -> Vec<FieldPath> {
    let owner = (after.owner != stored.owner).then(|| FieldPath(vec![PathStep::Field("owner".into())]));
    let bytes = |resource: &pb::Resource| resource.data.as_ref().map(|data| data.value.clone()).unwrap_or_default();
    let is_of_one_version = stored.id.as_ref().and_then(|id| id.r#type.as_ref()).is_some_and(|of| decl.gvk.matches(of));
    let changed = match is_of_one_version {
        true => schema(decl).changed_immutable(&bytes(stored), &bytes(after)),
        false => Vec::new(),
    };
    owner.into_iter().chain(changed).collect()
}

/// Fault of data that is not of the type's message.
pub(super) fn unusable_data(decl: &TypeDecl, hook: &str, data: &prost_types::Any) -> Option<String> {
    let schema = schema(decl);
    let message = schema.message().full_name();
    if !schema.accepts_url(&data.type_url) {
        return Some(format!("{hook} made data a {:?}; it must be a {message}", data.type_url));
    }
    let fault = schema.check(&data.value).err()?;
    Some(format!("{hook} answered data that is not a {message}: {fault}"))
}
