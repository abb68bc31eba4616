//! Ids without copies of their texts.

use crate::pb;

/// The parts of an id; those that are absent are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdRef<'r> {
    /// Of the type.
    pub group: &'r str,
    /// Of the type.
    pub group_version: &'r str,
    /// Of the type.
    pub kind: &'r str,
    /// Of the tenancy.
    pub partition: &'r str,
    /// Of the tenancy.
    pub namespace: &'r str,
    /// The name.
    pub name: &'r str,
    /// The incarnation.
    pub uid: &'r str,
}

impl<'r> From<&'r pb::Id> for IdRef<'r> {
    fn from(id: &'r pb::Id) -> Self {
        let (group, group_version, kind) =
            id.r#type.as_ref().map_or(("", "", ""), |t| (&t.group, &t.group_version, &t.kind));
        let (partition, namespace) = id.tenancy.as_ref().map_or(("", ""), |t| (&t.partition, &t.namespace));
        Self { group, group_version, kind, partition, namespace, name: &id.name, uid: &id.uid }
    }
}

impl IdRef<'_> {
    /// Whether both are of one incarnation, GroupVersion aside.
    #[must_use]
    pub fn is_same_incarnation(self, other: IdRef<'_>) -> bool {
        IdRef { group_version: "", ..self } == IdRef { group_version: "", ..other }
    }
}
