//! Quotas: how much a tenancy may hold, and how much it does.
//!
//! A tenancy is a partition and a namespace; resources of a partition have an empty namespace, and those of the cluster
//! both empty. [`Quotas`] hold for batches that say so ([`Batch::limited`](crate::Batch::limited)), and are judged in
//! the order of commits, so that writers which race never exceed them together. A batch is judged by its net effect:
//! one that adds no resource of a type to a tenancy, and makes what the tenancy holds no larger, is never refused, also
//! where a limit was lowered below what is there.
//!
//! Bytes are the lengths of resources as they are stored: encoded, version included, without keys, indexes and events.
//! Only a batch that grows what it writes by [`limited_size`](crate::limited_size) is refused for them, so that the mark
//! of a deletion, or a version of one digit more, always has room.

use std::fmt;

use mortise_resource::pb;

use crate::TypeKey;

/// The most that tenancies may hold. The default is finite: 2,000,000 resources and 8 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Resources of one type in one tenancy.
    pub resources: u64,
    /// Bytes of the resources of all types in one tenancy.
    pub bytes: u64,
}

impl Default for Quotas {
    fn default() -> Self {
        Self { resources: 2_000_000, bytes: 8 << 30 }
    }
}

/// One of the [`Quotas`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quota {
    /// [`Quotas::resources`].
    Resources,
    /// [`Quotas::bytes`].
    Bytes,
}

impl Quota {
    /// The label of metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Bytes => "bytes",
        }
    }

    /// The name of the setting.
    #[must_use]
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Resources => "quotas.resources",
            Self::Bytes => "quotas.bytes",
        }
    }
}

/// A batch that was refused because a tenancy may not hold more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// Which quota.
    pub quota: Quota,
    /// The type of the resources that are counted; `None` when their bytes are.
    pub type_key: Option<TypeKey>,
    /// Where.
    pub tenancy: pb::Tenancy,
    /// What is there.
    pub used: u64,
    /// What the batch would have added.
    pub added: u64,
    /// What may be there.
    pub limit: u64,
}

impl std::error::Error for QuotaExceeded {}

impl fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quota, type_key, tenancy, used, added, limit } = self;
        write!(f, "the quota of {} is exceeded: it holds {used} ", Place(tenancy))?;
        match type_key {
            Some(type_key) => write!(f, "resources of type {type_key}")?,
            None => f.write_str("bytes of resources")?,
        }
        let setting = quota.setting();
        write!(f, ", the write adds {added}, and the limit is {limit} ({setting}); delete some, or raise {setting}")
    }
}

/// A tenancy for people.
pub(crate) struct Place<'t>(pub(crate) &'t pb::Tenancy);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.partition.as_str(), self.0.namespace.as_str()) {
            ("", "") => f.write_str("the cluster scope"),
            (partition, "") => write!(f, "partition {partition}"),
            (partition, namespace) => write!(f, "partition {partition}, namespace {namespace}"),
        }
    }
}

/// What is stored, and where most of it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// The limits.
    pub quotas: Quotas,
    /// How many tenancies hold something.
    pub tenancies: u64,
    /// Resources of all tenancies.
    pub resources: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The tenancies with the most bytes, in descending order: those nearest to [`Quotas::bytes`].
    pub largest: Vec<TenancyUsage>,
    /// The types with the most resources in one tenancy, in descending order: those nearest to [`Quotas::resources`].
    pub most: Vec<TypeUsage>,
}

/// What one tenancy holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenancyUsage {
    /// Where.
    pub tenancy: pb::Tenancy,
    /// Resources of all types.
    pub resources: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What one tenancy holds of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeUsage {
    /// Where.
    pub tenancy: pb::Tenancy,
    /// The type.
    pub type_key: TypeKey,
    /// Its resources.
    pub resources: u64,
    /// Their bytes.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_place_the_numbers_and_the_setting() {
        let tenancy = |partition: &str, namespace: &str| pb::Tenancy {
            partition: partition.to_owned(),
            namespace: namespace.to_owned(),
        };
        let type_key = TypeKey { group: "demo".to_owned(), kind: "Artist".to_owned() };
        let of = |tenancy, type_key, quota| QuotaExceeded { quota, type_key, tenancy, used: 7, added: 2, limit: 8 };
        assert_eq!(
            of(tenancy("east", "shop"), Some(type_key), Quota::Resources).to_string(),
            "the quota of partition east, namespace shop is exceeded: it holds 7 resources of type demo.Artist, the \
             write adds 2, and the limit is 8 (quotas.resources); delete some, or raise quotas.resources"
        );
        assert_eq!(
            of(tenancy("", ""), None, Quota::Bytes).to_string(),
            "the quota of the cluster scope is exceeded: it holds 7 bytes of resources, the write adds 2, and the limit \
             is 8 (quotas.bytes); delete some, or raise quotas.bytes"
        );
        assert_eq!(Place(&tenancy("east", "")).to_string(), "partition east");
    }
}
