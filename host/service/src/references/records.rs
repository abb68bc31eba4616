//! The records of the references of a resource, made from its data and its owner references.

use std::collections::BTreeSet;

use mortise_plugin_host::{DataReference, DataReferenceError};
use mortise_resource::{
    Code, Error, FieldFault, Scope,
    data::{OnDelete, ReferenceRecord},
    goten::OwnerReference,
    pb,
    tenancy::DEFAULT,
    types::Gvk,
};

use super::{error::TargetError, key::ResourceKey};
use crate::{
    core::{
        Core,
        ids::{self, tenancy_of, type_of},
    },
    registry::{Registry, ResourceType},
    rules::upgrade,
};

/// Returns the target of a reference in data.
pub(crate) fn target_of(
    registry: &Registry,
    reference: &DataReference,
    holder: &pb::Tenancy,
) -> Result<ResourceKey, TargetError> {
    let DataReference { target, tenancy, name, .. } = reference;
    target_key(registry, (&target.group, &target.kind), (&tenancy.partition, &tenancy.namespace), name, holder)
}

/// Returns the target of an owner reference: `demo/Artist` or `demo.v2.Artist` by name, namespace/name or
/// partition/namespace/name. An invalid reference, stored before writes were checked, has a target that never exists.
pub(crate) fn owner_of(registry: &Registry, reference: &OwnerReference, holder: &pb::Tenancy) -> ResourceKey {
    let OwnerReference { kind, name, .. } = reference;
    let full: Option<Gvk> = kind.parse().ok();
    let names = kind.split_once('/').or(full.as_ref().map(|full| (full.group.as_str(), full.kind.as_str())));
    let (given, last) = owner_place(name);
    let found = names.and_then(|names| target_key(registry, names, given, last, holder).ok());
    found.unwrap_or_else(|| {
        let (group, kind) = names.unwrap_or((kind, ""));
        let [group, kind, name] = [group, kind, name].map(str::to_owned);
        ResourceKey { group, kind, partition: String::new(), namespace: String::new(), name }
    })
}

/// Splits the name of an owner into partition and namespace, as far as given, and the name itself.
pub(super) fn owner_place(name: &str) -> ((&str, &str), &str) {
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [namespace, name] => (("", *namespace), *name),
        [partition, namespace, name] => ((*partition, *namespace), *name),
        _ => (("", ""), name),
    }
}

/// Returns the key of a target; the missing parts of its tenancy are those of the holder.
pub(super) fn target_key(
    registry: &Registry,
    (group, kind): (&str, &str),
    (partition, namespace): (&str, &str),
    name: &str,
    holder: &pb::Tenancy,
) -> Result<ResourceKey, TargetError> {
    let first = |units: [&str; 3]| units.into_iter().find(|unit| !unit.is_empty()).unwrap_or_default().to_owned();
    let (partition, namespace) = match registry.scope_of(group, kind) {
        Some(Scope::Cluster) if partition.is_empty() && namespace.is_empty() => (String::new(), String::new()),
        Some(Scope::Cluster) => return Err(TargetError::NoTenancy(format!("{group}.{kind}"))),
        // A single unit can only be the partition.
        Some(Scope::Partition) if partition.is_empty() || namespace.is_empty() => {
            (first([&first([partition, namespace, ""]), &holder.partition, DEFAULT]), String::new())
        }
        Some(Scope::Partition) => {
            return Err(TargetError::NoNamespace(format!("{group}.{kind}")));
        }
        Some(Scope::Namespace | Scope::Undefined) | None => {
            (first([partition, &holder.partition, DEFAULT]), first([namespace, &holder.namespace, DEFAULT]))
        }
    };
    let [group, kind, name] = [group, kind, name].map(str::to_owned);
    Ok(ResourceKey { group, kind, partition, namespace, name })
}

/// Treatment of faults in data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// Refuses faults, for a write.
    Strict,
    /// Skips faults, for data stored before the declaration.
    Lenient,
}

/// Returns the record of an owner reference to this owner.
pub(crate) fn owner_record<'r>(records: &'r [ReferenceRecord], owner: &ResourceKey) -> Option<&'r ReferenceRecord> {
    records.iter().find(|record| is_owner_record(record) && ResourceKey::from(*record) == *owner)
}

/// Whether the record is of an entry of `meta.owner_references` that the resource has.
pub(crate) fn is_owner_record(record: &ReferenceRecord) -> bool {
    record.field.is_empty() && !is_past(record)
}

/// Whether the record is of an entry that the resource had, of an owner that is gone.
pub(crate) fn is_past(record: &ReferenceRecord) -> bool {
    !record.let_go_by.is_empty()
}

/// Whether the record is of an owner reference that counts as one to a missing owner, since the writer may not read the
/// owner: its behaviour is `AllowDangling`, so that no deletion of the owner finds it.
pub(crate) fn is_unreadable_owner(record: &ReferenceRecord) -> bool {
    is_owner_record(record) && record.on_delete() == OnDelete::AllowDangling
}

/// Returns the records of a resource, in order. The times of owner references come from `stored`, and so do their
/// readability by the writer, the owners for which they hold, and the records of past entries.
///
/// # Errors
/// `InvalidArgument`, with the field: an invalid reference in the data, or too many references.
pub(crate) fn records(
    registry: &Registry,
    kind: &ResourceType,
    resource: &pb::Resource,
    stored: Option<&pb::Resource>,
    reading: Strictness,
) -> Result<Vec<ReferenceRecord>, Error> {
    let mut records = data_records(registry, kind, resource, reading)?;
    let owners = resource.meta.iter().flat_map(|meta| &meta.owner_references);
    if owners.clone().next().is_none() {
        return Ok(records);
    }
    let holder = resource.id.as_ref().map(tenancy_of).cloned().unwrap_or_default();
    for owner in owners {
        let mut record = record(owner_of(registry, owner, &holder), String::new(), OnDelete::Unspecified);
        let known = stored.and_then(|stored| owner_record(&stored.references, &ResourceKey::from(&record)));
        // An entry with another uid is another entry.
        let known = known.filter(|known| {
            [&known.owner_uid, &owner.uid].iter().any(|uid| uid.is_empty()) || known.owner_uid == owner.uid
        });
        record.since = known.and_then(|known| known.since).or_else(|| Some(ids::milliseconds()));
        if let Some(known) = known {
            record.on_delete = known.on_delete;
            record.owner_uid.clone_from(&known.owner_uid);
            record.owner_region.clone_from(&known.owner_region);
        }
        if !records.iter().any(|other| is_same(other, &record)) {
            records.push(record);
        }
    }
    let past = stored.iter().flat_map(|stored| &stored.references).filter(|record| is_past(record));
    records.extend(past.cloned());
    Ok(records)
}

/// Renews the records of a resource that is about to be stored with unchanged data. The pass over its type may store
/// new records at this moment without a new version; a write of the old records would remove them.
pub(crate) fn renew_records(core: &Core, resource: &mut pb::Resource) {
    let registry = core.types();
    let Some(kind) = resource.id.as_ref().and_then(|id| registry.get(&type_of(id))) else { return };
    // Data of an older schema version has fewer references than the records of an upgraded one.
    let is_older = upgrade::schema_version(resource) != kind.schema_version.get() && !resource.references.is_empty();
    // Lenient reading has no errors.
    if !kind.references.is_empty()
        && !is_older
        && let Ok(records) = records(&registry, kind, resource, Some(resource), Strictness::Lenient)
    {
        resource.references = records;
    }
}

/// Returns the records of a resource's data, in order; none for data of another type.
pub(super) fn data_records(
    registry: &Registry,
    kind: &ResourceType,
    resource: &pb::Resource,
    reading: Strictness,
) -> Result<Vec<ReferenceRecord>, Error> {
    if kind.references.is_empty() {
        return Ok(Vec::new());
    }
    let data = resource.data.as_ref().filter(|data| kind.schema.accepts_url(&data.type_url));
    let data = data.map(|data| data.value.as_slice()).unwrap_or_default();
    let found = match reading {
        Strictness::Strict => kind.references.find(kind.schema.message(), data).map_err(|fault| refused(&fault))?,
        Strictness::Lenient => kind.references.find_readable(kind.schema.message(), data),
    };
    let holder = resource.id.as_ref().map(tenancy_of).cloned().unwrap_or_default();
    let mut records = BTreeSet::new();
    for reference in found {
        match target_of(registry, &reference, &holder) {
            Ok(target) => drop(records.insert((target, reference.field, reference.on_delete))),
            Err(fault) if reading == Strictness::Strict => {
                return Err(in_field(Code::InvalidArgument, &reference.field, &fault.to_string()));
            }
            Err(_) => {}
        }
    }
    Ok(records.into_iter().map(|(target, field, on_delete)| record(target, field, on_delete)).collect())
}

/// Whether both have the same field and the same target.
pub(crate) fn is_same(a: &ReferenceRecord, b: &ReferenceRecord) -> bool {
    a.field == b.field && a.on_delete == b.on_delete && ResourceKey::from(a) == ResourceKey::from(b)
}

fn record(target: ResourceKey, field: String, on_delete: OnDelete) -> ReferenceRecord {
    let ResourceKey { group, kind, partition, namespace, name } = target;
    let on_delete = on_delete.into();
    ReferenceRecord { group, kind, partition, namespace, name, field, on_delete, ..ReferenceRecord::default() }
}

fn refused(fault: &DataReferenceError) -> Error {
    match fault {
        DataReferenceError::Bad(FieldFault { path, fault }) => {
            in_field(Code::InvalidArgument, &path.to_string(), fault)
        }
        other => Error::invalid(format!("resource.{other}")),
    }
}

/// Returns the error for a reference in a field of data.
pub(super) fn in_field(code: Code, field: &str, what: &str) -> Error {
    let path = format!("data.{field}");
    Error::new(code, format!("{path} {what}")).with_violation(path, what)
}
