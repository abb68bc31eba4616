//! Ids without copies of their texts.

use crate::pb;

/// The parts of an id; absent parts are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdRef<'r> {
    /// Group of the type.
    pub group: &'r str,
    /// Version of the type's group.
    pub group_version: &'r str,
    /// Kind of the type.
    pub kind: &'r str,
    /// Partition of the tenancy.
    pub partition: &'r str,
    /// Namespace of the tenancy.
    pub namespace: &'r str,
    /// Name of the resource.
    pub name: &'r str,
    /// Uid of the incarnation.
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
    /// Whether both are ids of one incarnation; the GroupVersion is ignored.
    #[must_use]
    pub fn is_same_incarnation(self, other: IdRef<'_>) -> bool {
        IdRef { group_version: "", ..self } == IdRef { group_version: "", ..other }
    }
}
