//! Requirements of a watch on its resources; changes of other resources do not wake the watch.

use std::{
    collections::BTreeSet,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use mortise_resource::{EncodedResource, pb};

/// A requirement: the subject has one of the values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Term {
    /// Subject of the requirement.
    pub subject: TermSubject,
    /// Accepted values; without any, the term never holds.
    pub values: BTreeSet<String>,
}

/// Subject of a [`Term`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TermSubject {
    /// Name of the id.
    Name,
    /// Beginning of the name; never empty.
    NamePrefix,
    /// Tenancy of the id, as [`Term::for_tenancy`] writes it.
    Tenancy,
    /// Partition of the id, in any namespace.
    Partition,
    /// Namespace of the id, in any partition.
    Namespace,
    /// Value of a label, by its key.
    Label(String),
    /// Values of a field.
    Field(TermField),
}

/// Returns the values of a field; `None` where they are unknown.
type ReadValues = dyn Fn(&EncodedResource) -> Option<Vec<String>> + Send + Sync;

/// A field and the function that reads it. Two fields with the same id are equal.
#[derive(Clone)]
pub struct TermField {
    id: Arc<str>,
    read: Arc<ReadValues>,
}

impl Term {
    /// Requires this tenancy.
    #[must_use]
    pub fn for_tenancy(pb::Tenancy { partition, namespace }: &pb::Tenancy) -> Self {
        Self::one(TermSubject::Tenancy, tenancy_text(partition, namespace))
    }

    /// Requires one value.
    pub(crate) fn one(subject: TermSubject, value: String) -> Self {
        Self { subject, values: [value].into() }
    }
}

/// Joins the units of a tenancy by NUL, which no unit contains.
pub(crate) fn tenancy_text(partition: &str, namespace: &str) -> String {
    [partition, namespace].join("\0")
}

impl TermField {
    /// Makes a field of a name and a function that returns its values in a resource, or `None` where they are unknown;
    /// every watch receives such a change.
    ///
    /// The store calls `read` for each change of a type with such watches, while commits wait. `read` may take some
    /// microseconds and must not call the store.
    #[must_use]
    pub fn new(id: &str, read: impl Fn(&EncodedResource) -> Option<Vec<String>> + Send + Sync + 'static) -> Self {
        Self { id: id.into(), read: Arc::new(read) }
    }

    /// Returns the values in a resource; `None` where they are unknown.
    #[must_use]
    pub fn values(&self, resource: &EncodedResource) -> Option<Vec<String>> {
        (self.read)(resource)
    }
}

impl PartialEq for TermField {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for TermField {}

impl Hash for TermField {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl fmt::Debug for TermField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TermField").field(&self.id).finish()
    }
}
