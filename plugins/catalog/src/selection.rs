//! Selection of workloads by services, in both directions.
//!
//! # Contract
//! Both directions use indexes of the controller's cache, within one namespace; nothing is scanned. The results of an
//! index are compared with the selector itself, so an index may find too much, and never too little.
//!
//! # Cost
//! [`services`]: one lookup for the workload's name, one for each prefix of it, one for each pair of its metadata.
//! [`workloads`]: one lookup for each name and each prefix, or one for a label.

use std::collections::BTreeMap;

use mortise_plugin::{Context, Error, Failure, Index, Key, Kind, Typed, pb};

use crate::{
    SERVICE, WORKLOAD,
    proto::catalog::v1::{Selector, Service, Workload},
    rules::EVERY_NAME,
};

/// Indexes of workloads.
const NAME: &str = "name";
const LABEL: &str = "label";
pub(crate) const WORKLOAD_INDEXES: &[Index] =
    &[Index::by_name(NAME).in_tenancy(), Index::by_metadata(LABEL).in_tenancy()];

/// Indexes of services.
const SELECTED_NAME: &str = "selected-name";
const SELECTED_PREFIX: &str = "selected-prefix";
const SELECTED_LABEL: &str = "selected-label";
pub(crate) const SERVICE_INDEXES: &[Index] = &[
    Index::by_value(SELECTED_NAME, "selector.names").in_tenancy(),
    Index::by_value(SELECTED_PREFIX, "selector.prefixes").in_tenancy(),
    Index::by_value(SELECTED_LABEL, "selector.labels").in_tenancy(),
];

/// Characters of names.
const NAME_CHARACTERS: &str = "abcdefghijklmnopqrstuvwxyz0123456789-";

/// The workloads that a selector selects in the namespace of `of`, in the order of their names. Workloads that are
/// marked for deletion are left out.
pub(crate) fn workloads(
    ctx: &Context<'_>,
    of: &pb::Id,
    selector: &Selector,
) -> Result<impl Iterator<Item = Typed<Workload>>, Failure> {
    let namespace = Namespace::of(ctx, of);
    let mut found = Vec::new();
    for name in &selector.names {
        found.extend(ctx.cache().get(WORKLOAD, &WORKLOAD.id(name, &namespace.tenancy))?);
    }
    for prefix in &selector.prefixes {
        let beginning = if prefix == EVERY_NAME { "" } else { prefix };
        namespace.list_names(beginning, &mut found)?;
    }
    let by_label = (selector.names.is_empty() && selector.prefixes.is_empty()).then(|| selector.labels.iter().next());
    if let Some((key, value)) = by_label.flatten() {
        match namespace.list(WORKLOAD, LABEL, &format!("{key}={value}")) {
            Ok(all) => found.extend(all),
            // A list by name can be split by prefixes, a list by label cannot.
            Err(failure) if failure.code == Failure::EXHAUSTED => namespace.list_names("", &mut found)?,
            Err(failure) => return Err(failure),
        }
    }
    let by_name: BTreeMap<_, _> = found
        .into_iter()
        .filter(|one| selects(selector, one) && !one.is_marked())
        .map(|one| (one.name().to_owned(), one))
        .collect();
    Ok(by_name.into_values())
}

/// The services that select a workload.
pub(crate) fn services(ctx: &Context<'_>, workload: &Typed<Workload>) -> Result<Vec<pb::Id>, Error> {
    let namespace = Namespace::of(ctx, workload.id());
    let name = workload.name();
    let mut candidates = namespace.list(SERVICE, SELECTED_NAME, name)?;
    candidates.extend(namespace.list(SERVICE, SELECTED_PREFIX, EVERY_NAME)?);
    for beginning in (1..=name.len()).filter_map(|length| name.get(..length)) {
        candidates.extend(namespace.list(SERVICE, SELECTED_PREFIX, beginning)?);
    }
    for (key, value) in &workload.metadata {
        candidates.extend(namespace.list(SERVICE, SELECTED_LABEL, &format!("{key}={value}"))?);
    }
    let is_meant = |one: &Typed<Service>| one.data.selector.as_ref().is_some_and(|it| selects(it, workload));
    let ids: BTreeMap<_, _> =
        candidates.into_iter().filter(is_meant).map(|one| (one.name().to_owned(), one.id().clone())).collect();
    Ok(ids.into_values().collect())
}

/// Whether a selector selects a workload of its namespace.
fn selects(selector: &Selector, workload: &Typed<Workload>) -> bool {
    let name = workload.name();
    let any_name = selector.names.is_empty() && selector.prefixes.is_empty();
    let by_prefix = |prefix: &String| prefix == EVERY_NAME || name.starts_with(prefix.as_str());
    (any_name || selector.names.iter().any(|one| one == name) || selector.prefixes.iter().any(by_prefix))
        && selector.labels.iter().all(|(key, value)| workload.metadata.get(key) == Some(value))
}

/// A namespace, for keys of the indexes.
struct Namespace<'c> {
    ctx: &'c Context<'c>,
    tenancy: pb::Tenancy,
}

impl<'c> Namespace<'c> {
    fn of(ctx: &'c Context<'c>, id: &pb::Id) -> Self {
        Self { ctx, tenancy: id.tenancy.clone().unwrap_or_default() }
    }

    fn value(&self, value: &str) -> String {
        format!("{}/{}/{value}", self.tenancy.partition, self.tenancy.namespace)
    }

    /// Resources that an index has under exactly this value.
    fn list<M: mortise_plugin::Data>(&self, of: Kind<M>, index: &str, value: &str) -> Result<Vec<Typed<M>>, Failure> {
        self.ctx.cache().list(of, index, Key::Exact(&self.value(value)))
    }

    /// Adds the workloads whose names have this prefix. A list that is too large for one answer is split.
    fn list_names(&self, beginning: &str, found: &mut Vec<Typed<Workload>>) -> Result<(), Failure> {
        let mut parts = vec![beginning.to_owned()];
        while let Some(part) = parts.pop() {
            match self.ctx.cache().list(WORKLOAD, NAME, Key::Value(&self.value(&part))) {
                Ok(all) => found.extend(all),
                Err(failure)
                    if failure.code == Failure::EXHAUSTED && part.len() < mortise_plugin::name::MAX_NAME_BYTES =>
                {
                    found.extend(self.list(WORKLOAD, NAME, &part)?);
                    parts.extend(NAME_CHARACTERS.chars().map(|letter| format!("{part}{letter}")));
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }
}
