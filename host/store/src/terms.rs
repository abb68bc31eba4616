//! What a watch requires of the resources that it is about, so that changes of others do not wake it.

use std::{
    collections::BTreeSet,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use mortise_resource::{EncodedResource, pb};

/// One requirement: what it is about has one of some values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Term {
    /// What it is about.
    pub subject: TermSubject,
    /// What it may be; if there is nothing, the term does not hold.
    pub values: BTreeSet<String>,
}

/// What a [`Term`] is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TermSubject {
    /// Name of the id.
    Name,
    /// Tenancy of the id, as [`Term::of_tenancy`] writes it.
    Tenancy,
    /// Value of a label, by its key.
    Label(String),
    /// Values of a field.
    Field(TermField),
}

/// Answers the values of a field, `None` where they cannot be said.
type ReadValues = dyn Fn(&EncodedResource) -> Option<Vec<String>> + Send + Sync;

/// A field, and how it is read. Fields of the same id are the same one.
#[derive(Clone)]
pub struct TermField {
    id: Arc<str>,
    read: Arc<ReadValues>,
}

impl Term {
    /// That the tenancy is this one.
    #[must_use]
    pub fn of_tenancy(pb::Tenancy { partition, namespace }: &pb::Tenancy) -> Self {
        Self { subject: TermSubject::Tenancy, values: [tenancy_text(partition, namespace)].into() }
    }
}

/// Units have no NUL.
pub(crate) fn tenancy_text(partition: &str, namespace: &str) -> String {
    [partition, namespace].join("\0")
}

impl TermField {
    /// Names a field, and says what its values are in a resource; `None` where that cannot be said, which every watch
    /// hears of.
    ///
    /// The store calls `read` for each change of a type with such watches, while commits wait: it takes microseconds at
    /// most, and does not call the store.
    #[must_use]
    pub fn new(id: &str, read: impl Fn(&EncodedResource) -> Option<Vec<String>> + Send + Sync + 'static) -> Self {
        Self { id: id.into(), read: Arc::new(read) }
    }

    /// The values in a resource; `None` where that cannot be said.
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
