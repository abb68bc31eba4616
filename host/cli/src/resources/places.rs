//! Names with their place: `TYPE/NAMESPACE/NAME`, `TYPE/PARTITION/NAMESPACE/NAME`, and `TYPE/PARTITION/NAME` for types
//! of partitions.
//!
//! `-o name` prints this form for each resource outside of the place in which a command without flags works, so that
//! other commands find the same resource.

use mortise_resource::{Scope, pb, types::gvk};
use mortise_text::Types as _;

use super::catalog::Catalog;
use crate::{CliError, Tenancy};

/// A name on a command line, and its place as far as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlacedName {
    pub(crate) name: String,
    partition: Option<String>,
    namespace: Option<String>,
}

impl PlacedName {
    /// A name without a place.
    pub(crate) fn plain(name: &str) -> Self {
        Self { name: name.to_owned(), partition: None, namespace: None }
    }

    /// The name of a resource, with its place.
    pub(crate) fn of(id: &pb::Id) -> Self {
        let units = id.tenancy.clone().unwrap_or_default();
        let unit = |unit: String| Some(unit).filter(|unit| !unit.is_empty());
        Self { name: id.name.clone(), partition: unit(units.partition), namespace: unit(units.namespace) }
    }

    /// Returns whether a partition or a namespace was typed.
    pub(crate) fn is_placed(&self) -> bool {
        self.partition.is_some() || self.namespace.is_some()
    }

    /// Parses the text behind the type; `word` is the whole.
    pub(crate) fn parse(word: &str, text: &str, scope: Option<Scope>, tenancy: &Tenancy) -> Result<Self, CliError> {
        let parts: Vec<&str> = text.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(malformed(word));
        }
        let own = |part: &str| Some(part.to_owned());
        let (partition, namespace, name) = match (scope, parts.as_slice()) {
            (_, [name]) => (None, None, name),
            (Some(Scope::Partition), [partition, name]) => (own(partition), None, name),
            (Some(Scope::Namespace | Scope::Undefined), [namespace, name]) => (None, own(namespace), name),
            (Some(Scope::Namespace | Scope::Undefined), [partition, namespace, name]) => {
                (own(partition), own(namespace), name)
            }
            _ => {
                return Err(CliError::usage(format!("{word:?} has more places than its type"))
                    .remedy("`mortise types` shows the scope of each type"));
            }
        };
        for (unit, flag, option) in
            [(&partition, &tenancy.partition, "--partition"), (&namespace, &tenancy.namespace, "--namespace")]
        {
            if let (Some(unit), Some(flag)) = (unit, flag)
                && unit != flag
            {
                return Err(CliError::usage(format!("{word:?} is in {unit}, and {option} is {flag}"))
                    .remedy(format!("leave {option} out, or the place in the name")));
            }
        }
        Ok(Self { name: (*name).to_owned(), partition, namespace })
    }

    /// The units of the name, in place of those in `others`.
    pub(crate) fn units_in(&self, others: pb::Tenancy) -> pb::Tenancy {
        pb::Tenancy {
            partition: self.partition.clone().unwrap_or(others.partition),
            namespace: self.namespace.clone().unwrap_or(others.namespace),
        }
    }
}

/// Makes the error for a word without a type or a name.
pub(super) fn malformed(word: &str) -> CliError {
    CliError::usage(format!("{word:?} is not TYPE/NAME"))
        .remedy("give TYPE NAME…, or TYPE/NAME, TYPE/NAMESPACE/NAME or TYPE/PARTITION/NAMESPACE/NAME for each")
}

/// Writes a resource as commands take it: with its place, if that is asked for or if a command without flags would look
/// elsewhere.
pub(crate) fn address(id: &pb::Id, always_placed: bool, catalog: &Catalog) -> String {
    let ty = id.r#type.clone().unwrap_or_default();
    let own = id.tenancy.clone().unwrap_or_default();
    let usual = Tenancy::default().units_for(&ty, catalog.session(), catalog);
    let is_usual = |own: &str, usual: &str| own == usual || (usual.is_empty() && own == "default");
    let scope = catalog.scope(&ty);
    let has_namespace = !own.namespace.is_empty() && !matches!(scope, Some(Scope::Cluster | Scope::Partition));
    let is_elsewhere = !own.partition.is_empty() && !is_usual(&own.partition, &usual.partition)
        || has_namespace && !is_usual(&own.namespace, &usual.namespace);
    if !always_placed && !is_elsewhere {
        return format!("{}/{}", gvk(&ty), id.name);
    }
    let units = [own.partition, if has_namespace { own.namespace } else { String::new() }];
    let units: Vec<String> = units.into_iter().filter(|unit| !unit.is_empty()).collect();
    [&[gvk(&ty)], units.as_slice(), std::slice::from_ref(&id.name)].concat().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_places_of_its_scope() {
        let parsed = |text: &str, scope| {
            let name =
                PlacedName::parse(text, text, Some(scope), &Tenancy::default()).map_err(|error| error.message)?;
            Ok((name.partition.unwrap_or_default(), name.namespace.unwrap_or_default(), name.name))
        };
        let is = |partition: &str, namespace: &str, name: &str| {
            Ok::<_, String>((partition.to_owned(), namespace.to_owned(), name.to_owned()))
        };
        assert_eq!(parsed("korn", Scope::Namespace), is("", "", "korn"));
        assert_eq!(parsed("blue/korn", Scope::Namespace), is("", "blue", "korn"));
        assert_eq!(parsed("east/blue/korn", Scope::Namespace), is("east", "blue", "korn"));
        assert_eq!(parsed("east/epic", Scope::Partition), is("east", "", "epic"));
        for (text, scope) in [
            ("a/b/c", Scope::Partition),
            ("a/b", Scope::Cluster),
            ("a/b/c/d", Scope::Namespace),
            ("a//b", Scope::Namespace),
            ("", Scope::Namespace),
        ] {
            assert!(parsed(text, scope).is_err(), "{text}");
        }
        let flags = |namespace: &str| Tenancy { namespace: Some(namespace.to_owned()), partition: None };
        let with = |flags| PlacedName::parse("blue/korn", "blue/korn", Some(Scope::Namespace), &flags);
        assert!(with(flags("blue")).is_ok() && with(flags("green")).is_err());
    }
}
