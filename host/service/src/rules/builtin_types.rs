//! Hooks of the host's own types.
//!
//! A partition or namespace has a finalizer of the host, so that Delete marks it: from then on writes into it are
//! refused, and [`crate::deletion::tenancy_cleanup`] deletes its resources, and the unit itself when it is empty. No
//! client can remove the finalizer.
//!
//! An unusable token is refused when it is written, and so is an invalid policy of regions. The words of policies are
//! checked in [`super::access_rules`].

use std::fmt::Display;

use super::region_policy;
use crate::registry::{Owner, ResourceType};
use mortise_acl::{GLOBAL_MANAGEMENT, MAX_POLICIES};
use mortise_resource::{
    Error, FieldFault, FieldPath, PathStep, data, meta, name, pb,
    proto::hashicorp::consul::tenancy::v2beta1::Partition, tenancy, types,
};
use prost::Message;

/// The finalizer that keeps a tenancy unit until it is empty.
pub(crate) const TENANCY_FINALIZER: &str = "mortise.io/tenancy";

/// Whether a type is a unit of tenancy: the types of the host's tenancy group. Every write asks several times.
pub(crate) fn is_tenancy(kind: &ResourceType) -> bool {
    kind.gvk.group == types::TENANCY_GROUP
}

/// Whether a type is that of tokens or that of policies. Every write asks several times.
pub(crate) fn is_access(kind: &ResourceType) -> bool {
    kind.gvk.group == types::HOST_GROUP && (kind.gvk == types::token() || kind.gvk == types::policy())
}

pub(crate) fn mutate(kind: &ResourceType, resource: &mut pb::Resource) {
    if is_tenancy(kind) {
        meta::add_finalizer(&mut resource.metadata, TENANCY_FINALIZER);
    }
}

pub(super) fn validate(kind: &ResourceType, resource: &pb::Resource) -> Result<(), Error> {
    // Types of plugins end here.
    if !matches!(kind.owner, Owner::Host) {
        return Ok(());
    }
    if is_tenancy(kind) && meta::is_marked(&resource.metadata) {
        refuse_default(kind, resource)?;
    }
    if kind.gvk == types::partition()
        && let Some(regions) = decode_optional::<Partition>(resource)?.multi_region_policy
    {
        region_policy::check(&regions).map_err(refusal)?;
    }
    if !is_access(kind) {
        return Ok(());
    }
    if kind.gvk == types::token() {
        check_token(&decode(resource)?)?;
    }
    if kind.gvk == types::policy() && resource.id.as_ref().is_some_and(|id| id.name == GLOBAL_MANAGEMENT) {
        return Err(Error::invalid(format!("policy {GLOBAL_MANAGEMENT:?} always exists and cannot be changed")));
    }
    Ok(())
}

pub(super) fn decode<M: Message + Default>(resource: &pb::Resource) -> Result<M, Error> {
    let data = resource.data.as_ref().ok_or_else(|| Error::invalid("resource.data is required"))?;
    // The data was checked along its descriptor already.
    M::decode(data.value.as_slice()).map_err(|fault| Error::invalid(format!("resource.data: {fault}")))
}

/// Like [`decode`]; a resource without data gives an empty message.
fn decode_optional<M: Message + Default>(resource: &pb::Resource) -> Result<M, Error> {
    if resource.data.is_some() { decode(resource) } else { Ok(M::default()) }
}

fn check_token(token: &data::Token) -> Result<(), Error> {
    let length = token.secret_sha256.len();
    if length != 32 {
        let what =
            format!("must be the SHA-256 of the secret, 32 bytes, got {length}; `mortise token create` makes one");
        return Err(refusal(FieldFault { path: FieldPath::field("secret_sha256"), fault: what }));
    }
    let previous = token.previous_secret_sha256.len();
    if !matches!(previous, 0 | 32) || (previous == 0) != token.previous_expires_at.is_none() {
        let what = "must be 32 bytes together with previous_expires_at, or absent; `mortise token rotate` sets both";
        return Err(refusal(FieldFault { path: FieldPath::field("previous_secret_sha256"), fault: what }));
    }
    if token.policies.len() > MAX_POLICIES {
        let what = format!("{} policies; a token has at most {MAX_POLICIES}", token.policies.len());
        return Err(refusal(FieldFault { path: FieldPath::field("policies"), fault: what }));
    }
    let units = [("partition", &token.partition), ("namespace", &token.namespace)];
    let policy = |index| FieldPath::field("policies").with(PathStep::index(index));
    let named = token.policies.iter().enumerate().map(|(index, name)| (policy(index), name));
    let given = units.into_iter().filter(|(_, unit)| !unit.is_empty());
    for (path, name) in named.chain(given.map(|(field, unit)| (FieldPath::field(field), unit))) {
        if let Some(fault) = name::fault(name) {
            return Err(refusal(FieldFault { path, fault }));
        }
    }
    Ok(())
}

/// Refuses a write for a fault in a field of its data.
pub(super) fn refusal<F: Display>(fault: FieldFault<F>) -> Error {
    let fault = fault.within(PathStep::Field("data".into()));
    Error::invalid(fault.to_string()).with_violation(fault.path, fault.fault)
}

/// Whether an id names a unit `default`, which exists for as long as the unit around it.
pub(crate) fn is_default(id: &pb::Id) -> bool {
    let ty = id.r#type.as_ref();
    id.name == tenancy::DEFAULT && ty.is_some_and(|ty| types::partition().matches(ty) || types::namespace().matches(ty))
}

/// Refuses the deletion of a unit `default`.
pub(crate) fn refuse_default(kind: &ResourceType, resource: &pb::Resource) -> Result<(), Error> {
    if let Some(id) = resource.id.as_ref().filter(|id| is_default(id)) {
        let name = &id.name;
        let unit = kind.gvk.kind.to_lowercase();
        return Err(Error::invalid(format!("{unit} {name:?} always exists and cannot be deleted")));
    }
    Ok(())
}
