//! The resource that a plugin made for `move` or `import`, checked before use.

use mortise_plugin_host::NewResourceReply;
use mortise_resource::{Code, Error, meta, pb, types};
use mortise_store::{Batch, Expectation, Mutation};
use prost::Message as _;

use crate::{
    call::Caller,
    private_bytes,
    references::WrittenReferences,
    registry::ResourceType,
    rules::{admit, refusal},
};

/// Data and metadata of the new resource, and the plugin's private bytes for it.
pub(super) struct ImportResult {
    /// The resource; its id is the plugin's, if the plugin gave one.
    pub(super) resource: pb::Resource,
    pub(super) kept: Option<Vec<u8>>,
}

impl ImportResult {
    /// Reads a plugin's answer for a resource of a type.
    ///
    /// # Errors
    /// `InvalidArgument`: the plugin refuses. The plugin's fault: the answer is not a resource of the type.
    pub(super) fn read(
        kind: &ResourceType,
        caller: &Caller,
        hook: &'static str,
        reply: NewResourceReply,
    ) -> Result<Self, Error> {
        let (bytes, kept) = match reply {
            NewResourceReply::Made { resource, kept } => (resource, kept),
            NewResourceReply::Refused(diagnostics) => return Err(refusal(diagnostics)),
        };
        let mut resource = pb::Resource::decode(bytes.as_slice())
            .map_err(|e| blame_answer(kind, caller, hook, format!("not a hashicorp.consul.resource.Resource: {e}")))?;
        if let Some(data) = &resource.data {
            admit::check_data(kind, data).map_err(|fault| blame_answer(kind, caller, hook, fault.message))?;
        }
        for key in [meta::FINALIZERS, meta::DELETION_TIMESTAMP] {
            resource.metadata.remove(key);
        }
        Ok(Self { resource, kept })
    }

    /// Returns the batch that stores `resource`, made of this result, as a new resource under these expectations.
    pub(super) fn batch(
        self,
        kind: &ResourceType,
        mut resource: pb::Resource,
        mut expect: Vec<Expectation>,
        references: WrittenReferences,
    ) -> Batch {
        resource.references = references.records;
        expect.extend(references.expect);
        let mut mutations = vec![Mutation::Put(Box::new(resource.clone()))];
        if let (Some(kept), Some(plugin)) = (self.kept, kind.owner.plugin()) {
            let owner = resource.id.unwrap_or_default();
            mutations.push(Mutation::Put(Box::new(private_bytes::fresh(plugin.name(), &owner, kept))));
        }
        mutations.extend(references.work);
        Batch { expect, ..Batch::new(mutations).limited() }
    }
}

/// Returns the error for a resource that exists already.
pub(super) fn already_exists(id: &pb::Id) -> Error {
    Error::new(Code::AlreadyExists, format!("{} exists already", types::describe(id)))
}

/// Returns the plugin's fault for an unusable answer.
pub(super) fn blame_answer(kind: &ResourceType, caller: &Caller, hook: &'static str, what: String) -> Error {
    match kind.owner.plugin() {
        Some(plugin) => plugin.blame_answer(hook, caller.number(), what).into(),
        None => Error::internal(what),
    }
}
