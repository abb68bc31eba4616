//! Two controllers that watch each other's types may wake each other for ever; such pairs are refused, as in Consul.
//! Longer cycles are not looked for: they are found when they spin (see [`crate::Definition::self_wakes`] for what one
//! controller does to itself).

use std::collections::HashSet;

use mortise_resource::pb;

/// A managed type whose controller watches another one, whose controller watches the first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("circular dependency between {0:?} and {1:?}")]
pub struct CircularDependency(pub String, pub String);

/// Looks for such pairs among the (managed, watched) pairs of all controllers.
///
/// # Errors
/// The first in the order of the names, which are `group/version/kind` in lower case.
pub fn check<'a>(pairs: impl IntoIterator<Item = (&'a pb::Type, &'a pb::Type)>) -> Result<(), CircularDependency> {
    let pairs: HashSet<(String, String)> = pairs.into_iter().map(|(m, w)| (name(m), name(w))).collect();
    let circular = pairs.iter().filter(|(m, w)| m < w && pairs.contains(&(w.clone(), m.clone())));
    match circular.min() {
        Some((a, b)) => Err(CircularDependency(a.clone(), b.clone())),
        None => Ok(()),
    }
}

fn name(of: &pb::Type) -> String {
    format!("{}/{}/{}", of.group, of.group_version, of.kind).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_types_that_watch_each_other_are_circular_and_longer_cycles_are_not() {
        let of = |kind: &str| pb::Type { group: "Demo".into(), group_version: "v2".into(), kind: kind.into() };
        let (a, b, c) = (of("Artist"), of("Album"), of("Label"));
        assert_eq!(check([(&a, &b), (&b, &c), (&c, &a), (&a, &a)]), Ok(()));
        let error = check([(&a, &b), (&c, &b), (&b, &a)]).unwrap_err();
        assert_eq!(error.to_string(), r#"circular dependency between "demo/v2/album" and "demo/v2/artist""#);
    }
}
