//! JSON: proto3's mapping, and the two shapes in which Consul's command line and HTTP API write it.

use mortise_resource::pb;
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

use crate::{Types, print, tree::Tree};

/// Layout of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indent {
    /// All on one line, as in JSON lines.
    Compact,
    /// Each entry on its own line, indented by this many spaces per level.
    Spaces(usize),
}

/// A resource as JSON, id first, data in the order of its fields; no line break at the end.
#[must_use]
pub fn to_json(resource: &pb::Resource, types: &dyn Types, indent: Indent) -> String {
    write(&print::resource(resource, types, None), indent)
}

/// Several resources as `{"resources": […]}`, followed by more keys with texts.
#[must_use]
pub fn list_to_json(resources: &[pb::Resource], more: &[(&str, &str)], types: &dyn Types, indent: Indent) -> String {
    let resources = resources.iter().map(|resource| print::resource(resource, types, None)).collect();
    let mut entries = vec![("resources".to_owned(), Tree::List(resources))];
    entries.extend(more.iter().map(|(key, text)| ((*key).to_owned(), Tree::Text((*text).to_owned()))));
    write(&Tree::Map(entries), indent)
}

pub(crate) fn write(tree: &Tree, indent: Indent) -> String {
    let mut bytes = Vec::new();
    let written = match indent {
        Indent::Compact => tree.serialize(&mut Serializer::new(&mut bytes)),
        Indent::Spaces(width) => {
            let spaces = vec![b' '; width];
            tree.serialize(&mut Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(&spaces)))
        }
    };
    debug_assert!(written.is_ok(), "a tree has string keys only, and writes to memory do not fail");
    String::from_utf8(bytes).unwrap_or_default()
}

/// JSON as Consul writes it: keys in alphabetical order, as in its HTTP API and the commands on top of it.
pub mod consul {
    use super::{Indent, Tree, Types, pb, print, write};
    use crate::data::{BYTES, TYPE, UNPRINTABLE_DATA_KEY, wellknown::has_own_form};

    /// A resource as in answers of Consul's HTTP API (`Indent::Spaces(2)`) and in the output of `resource read` and
    /// `resource apply` (`Indent::Spaces(4)`): keys sorted, no `@type` in the data, absent data left out.
    #[must_use]
    pub fn resource(resource: &pb::Resource, types: &dyn Types, indent: Indent) -> String {
        write(&print::resource(resource, types, None).sorted(), indent)
    }

    /// A resource as in answers of this server's HTTP API: as [`resource`], but absent data is an empty object, and
    /// data that JSON cannot express stands under `unprintableData` instead, so that `data` has one form.
    #[must_use]
    pub fn answer(resource: &pb::Resource, types: &dyn Types, indent: Indent) -> String {
        let mut tree = print::resource(resource, types, None);
        if let Tree::Map(entries) = &mut tree {
            match entries.iter_mut().find(|(key, _)| key == "data") {
                Some((key, Tree::Map(fields))) if fields.iter().any(|(field, _)| field == BYTES) => {
                    *key = UNPRINTABLE_DATA_KEY.to_owned();
                }
                Some(_) => {}
                None => entries.push(("data".to_owned(), Tree::Map(Vec::new()))),
            }
        }
        write(&tree.sorted(), indent)
    }

    /// Several resources as in answers of its HTTP API and in the output of `resource list`: `{"resources": […]}`.
    #[must_use]
    pub fn list(resources: &[pb::Resource], types: &dyn Types, indent: Indent) -> String {
        let resources = resources.iter().map(|resource| print::resource(resource, types, None)).collect();
        write(&Tree::Map(vec![("resources".to_owned(), Tree::List(resources))]).sorted(), indent)
    }

    /// A resource as the gRPC commands print it: keys in the order of the fields, two spaces, `@type` in the data.
    #[must_use]
    pub fn grpc_resource(resource: &pb::Resource, types: &dyn Types) -> String {
        write(&with_type(resource, types), Indent::Spaces(2))
    }

    /// Several resources as the gRPC commands print them: a list.
    #[must_use]
    pub fn grpc_list(resources: &[pb::Resource], types: &dyn Types) -> String {
        let resources = resources.iter().map(|resource| with_type(resource, types)).collect();
        write(&Tree::List(resources), Indent::Spaces(2))
    }

    fn with_type(resource: &pb::Resource, types: &dyn Types) -> Tree {
        let mut tree = print::resource(resource, types, None);
        let url = resource.data.as_ref().map(|data| data.type_url.clone());
        if let (Tree::Map(entries), Some(url)) = (&mut tree, url)
            && let Some((_, data)) = entries.iter_mut().find(|(key, _)| key == "data")
        {
            let own_form = has_own_form(url.rsplit('/').next().unwrap_or_default());
            let ty = (TYPE.to_owned(), Tree::Text(url));
            match data {
                Tree::Map(fields) if !own_form => {
                    if !fields.iter().any(|(key, _)| key == TYPE) {
                        fields.insert(0, ty);
                    }
                }
                Tree::Map(fields) if fields.iter().any(|(key, _)| key == BYTES) => {}
                content => *content = Tree::Map(vec![ty, ("value".to_owned(), content.clone())]),
            }
        }
        tree
    }
}
