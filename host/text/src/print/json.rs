//! JSON: proto3's mapping, and the two shapes in which Consul's command line and HTTP API write it.

use mortise_resource::pb;
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

use crate::{Types, print, tree::Tree};

/// How JSON is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indent {
    /// All on one line, as in JSON lines.
    Compact,
    /// Each entry on a line of its own, this many spaces further in than what it is in.
    Spaces(usize),
}

/// One resource as JSON, id first, data in the order of its fields; no line break at the end.
#[must_use]
pub fn to_json(resource: &pb::Resource, types: &dyn Types, indent: Indent) -> String {
    write(&print::resource(resource, types, None), indent)
}

/// Several resources as `{"resources": […]}`, with further texts behind them.
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
    debug_assert!(written.is_ok(), "a tree has string keys only, and memory takes every write");
    String::from_utf8(bytes).unwrap_or_default()
}

/// JSON as Consul writes it: its keys in alphabetical order, as its HTTP API and the commands on top of it have them.
pub mod consul {
    use super::{Indent, Tree, Types, pb, print, write};
    use crate::data::{BYTES, TYPE, wellknown::has_own_form};

    /// One resource as Consul's HTTP API answers it (`Indent::Spaces(2)`) and `resource read` and `resource apply`
    /// print it (`Indent::Spaces(4)`): keys sorted, no `@type` in the data, absent data left out.
    #[must_use]
    pub fn resource(resource: &pb::Resource, types: &dyn Types, indent: Indent) -> String {
        write(&print::resource(resource, types, None).sorted(), indent)
    }

    /// Several resources as its HTTP API answers them and `resource list` prints them: `{"resources": […]}`.
    #[must_use]
    pub fn list(resources: &[pb::Resource], types: &dyn Types, indent: Indent) -> String {
        let resources = resources.iter().map(|resource| print::resource(resource, types, None)).collect();
        write(&Tree::Map(vec![("resources".to_owned(), Tree::List(resources))]).sorted(), indent)
    }

    /// One resource as the gRPC commands print it: keys in the order of the fields, two spaces, `@type` in the data.
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
