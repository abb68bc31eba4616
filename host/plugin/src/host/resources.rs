//! `resources`: the resource service, for reconcilers, within the plugin's grants.

use mortise_resource::{Code, pb, types::Gvk};
use prost::Message;

use crate::{
    bindings::{
        imports::mortise::plugin::resources::Host,
        types::{IdBytes, ResourceBytes, Tenancy, TypeName},
    },
    failure::Failure,
    grants::{Permit, TypeGrant},
    host::{
        call_context::{HostCall, HostCallResult},
        state::State,
    },
};

impl Host for State {
    async fn read(&mut self, id: IdBytes) -> HostCallResult<ResourceBytes> {
        const WHAT: &str = "resources.read";
        self.ask(WHAT, |question| async move {
            let (id, gvk) = read_id(WHAT, "id", &id)?;
            may_read(&question.permit, &gvk)?;
            encoded(WHAT, &question, &question.host.read(id).await?)
        })
        .await
    }

    async fn list(
        &mut self,
        kind: TypeName,
        within: Tenancy,
        name_prefix: String,
    ) -> HostCallResult<Vec<ResourceBytes>> {
        const WHAT: &str = "resources.list";
        self.ask(WHAT, |question| async move {
            let gvk = type_name(kind);
            may_read(&question.permit, &gvk)?;
            let within = pb::Tenancy { partition: within.partition, namespace: within.namespace };
            let mut reply = ListReply::new(WHAT, &question);
            question.host.list(gvk.to_pb(), within, name_prefix, &mut |resource| reply.push(resource)).await?;
            Ok(reply.resources)
        })
        .await
    }

    async fn list_by_owner(&mut self, owner: IdBytes) -> HostCallResult<Vec<ResourceBytes>> {
        const WHAT: &str = "resources.list-by-owner";
        self.ask(WHAT, |question| async move {
            let (owner, gvk) = read_id(WHAT, "owner", &owner)?;
            may_read(&question.permit, &gvk)?;
            let mut reply = ListReply::new(WHAT, &question);
            let mut each = |resource: &pb::Resource| match question.permit.reads_resource(resource) {
                true => reply.push(resource),
                false => Ok(()),
            };
            question.host.list_by_owner(owner, &mut each).await?;
            Ok(reply.resources)
        })
        .await
    }

    async fn write(&mut self, input: ResourceBytes) -> HostCallResult<ResourceBytes> {
        const WHAT: &str = "resources.write";
        self.ask(WHAT, |question| async move {
            question.check_size(WHAT, input.len())?;
            let resource: pb::Resource = decoded(WHAT, "input", "Resource", &input)?;
            let resource_type = resource.id.as_ref().and_then(|id| id.r#type.as_ref());
            may_write(&question.permit, &resource_type.ok_or_else(|| required(WHAT, "input.id.type"))?.into())?;
            question.record_secrets(&resource);
            encoded(WHAT, &question, &question.host.write(resource).await?)
        })
        .await
    }

    async fn write_status(
        &mut self,
        id: IdBytes,
        version: String,
        key: String,
        status: Vec<u8>,
    ) -> HostCallResult<ResourceBytes> {
        const WHAT: &str = "resources.write-status";
        self.ask(WHAT, |question| async move {
            question.check_size(WHAT, status.len())?;
            let (id, gvk) = read_id(WHAT, "id", &id)?;
            may_write(&question.permit, &gvk)?;
            let status = decoded(WHAT, "status", "Status", &status)?;
            encoded(WHAT, &question, &question.host.write_status(id, version, key, status).await?)
        })
        .await
    }

    async fn delete(&mut self, id: IdBytes, version: String) -> HostCallResult<()> {
        const WHAT: &str = "resources.delete";
        self.ask(WHAT, |question| async move {
            let (id, gvk) = read_id(WHAT, "id", &id)?;
            may_write(&question.permit, &gvk)?;
            question.host.delete(id, version).await
        })
        .await
    }
}

pub(super) fn type_name(gvk: TypeName) -> Gvk {
    Gvk::new(gvk.group, gvk.group_version, gvk.kind)
}

/// An id and its type.
pub(super) fn read_id(what: &str, field: &str, bytes: &[u8]) -> Result<(pb::Id, Gvk), Failure> {
    let id: pb::Id = decoded(what, field, "ID", bytes)?;
    let gvk = id.r#type.as_ref().map(Gvk::from).ok_or_else(|| required(what, &format!("{field}.type")))?;
    Ok((id, gvk))
}

pub(super) fn decoded<M: Message + Default>(
    what: &str,
    field: &str,
    message_name: &str,
    bytes: &[u8],
) -> Result<M, Failure> {
    M::decode(bytes).map_err(|e| {
        Failure::new(
            Code::InvalidArgument,
            format!("{what}: {field} is not a hashicorp.consul.resource.{message_name}: {e}"),
        )
    })
}

fn required(what: &str, field: &str) -> Failure {
    Failure::new(Code::InvalidArgument, format!("{what}: {field} is required"))
}

pub(super) fn may_read(permit: &Permit, gvk: &Gvk) -> Result<(), Failure> {
    if permit.reads(gvk) { Ok(()) } else { Err(not_granted(permit, gvk, TypeGrant::Read)) }
}

pub(super) fn may_write(permit: &Permit, gvk: &Gvk) -> Result<(), Failure> {
    if permit.writes(gvk) { Ok(()) } else { Err(not_granted(permit, gvk, TypeGrant::Write)) }
}

fn not_granted(permit: &Permit, gvk: &Gvk, list: TypeGrant) -> Failure {
    let (does, remedy) = (if list == TypeGrant::Read { "read" } else { "write" }, permit.remedy(gvk, list));
    Failure::new(Code::PermissionDenied, format!("this plugin may not {does} {gvk}: {remedy}"))
}

pub(super) fn encoded(what: &str, question: &HostCall, resource: &pb::Resource) -> Result<ResourceBytes, Failure> {
    question.check_size(what, resource.encoded_len())?;
    question.record_secrets(resource);
    Ok(resource.encode_to_vec())
}

/// A list for a guest, encoded and bounded while it is read.
pub(super) struct ListReply<'a> {
    what: &'a str,
    question: &'a HostCall,
    pub(super) resources: Vec<ResourceBytes>,
    bytes: usize,
}

impl<'a> ListReply<'a> {
    pub(super) fn new(what: &'a str, question: &'a HostCall) -> Self {
        Self { what, question, resources: Vec::new(), bytes: 0 }
    }

    /// Adds a resource, unless the list gets too large.
    pub(super) fn push(&mut self, resource: &pb::Resource) -> Result<(), Failure> {
        // An item of a list takes eight bytes beyond its content.
        self.bytes += resource.encoded_len() + 8;
        self.question.check_size(self.what, self.bytes)?;
        self.question.record_secrets(resource);
        self.resources.push(resource.encode_to_vec());
        Ok(())
    }
}
