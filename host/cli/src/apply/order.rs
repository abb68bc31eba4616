//! The order in which resources of one set are written: each after its owner, its namespace and its partition, as far
//! as the set has them. Deletions use the reverse order.
//!
//! Sorting takes time in proportion to the set times the depth of its longest chain of owners.

use std::collections::HashSet;

use mortise_resource::pb;
use mortise_text::Document;

use crate::{
    CliError,
    resources::ids::{Key, id_of, title, units_of},
};

/// Resources by levels: the first level needs nothing of the set, each later one only earlier levels.
#[derive(Debug)]
pub(crate) struct Levels<T> {
    pub(crate) sorted: Vec<Vec<T>>,
    /// Resources that need each other in a circle, and resources that need those; empty without a circle.
    pub(crate) circular: Vec<T>,
}

/// Sorts a set. Within a level the order is that of the set.
pub(crate) fn sort<T>(set: Vec<T>, resource: impl Fn(&T) -> &pb::Resource) -> Levels<T> {
    let key = |item: &T| Key::of(&id_of(resource(item)));
    let mut waiting: HashSet<Key> = set.iter().map(key).collect();
    let mut levels = Levels { sorted: Vec::new(), circular: set };
    loop {
        let is_ready = |item: &T| !needs(resource(item)).iter().any(|id| waiting.contains(&Key::of(id)));
        let (ready, later): (Vec<T>, Vec<T>) = levels.circular.into_iter().partition(is_ready);
        levels.circular = later;
        if ready.is_empty() {
            return levels;
        }
        for item in &ready {
            waiting.remove(&key(item));
        }
        levels.sorted.push(ready);
    }
}

/// Returns the documents by levels.
///
/// # Errors
/// Some documents need each other in a circle.
pub(crate) fn levels(documents: Vec<Document>) -> Result<Vec<Vec<Document>>, CliError> {
    let levels = sort(documents, |document| &document.resource);
    if levels.circular.is_empty() { Ok(levels.sorted) } else { Err(circle(&levels.circular)) }
}

/// Resources that must exist before this one: its owner, its namespace, its partition.
fn needs(resource: &pb::Resource) -> Vec<pb::Id> {
    resource.owner.iter().cloned().chain(units_of(&id_of(resource))).collect()
}

/// Describes one circle among these documents, each of which needs another of them.
fn circle(documents: &[Document]) -> CliError {
    let find = |id: &pb::Id| documents.iter().find(|d| Key::of(&id_of(&d.resource)) == Key::of(id));
    let mut path: Vec<(Key, String)> = Vec::new();
    let mut next = documents.first();
    while let Some(document) = next {
        let id = id_of(&document.resource);
        if let Some(begin) = path.iter().position(|(key, _)| *key == Key::of(&id)) {
            path.drain(..begin);
            break;
        }
        let needed = needs(&document.resource).into_iter().find_map(|id| find(&id).map(|document| (id, document)));
        let Some((needed, following)) = needed else { break };
        let owned = document.resource.owner.as_ref() == Some(&needed);
        let how = if owned { "is owned by" } else { "is in" };
        let line = format!("{}: {} {how} {}", document.locate("owner"), title(&id), title(&needed));
        path.push((Key::of(&id), line));
        next = Some(following);
    }
    let error = CliError::usage("these resources own each other in a circle; nothing was done");
    path.into_iter().fold(error, |error, (_, line)| error.detail(line))
}

#[cfg(test)]
mod tests {
    use mortise_resource::types::Gvk;

    use super::*;

    fn id(ty: &str, partition: &str, namespace: &str, name: &str) -> pb::Id {
        let ty = ty.parse::<Gvk>().unwrap().to_pb();
        let tenancy = pb::Tenancy { partition: partition.into(), namespace: namespace.into() };
        pb::Id { name: name.into(), r#type: Some(ty), tenancy: Some(tenancy), uid: String::new() }
    }

    fn resource(id: pb::Id, owner: Option<pb::Id>) -> pb::Resource {
        pb::Resource { id: Some(id), owner, ..pb::Resource::default() }
    }

    fn names(levels: &[Vec<pb::Resource>]) -> Vec<Vec<String>> {
        levels.iter().map(|level| level.iter().map(|resource| id_of(resource).name).collect()).collect()
    }

    #[test]
    fn units_and_owners_come_first() {
        let artist = id("demo.v2.Artist", "p", "n", "artist");
        let set = vec![
            resource(id("demo.v2.Album", "p", "n", "album"), Some(artist.clone())),
            resource(artist, None),
            resource(id("tenancy.v2beta1.Namespace", "p", "", "n"), None),
            resource(id("demo.v2.Artist", "default", "default", "elsewhere"), None),
            resource(id("tenancy.v2beta1.Partition", "", "", "p"), None),
        ];
        let levels = sort(set, |resource| resource);
        assert_eq!(names(&levels.sorted), [vec!["elsewhere", "p"], vec!["n"], vec!["artist"], vec!["album"]]);
        assert!(levels.circular.is_empty());
    }

    #[test]
    fn a_circle_is_left_over() {
        let (a, b) = (id("demo.v2.Artist", "p", "n", "a"), id("demo.v2.Artist", "p", "n", "b"));
        let set = vec![
            resource(a.clone(), Some(b.clone())),
            resource(b, Some(a)),
            resource(id("demo.v2.Artist", "p", "n", "c"), None),
        ];
        let levels = sort(set, |resource| resource);
        assert_eq!(names(&levels.sorted), [["c"]]);
        assert_eq!(names(&[levels.circular]), [["a", "b"]]);
    }
}
