//! The scope of a type: the tenancy units of its resources.

use crate::{Error, pb, tenancy};

/// A type's scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Neither partition nor namespace.
    Cluster,
    /// A partition only.
    Partition,
    /// A partition and a namespace.
    Namespace,
    /// The units of the resource's id, never defaulted and never checked: for the tombstone type alone. In the
    /// declaration of a plugin's type, the scope of the message's option `hashicorp.consul.resource.spec`.
    Undefined,
}

impl Scope {
    /// Rejects an id whose tenancy names a unit outside of the scope. `noun` is `resource`, or `type` in List.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the unit.
    pub fn check(self, noun: &str, gvk: &str, tenancy: &pb::Tenancy) -> Result<(), Error> {
        let pb::Tenancy { partition, namespace } = tenancy;
        match self {
            Self::Partition if !namespace.is_empty() => {
                Err(Error::invalid(format!("partition scoped {noun} {gvk} cannot have a namespace. got: {namespace}")))
            }
            Self::Cluster if !partition.is_empty() => {
                Err(Error::invalid(format!("cluster scoped {noun} {gvk} cannot have a partition: {partition}")))
            }
            Self::Cluster if !namespace.is_empty() => {
                Err(Error::invalid(format!("cluster scoped {noun} {gvk} cannot have a namespace: {namespace}")))
            }
            _ => Ok(()),
        }
    }

    /// Checks the tenancy of a query like [`Scope::check`], but accepts `*` in a unit outside of the scope.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the unit.
    pub fn check_query(self, noun: &str, gvk: &str, tenancy: &pb::Tenancy) -> Result<(), Error> {
        let real = |unit: &str| if unit == tenancy::WILDCARD { String::new() } else { unit.to_owned() };
        let concrete = pb::Tenancy { partition: real(&tenancy.partition), namespace: real(&tenancy.namespace) };
        self.check(noun, gvk, &concrete)
    }

    /// Fills the empty units of the scope with `default`.
    pub fn fill(self, tenancy: &mut pb::Tenancy) {
        let fill = |unit: &mut String| {
            if unit.is_empty() {
                tenancy::DEFAULT.clone_into(unit);
            }
        };
        match self {
            Self::Cluster | Self::Undefined => {}
            Self::Partition => fill(&mut tenancy.partition),
            Self::Namespace => {
                fill(&mut tenancy.partition);
                fill(&mut tenancy.namespace);
            }
        }
    }

    /// The id of a reference's target, whose type has this scope; `holder` is the resource with the reference. Tenancy
    /// units that the reference leaves out are those of the holder; but in another partition, the namespace is
    /// `default`. The uid stays empty.
    #[must_use]
    pub fn referent(self, reference: &pb::Reference, holder: &pb::Id) -> pb::Id {
        let mut tenancy = reference.tenancy.clone().unwrap_or_default();
        let near = holder.tenancy.clone().unwrap_or_default();
        if tenancy.partition.is_empty() && self != Self::Cluster {
            tenancy.partition.clone_from(&near.partition);
        }
        if tenancy.namespace.is_empty()
            && !near.namespace.is_empty()
            && matches!(self, Self::Namespace | Self::Undefined)
        {
            let here = tenancy.partition == near.partition;
            tenancy.namespace = if here { near.namespace } else { tenancy::DEFAULT.to_owned() };
        }
        self.fill(&mut tenancy);
        pb::Id {
            name: reference.name.clone(),
            r#type: reference.r#type.clone(),
            tenancy: Some(tenancy),
            uid: String::new(),
        }
    }

    /// Fills a query's tenancy like [`Scope::fill`], and empties units outside of the scope, since stored resources
    /// have them empty.
    pub fn fill_query(self, tenancy: &mut pb::Tenancy) {
        let drop_wildcard = |unit: &mut String| {
            if unit == tenancy::WILDCARD {
                unit.clear();
            }
        };
        match self {
            Self::Cluster => {
                drop_wildcard(&mut tenancy.partition);
                drop_wildcard(&mut tenancy.namespace);
            }
            Self::Partition => drop_wildcard(&mut tenancy.namespace),
            Self::Namespace | Self::Undefined => {}
        }
        self.fill(tenancy);
    }

    /// The tenancy that WatchList assumes if none is given: `*` for every unit of the scope.
    #[must_use]
    pub fn everywhere(self) -> pb::Tenancy {
        let any = || tenancy::WILDCARD.to_owned();
        match self {
            Self::Cluster => pb::Tenancy::default(),
            Self::Partition => pb::Tenancy { partition: any(), namespace: String::new() },
            Self::Namespace | Self::Undefined => pb::Tenancy { partition: any(), namespace: any() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(partition: &str, namespace: &str) -> pb::Tenancy {
        pb::Tenancy { partition: partition.into(), namespace: namespace.into() }
    }

    #[test]
    fn units_beyond_the_scope_are_refused() {
        let text = |scope: Scope, tenancy| scope.check("resource", "a.v1.B", &tenancy).map_err(|e| e.message);
        assert_eq!(text(Scope::Namespace, at("p", "n")), Ok(()));
        assert_eq!(text(Scope::Undefined, at("p", "n")), Ok(()));
        assert_eq!(
            text(Scope::Partition, at("p", "n")),
            Err("partition scoped resource a.v1.B cannot have a namespace. got: n".into())
        );
        assert_eq!(
            text(Scope::Cluster, at("p", "")),
            Err("cluster scoped resource a.v1.B cannot have a partition: p".into())
        );
        assert_eq!(
            text(Scope::Cluster, at("", "n")),
            Err("cluster scoped resource a.v1.B cannot have a namespace: n".into())
        );
    }

    #[test]
    fn wildcards_beyond_the_scope_are_harmless_in_queries() {
        assert!(Scope::Cluster.check_query("type", "a.v1.B", &at("*", "*")).is_ok());
        let mut tenancy = at("*", "*");
        Scope::Partition.fill_query(&mut tenancy);
        assert_eq!(tenancy, at("*", ""));
    }

    #[test]
    fn only_units_of_the_scope_are_filled() {
        let filled = |scope: Scope| {
            let mut tenancy = pb::Tenancy::default();
            scope.fill(&mut tenancy);
            tenancy
        };
        assert_eq!(filled(Scope::Cluster), at("", ""));
        assert_eq!(filled(Scope::Undefined), at("", ""));
        assert_eq!(filled(Scope::Partition), at("default", ""));
        assert_eq!(filled(Scope::Namespace), at("default", "default"));
    }

    #[test]
    fn references_are_completed_as_the_target_s_scope_has_it() {
        let tenancy = |partition: &str, namespace: &str| {
            Some(pb::Tenancy { partition: partition.into(), namespace: namespace.into() })
        };
        let target = |scope: Scope, given: Option<pb::Tenancy>, holder: Option<pb::Tenancy>| {
            let reference = pb::Reference { tenancy: given, ..pb::Reference::default() };
            scope.referent(&reference, &pb::Id { tenancy: holder, ..pb::Id::default() }).tenancy
        };
        for given in [None, tenancy("", ""), tenancy("p", "")] {
            assert_eq!(target(Scope::Namespace, given.clone(), tenancy("p", "n")), tenancy("p", "n"));
        }
        assert_eq!(target(Scope::Namespace, tenancy("q", ""), tenancy("p", "n")), tenancy("q", "default"));
        assert_eq!(target(Scope::Namespace, None, None), tenancy("default", "default"));
        assert_eq!(target(Scope::Partition, None, tenancy("p", "n")), tenancy("p", ""));
        assert_eq!(target(Scope::Cluster, None, tenancy("p", "n")), tenancy("", ""));
        assert_eq!(target(Scope::Undefined, None, tenancy("p", "n")), tenancy("p", "n"));
    }
}
