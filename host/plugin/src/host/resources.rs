//! `resources`: the resource service, for reconcilers, within what is granted.

use mortise_resource::{Code, pb, types::Gvk};
use prost::Message;

use crate::{
    bindings::{
        imports::mortise::plugin::resources::Host,
        types::{IdBytes, ResourceBytes, Tenancy, TypeName},
    },
    grants::{Permit, TypeGrant},
    host::{
        call_context::{Answer, Question},
        reconciler_host::Failure,
        state::State,
    },
};

impl Host for State {
    async fn read(&mut self, id: IdBytes) -> Answer<ResourceBytes> {
        const WHAT: &str = "resources.read";
        self.ask(WHAT, |question| async move {
            let (id, of) = read_id(WHAT, "id", &id)?;
            may_read(&question.permit, &of)?;
            encoded(WHAT, &question, &question.host.read(id).await?)
        })
        .await
    }

    async fn list(&mut self, of: TypeName, within: Tenancy, name_prefix: String) -> Answer<Vec<ResourceBytes>> {
        const WHAT: &str = "resources.list";
        self.ask(WHAT, |question| async move {
            let of = type_name(of);
            may_read(&question.permit, &of)?;
            let within = pb::Tenancy { partition: within.partition, namespace: within.namespace };
            let found = question.host.list(of.to_pb(), within, name_prefix).await?;
            all_encoded(WHAT, &question, &found)
        })
        .await
    }

    async fn list_by_owner(&mut self, owner: IdBytes) -> Answer<Vec<ResourceBytes>> {
        const WHAT: &str = "resources.list-by-owner";
        self.ask(WHAT, |question| async move {
            let (owner, of) = read_id(WHAT, "owner", &owner)?;
            may_read(&question.permit, &of)?;
            let mut found = question.host.list_by_owner(owner).await?;
            found.retain(|resource| question.permit.reads_resource(resource));
            all_encoded(WHAT, &question, &found)
        })
        .await
    }

    async fn write(&mut self, input: ResourceBytes) -> Answer<ResourceBytes> {
        const WHAT: &str = "resources.write";
        self.ask(WHAT, |question| async move {
            question.bounded(WHAT, input.len())?;
            let resource: pb::Resource = decoded(WHAT, "input", "Resource", &input)?;
            let of = resource.id.as_ref().and_then(|id| id.r#type.as_ref());
            may_write(&question.permit, &of.ok_or_else(|| required(WHAT, "input.id.type"))?.into())?;
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
    ) -> Answer<ResourceBytes> {
        const WHAT: &str = "resources.write-status";
        self.ask(WHAT, |question| async move {
            question.bounded(WHAT, status.len())?;
            let (id, of) = read_id(WHAT, "id", &id)?;
            may_write(&question.permit, &of)?;
            let status = decoded(WHAT, "status", "Status", &status)?;
            encoded(WHAT, &question, &question.host.write_status(id, version, key, status).await?)
        })
        .await
    }

    async fn delete(&mut self, id: IdBytes, version: String) -> Answer<()> {
        const WHAT: &str = "resources.delete";
        self.ask(WHAT, |question| async move {
            let (id, of) = read_id(WHAT, "id", &id)?;
            may_write(&question.permit, &of)?;
            question.host.delete(id, version).await
        })
        .await
    }
}

pub(super) fn type_name(of: TypeName) -> Gvk {
    Gvk::new(of.group, of.group_version, of.kind)
}

/// An id and its type.
pub(super) fn read_id(what: &str, field: &str, bytes: &[u8]) -> Result<(pb::Id, Gvk), Failure> {
    let id: pb::Id = decoded(what, field, "ID", bytes)?;
    let of = id.r#type.as_ref().map(Gvk::from).ok_or_else(|| required(what, &format!("{field}.type")))?;
    Ok((id, of))
}

pub(super) fn decoded<M: Message + Default>(what: &str, field: &str, of: &str, bytes: &[u8]) -> Result<M, Failure> {
    M::decode(bytes).map_err(|e| {
        Failure::new(Code::InvalidArgument, format!("{what}: {field} is no hashicorp.consul.resource.{of}: {e}"))
    })
}

fn required(what: &str, field: &str) -> Failure {
    Failure::new(Code::InvalidArgument, format!("{what}: {field} is required"))
}

pub(super) fn may_read(permit: &Permit, of: &Gvk) -> Result<(), Failure> {
    if permit.reads(of) { Ok(()) } else { Err(not_granted(permit, of, TypeGrant::Read)) }
}

fn may_write(permit: &Permit, of: &Gvk) -> Result<(), Failure> {
    if permit.writes(of) { Ok(()) } else { Err(not_granted(permit, of, TypeGrant::Write)) }
}

fn not_granted(permit: &Permit, of: &Gvk, list: TypeGrant) -> Failure {
    let (does, remedy) = (if list == TypeGrant::Read { "read" } else { "write" }, permit.remedy(of, list));
    Failure::new(Code::PermissionDenied, format!("this plugin may not {does} {of}: {remedy}"))
}

pub(super) fn encoded(what: &str, question: &Question, resource: &pb::Resource) -> Result<ResourceBytes, Failure> {
    question.bounded(what, resource.encoded_len())?;
    Ok(resource.encode_to_vec())
}

pub(super) fn all_encoded(
    what: &str,
    question: &Question,
    resources: &[pb::Resource],
) -> Result<Vec<ResourceBytes>, Failure> {
    // An item of a list takes eight bytes beyond its content.
    question.bounded(what, resources.iter().map(|resource| resource.encoded_len() + 8).sum())?;
    Ok(resources.iter().map(Message::encode_to_vec).collect())
}
