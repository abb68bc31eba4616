//! The paths that a path without a route may mean: a plural, another spelling, a missing group or version.
//!
//! # Cost
//! Compares a few elements of the path with the names of every type; once per request for a path without a route.
//!
//! # Limits
//! Looks at [`MAX_ELEMENTS`] elements, and returns at most [`MAX_PATHS`] paths.

use mortise_service::registry::{Registry, ResourceType};
use mortise_text::nearest;
use percent_encoding::percent_decode_str;

use super::route::collection_path;

/// Most elements of a path that are compared.
const MAX_ELEMENTS: usize = 6;

/// Most paths of an answer.
const MAX_PATHS: usize = 3;

/// Returns the paths that were probably meant, the likeliest first.
pub(super) fn paths(registry: &Registry, path: &str) -> Vec<String> {
    let mut elements: Vec<_> = path.split('/').filter(|element| !element.is_empty()).take(MAX_ELEMENTS).collect();
    if matches!(elements.first(), Some(&("api" | "apis"))) {
        elements.remove(0);
    }
    let names: Vec<_> = elements.iter().map(|element| lower(element)).collect();
    let types: Vec<_> = registry.types().iter().map(AsRef::as_ref).collect();
    let by_meaning = (names.iter().enumerate())
        .map(|(position, name)| (position, types.iter().copied().filter(|t| is_named(t, name)).collect::<Vec<_>>()))
        .find(|(_, found)| !found.is_empty());
    let (position, mut found) = match by_meaning.or_else(|| by_letters(&types, &names)) {
        Some(found) => found,
        None => return of_group(&types, &names),
    };
    // The most elements in common first, and then the newest version.
    let shared =
        |t: &ResourceType| names.iter().filter(|name| **name == t.gvk.group || **name == t.gvk.group_version).count();
    found.sort_by(|a, b| (shared(b), &b.gvk.group_version).cmp(&(shared(a), &a.gvk.group_version)));
    let most = found.first().map_or(0, |t| shared(t));
    found.retain(|t| shared(t) == most);
    found.truncate(MAX_PATHS);
    let rest = elements.get(position + 1..).unwrap_or_default().join("/");
    let rest = if rest.is_empty() { rest } else { format!("/{rest}") };
    found.iter().map(|t| format!("{}{rest}", collection_path(&t.gvk))).collect()
}

/// An element of a path in lower case.
fn lower(element: &str) -> String {
    percent_decode_str(element).decode_utf8_lossy().to_lowercase()
}

/// Returns whether a name in lower case is the kind, its plural, or a short name.
fn is_named(t: &ResourceType, name: &str) -> bool {
    let kind = t.gvk.kind.to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => name.strip_suffix("ies") == Some(stem),
        None => name.strip_suffix("es") == Some(&kind),
    };
    name == kind || plural || name.strip_suffix('s') == Some(&kind) || t.short_names.iter().any(|short| short == name)
}

/// The types whose kind differs from an element by a typing error, and the position of the element.
fn by_letters<'a>(types: &[&'a ResourceType], names: &[String]) -> Option<(usize, Vec<&'a ResourceType>)> {
    names.iter().enumerate().find_map(|(position, name)| {
        let kind = nearest(name, types.iter().map(|t| t.gvk.kind.to_lowercase()))?;
        // A short word is near to many others.
        let is_long = name.chars().count() > MIN_TYPO_CHARACTERS;
        let found = types.iter().copied().filter(|t| t.gvk.kind.to_lowercase() == kind).collect();
        is_long.then_some((position, found))
    })
}

/// Words up to this length are not corrected, characters.
const MIN_TYPO_CHARACTERS: usize = 3;

/// The collections of the group, and of the version, that the path names.
fn of_group(types: &[&ResourceType], names: &[String]) -> Vec<String> {
    let in_group = types.iter().filter(|t| names.contains(&t.gvk.group));
    let in_version = in_group.filter(|t| names.len() < 2 || names.contains(&t.gvk.group_version));
    in_version.take(MAX_PATHS).map(|t| collection_path(&t.gvk)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_spellings_and_missing_parts_are_found() {
        let registry = Registry::builtin().unwrap();
        for (path, wanted) in [
            ("/api/internal/v1/tombstones", "/api/internal/v1/tombstone"),
            ("/api/internal/v1/Tombstone/a", "/api/internal/v1/tombstone/a"),
            ("/api/internal/v9/tombstone", "/api/internal/v1/tombstone"),
            ("/tombstones/a%20b", "/api/internal/v1/tombstone/a%20b"),
            ("/apis/internal/v1/tombston", "/api/internal/v1/tombstone"),
            ("/v1/tombstone", "/api/internal/v1/tombstone"),
            ("/api/internal", "/api/internal/v1/tombstone"),
            ("/api/internal/v1", "/api/internal/v1/tombstone"),
        ] {
            assert_eq!(paths(&registry, path).first().map(String::as_str), Some(wanted), "{path}");
        }
        for path in ["/", "/api", "/api/", "/x", "/nowhere/at/all", "/%ff", "//"] {
            assert_eq!(paths(&registry, path), [""; 0], "{path}");
        }
    }
}
