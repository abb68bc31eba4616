//! Maps paths under `/api` to types and targets.
//!
//! `/api/<group>/<version>/<kind>` is a collection, and one more element is the name of an item. All three are in lower
//! case. If there are further elements, the last one is the name, as in Consul. Elements are decoded after the path is
//! split, so an encoded slash belongs to a name, which is then invalid.

use std::sync::Arc;

use mortise_resource::types::Gvk;
use mortise_service::registry::{Registry, ResourceType};
use percent_encoding::percent_decode_str;

/// The element after an item that requests a dry run. Names never begin with an underscore.
const VALIDATE_ELEMENT: &str = "_validate";

/// The element after a collection or an item that requests events.
const WATCH_ELEMENT: &str = "_watch";

/// The meaning of a path.
pub(super) struct Route {
    /// The type as registered now.
    pub(super) kind: Arc<ResourceType>,
    /// The target within the type.
    pub(super) target: Target,
}

/// A target within a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// The collection.
    Collection,
    /// A resource, by an unchecked name; empty if the path has none.
    Item(String),
    /// The dry run for a resource.
    Validate(String),
    /// The events of a collection, or of the resource with this name.
    Watch(Option<String>),
}

impl Route {
    /// Finds the type of a path; `None` if no type has it.
    pub(super) fn find(registry: &Registry, path: &str) -> Option<Self> {
        let mut elements = path.strip_prefix("/api/")?.splitn(4, '/');
        let (group, version, kind) = (elements.next()?, elements.next()?, elements.next()?);
        let (group, version, kind) = (decoded(group), decoded(version), decoded(kind));
        let found = registry.types().iter().find(|t| is_at(&t.gvk, &group, &version, &kind))?;
        Some(Self { kind: found.clone(), target: elements.next().map_or(Target::Collection, target) })
    }
}

/// The path of a type's collection.
pub(super) fn collection_path(gvk: &Gvk) -> String {
    format!("/api/{}/{}/{}", gvk.group, gvk.group_version, gvk.kind.to_ascii_lowercase())
}

fn is_at(gvk: &Gvk, group: &str, version: &str, kind: &str) -> bool {
    // The rules of registration keep groups and versions in lower case.
    gvk.group == group
        && gvk.group_version == version
        && gvk.kind.eq_ignore_ascii_case(kind)
        && !kind.bytes().any(|b| b.is_ascii_uppercase())
}

fn target(rest: &str) -> Target {
    let mut elements = rest.trim_end_matches('/').rsplit('/').map(decoded);
    let last = elements.next().unwrap_or_default();
    match last.as_str() {
        VALIDATE_ELEMENT => Target::Validate(elements.next().unwrap_or_default()),
        WATCH_ELEMENT => Target::Watch(elements.next()),
        _ => Target::Item(last),
    }
}

/// Bytes that are not UTF-8 become characters that no name has.
fn decoded(element: &str) -> String {
    percent_decode_str(element).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str) -> Option<(String, Target)> {
        let registry = Registry::builtin().unwrap();
        Route::find(&registry, path).map(|route| (route.kind.gvk.to_string(), route.target))
    }

    fn item(name: &str) -> Option<(String, Target)> {
        Some(("internal.v1.Tombstone".into(), Target::Item(name.into())))
    }

    #[test]
    fn paths_in_lower_case_name_a_type() {
        let all = Some(("internal.v1.Tombstone".into(), Target::Collection));
        assert_eq!(found("/api/internal/v1/tombstone"), all);
        assert_eq!(found("/api/internal/v1/tombston%65"), all);
        for wrong in [
            "/api/internal/v1/Tombstone",
            "/api/Internal/v1/tombstone",
            "/api/internal/V1/tombstone",
            "/api/internal/v1/tombston%45",
            "/api/internal/v2/tombstone",
            "/api/internal/v1",
            "/api/internal/v1/",
            "/api//internal/v1/tombstone",
            "/api/",
            "/apis/internal/v1/tombstone",
        ] {
            assert_eq!(found(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_last_element_is_the_name() {
        for (rest, name) in [
            ("", ""),
            ("/", ""),
            ("korn", "korn"),
            ("korn/", "korn"),
            ("a/korn", "korn"),
            ("a//b/korn//", "korn"),
            ("KORN", "KORN"),
            ("a%2Fkorn", "a/korn"),
            ("k%6frn", "korn"),
            ("k%zz", "k%zz"),
            ("%ff", "\u{fffd}"),
            (".", "."),
            ("..", ".."),
        ] {
            assert_eq!(found(&format!("/api/internal/v1/tombstone/{rest}")), item(name), "{rest:?}");
        }
    }

    #[test]
    fn events_have_an_element_of_their_own() {
        let events =
            |name: Option<&str>| Some(("internal.v1.Tombstone".into(), Target::Watch(name.map(str::to_owned))));
        assert_eq!(found("/api/internal/v1/tombstone/_watch"), events(None));
        assert_eq!(found("/api/internal/v1/tombstone/_watch/"), events(None));
        assert_eq!(found("/api/internal/v1/tombstone/korn/_watch"), events(Some("korn")));
    }

    #[test]
    fn a_dry_run_has_an_element_of_its_own() {
        let dry = |name: &str| Some(("internal.v1.Tombstone".into(), Target::Validate(name.into())));
        assert_eq!(found("/api/internal/v1/tombstone/korn/_validate"), dry("korn"));
        assert_eq!(found("/api/internal/v1/tombstone/korn/_validate/"), dry("korn"));
        assert_eq!(found("/api/internal/v1/tombstone/_validate"), dry(""));
        assert_eq!(found("/api/internal/v1/tombstone/_validate/korn"), item("korn"));
    }
}
