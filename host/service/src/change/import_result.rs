//! The resource that a plugin made for `move` or `import`, checked before it is used.

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

/// Data and metadata of a resource that is to be, and what the plugin keeps for it.
pub(super) struct ImportResult {
    /// Its id is the plugin's, if it gave one.
    pub(super) resource: pb::Resource,
    pub(super) kept: Option<Vec<u8>>,
}

impl ImportResult {
    /// Reads a plugin's answer to a caller about a resource of this type.
    ///
    /// # Errors
    /// `InvalidArgument`, for a refusal; the plugin's fault, for what is no resource of the type.
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
        let mut resource = pb::Resource::decode(bytes.as_slice()).map_err(|e| {
            blame_answer(kind, caller, hook, format!("it is no hashicorp.consul.resource.Resource: {e}"))
        })?;
        if let Some(data) = &resource.data {
            admit::check_data(kind, data).map_err(|fault| blame_answer(kind, caller, hook, fault.message))?;
        }
        for key in [meta::FINALIZERS, meta::DELETION_TIMESTAMP] {
            resource.metadata.remove(key);
        }
        Ok(Self { resource, kept })
    }

    /// The batch that stores `resource`, made of this, where nothing is stored, under these expectations.
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

/// The error of a resource that is there already.
pub(super) fn already_exists(id: &pb::Id) -> Error {
    Error::new(Code::AlreadyExists, format!("{} exists already", types::describe(id)))
}

/// The plugin's fault: an answer to a caller that cannot be used.
pub(super) fn blame_answer(kind: &ResourceType, caller: &Caller, hook: &'static str, what: String) -> Error {
    match kind.owner.plugin() {
        Some(plugin) => plugin.blame_answer(hook, caller.number(), what).into(),
        None => Error::internal(what),
    }
}
