//! Quotas: limits of tenancies, and their use.
//!
//! A tenancy is a partition and a namespace; resources of a partition have an empty namespace, and those of the cluster
//! have both empty. [`Quotas`] apply to batches with [`Batch::limited`](crate::Batch::limited). The store checks them
//! in the order of commits, so concurrent writers never exceed them together. The net effect of a batch counts: a batch
//! that adds no resource of a type to a tenancy, and does not make the tenancy's content larger, is never refused, even
//! where a limit was lowered below the current use.
//!
//! Bytes are the lengths of resources as they are stored: encoded, version included, without keys, indexes and events.
//! The byte quota refuses only a batch that grows its resources by [`limited_size`](crate::limited_size), so that a
//! deletion mark, or a longer version number, always fits.

use std::fmt;

use mortise_resource::pb;

use crate::TypeKey;

/// Limits of each tenancy. The default is finite: 2,000,000 resources and 8 GiB.
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

/// A kind of quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quota {
    /// [`Quotas::resources`].
    Resources,
    /// [`Quotas::bytes`].
    Bytes,
}

impl Quota {
    /// Label in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Bytes => "bytes",
        }
    }

    /// Name of the setting.
    #[must_use]
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Resources => "quotas.resources",
            Self::Bytes => "quotas.bytes",
        }
    }
}

/// Refusal of a batch that exceeds a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// Exceeded quota.
    pub quota: Quota,
    /// Type of the counted resources; `None` for the quota of bytes.
    pub type_key: Option<TypeKey>,
    /// Tenancy over its quota.
    pub tenancy: pb::Tenancy,
    /// Current use.
    pub used: u64,
    /// Addition by the batch.
    pub added: u64,
    /// Limit of the quota.
    pub limit: u64,
}

impl QuotaExceeded {
    /// Counts the batch that this refusal answers.
    pub fn count(&self) {
        metrics::counter!("mortise_quota_refused_total", "quota" => self.quota.name()).increment(1);
    }
}

impl std::error::Error for QuotaExceeded {}

impl fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quota, type_key, tenancy, used, added, limit } = self;
        write!(f, "the quota of {} is exceeded: it holds {used} ", TenancyText(tenancy))?;
        match type_key {
            Some(type_key) => write!(f, "resources of type {type_key}")?,
            None => f.write_str("bytes of resources")?,
        }
        let setting = quota.setting();
        write!(f, ", the write adds {added}, and the limit is {limit} ({setting}); delete some, or raise {setting}")
    }
}

/// Display form of a tenancy.
pub(crate) struct TenancyText<'t>(pub(crate) &'t pb::Tenancy);

impl fmt::Display for TenancyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.partition.as_str(), self.0.namespace.as_str()) {
            ("", "") => f.write_str("the cluster scope"),
            (partition, "") => write!(f, "partition {partition}"),
            (partition, namespace) => write!(f, "partition {partition}, namespace {namespace}"),
        }
    }
}

/// Use of all tenancies, and the largest ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// The limits.
    pub quotas: Quotas,
    /// Number of tenancies with resources.
    pub tenancies: u64,
    /// Resources of all tenancies.
    pub resources: u64,
    /// Bytes of the resources of all tenancies.
    pub bytes: u64,
    /// Tenancies with the most bytes, in descending order: those nearest to [`Quotas::bytes`].
    pub largest: Vec<TenancyUsage>,
    /// Types with the most resources in one tenancy, in descending order: those nearest to [`Quotas::resources`].
    pub most: Vec<TypeUsage>,
}

/// Use of one tenancy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenancyUsage {
    /// Tenancy.
    pub tenancy: pb::Tenancy,
    /// Resources of all types.
    pub resources: u64,
    /// Bytes of its resources.
    pub bytes: u64,
}

/// Use of one type in one tenancy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeUsage {
    /// Tenancy.
    pub tenancy: pb::Tenancy,
    /// The type.
    pub type_key: TypeKey,
    /// Number of its resources.
    pub resources: u64,
    /// Bytes of its resources.
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
        let exceeded =
            |tenancy, type_key, quota| QuotaExceeded { quota, type_key, tenancy, used: 7, added: 2, limit: 8 };
        assert_eq!(
            exceeded(tenancy("east", "shop"), Some(type_key), Quota::Resources).to_string(),
            "the quota of partition east, namespace shop is exceeded: it holds 7 resources of type demo.Artist, the \
             write adds 2, and the limit is 8 (quotas.resources); delete some, or raise quotas.resources"
        );
        assert_eq!(
            exceeded(tenancy("", ""), None, Quota::Bytes).to_string(),
            "the quota of the cluster scope is exceeded: it holds 7 bytes of resources, the write adds 2, and the limit \
             is 8 (quotas.bytes); delete some, or raise quotas.bytes"
        );
        assert_eq!(TenancyText(&tenancy("east", "")).to_string(), "partition east");
    }
}
