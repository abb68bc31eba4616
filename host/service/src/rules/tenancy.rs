//! The units of a tenancy, its partition and its namespace: whether they exist, and whether they are marked for
//! deletion.

use mortise_resource::{
    EncodedResource, Error,
    goten::MultiRegionPolicy,
    pb,
    tenancy::DEFAULT,
    types::{self, Gvk},
};
use mortise_store::{Expectation, ExpectedId, StoreError};

use super::region_policy;
use crate::{call::store_fault::store_fault, core::Core};

/// The partition and the namespace of a tenancy, which exist.
#[derive(Debug, Default)]
pub(crate) struct TenancyUnits {
    /// Expectations of a write into the tenancy: its units exist and are unchanged.
    pub(crate) expect: Vec<Expectation>,
    /// Whether a unit is marked for deletion.
    pub(crate) marked: bool,
    /// Policy of regions of the partition; `None` without one, and on a server without a region.
    pub(crate) policy: Option<Box<MultiRegionPolicy>>,
}

impl TenancyUnits {
    /// Looks up the units: the partition, then the namespace. `default` always exists; an empty unit is not looked up.
    pub(crate) async fn find(core: &Core, tenancy: &pb::Tenancy) -> Result<Self, UnitError> {
        let mut units = Self::default();
        let partition = pb::Tenancy::default();
        let namespace = pb::Tenancy { partition: tenancy.partition.clone(), namespace: String::new() };
        for (unit, gvk, name, within) in [
            ("partition", types::partition as fn() -> Gvk, &tenancy.partition, partition),
            ("namespace", types::namespace, &tenancy.namespace, namespace),
        ] {
            let has_policy = unit == "partition" && core.region().is_some();
            if name.is_empty() || (name == DEFAULT && !has_policy) {
                continue;
            }
            let stored = match read_unit(core, &gvk(), name, within).await? {
                Some(stored) => stored,
                None if name == DEFAULT => continue,
                None => return Err(UnitError::Missing { unit, name: name.clone() }),
            };
            if has_policy {
                units.policy = region_policy::of_partition(&stored).map(Box::new);
            }
            units.marked |= stored.deletion_mark().is_some();
            units.expect.push(Expectation {
                id: ExpectedId::from(stored.id()),
                generation: Some(stored.generation().to_owned()),
                is_unmarked: false,
            });
        }
        Ok(units)
    }

    /// Refuses a new resource in a unit that is marked for deletion.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn check_unmarked(&self, tenancy: &pb::Tenancy) -> Result<(), Error> {
        match self.marked {
            true => {
                Err(Error::invalid(format!("tenancy marked for deletion: {}/{}", tenancy.partition, tenancy.namespace)))
            }
            false => Ok(()),
        }
    }
}

/// The reason why the units of a tenancy cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnitError {
    /// The unit does not exist.
    #[error("{unit} not found: {name}")]
    Missing { unit: &'static str, name: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl UnitError {
    /// Returns the error for a write into the tenancy.
    pub(super) fn for_writing(self) -> Error {
        match self {
            Self::Missing { .. } => Error::invalid(self.to_string()),
            Self::Store(e) => store_fault("failed tenancy marked for deletion check", &e),
        }
    }

    /// Returns the error for a read from the tenancy.
    pub(super) fn for_reading(self) -> Error {
        match self {
            Self::Missing { .. } => Error::not_found(self.to_string()),
            Self::Store(e) => store_fault("failed read", &e),
        }
    }
}

async fn read_unit(
    core: &Core,
    gvk: &Gvk,
    name: &str,
    within: pb::Tenancy,
) -> Result<Option<EncodedResource>, StoreError> {
    let id = pb::Id { uid: String::new(), name: name.to_owned(), r#type: Some(gvk.to_pb()), tenancy: Some(within) };
    core.expected(&id).await
}

/// Returns a tenancy in protobuf's text format.
pub(crate) fn proto_text(tenancy: &pb::Tenancy) -> String {
    [("partition", &tenancy.partition), ("namespace", &tenancy.namespace)]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(unit, value)| format!("{unit}:{value:?}"))
        .collect::<Vec<_>>()
        .join(" ")
}
