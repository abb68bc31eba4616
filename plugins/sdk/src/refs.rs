//! Ids and references: conversion, and completion of incomplete ones.

use mortise_resource::{Scope, pb};

/// Every partition and every namespace, for lists.
#[must_use]
pub fn everywhere() -> pb::Tenancy {
    pb::Tenancy { partition: "*".to_owned(), namespace: "*".to_owned() }
}

/// Reference to a resource, in any incarnation.
#[must_use]
pub fn reference_to(id: &pb::Id) -> pb::Reference {
    pb::Reference {
        r#type: id.r#type.clone(),
        tenancy: id.tenancy.clone(),
        name: id.name.clone(),
        section: String::new(),
    }
}

/// Id that a reference in the resource `holder` refers to. Missing parts of the tenancy are the holder's; but in
/// another partition, the namespace is `default`.
#[must_use]
pub fn referent(reference: &pb::Reference, holder: &pb::Id) -> pb::Id {
    Scope::Undefined.referent(reference, holder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenancy(partition: &str, namespace: &str) -> pb::Tenancy {
        pb::Tenancy { partition: partition.into(), namespace: namespace.into() }
    }

    #[test]
    fn references_are_completed_near_their_holder() {
        let holder = pb::Id { tenancy: Some(tenancy("p", "n")), ..pb::Id::default() };
        let at = |partition, namespace| {
            let reference = pb::Reference { tenancy: Some(tenancy(partition, namespace)), ..pb::Reference::default() };
            referent(&reference, &holder).tenancy.unwrap()
        };
        assert_eq!(at("", ""), tenancy("p", "n"));
        assert_eq!(at("p", ""), tenancy("p", "n"));
        assert_eq!(at("q", ""), tenancy("q", "default"));
        assert_eq!(at("", "m"), tenancy("p", "m"));
        let there = referent(&reference_to(&holder), &holder);
        assert_eq!(there, holder);
    }
}
