//! Finds the node that a field path means in the tree of a text.

use mortise_resource::{FieldPath, PathStep};

use crate::{
    Format,
    data::names,
    location::Span,
    node::{Node, Value},
};

/// The place of the value that a path means, or of the last value on the way to it.
pub(crate) fn find(root: &Node, path: &str, format: Format) -> Span {
    let mut steps = FieldPath::parse(path).0;
    if steps.first() == Some(&PathStep::Field("resource".into())) {
        steps.remove(0);
    }
    // Flat keys at the top are parts of the id.
    for shell in ["id", "tenancy"] {
        if steps.first() == Some(&PathStep::Field(shell.into())) && child(root, shell, format).is_none() {
            steps.remove(0);
        }
    }
    let (mut node, mut span) = (root, root.span);
    for step in &steps {
        let next = match step {
            PathStep::Field(name) => child(node, name, format),
            PathStep::Key(key) => entry(node, |name| name == key),
            PathStep::Index(index) => match &node.value {
                Value::List(items) | Value::Blocks(items) => {
                    usize::try_from(*index).ok().and_then(|index| items.get(index)).map(|item| (item.span, item))
                }
                _ => None,
            },
        };
        let Some((key_span, value)) = next else { break };
        (span, node) = (key_span, value);
    }
    span
}

fn child<'n>(node: &'n Node, name: &str, format: Format) -> Option<(Span, &'n Node)> {
    let plain = |text: &str| text.replace('_', "").to_ascii_lowercase();
    let wanted = plain(name);
    let hcl = names::hcl_name(name);
    entry(node, |key| if format == Format::Hcl { key == hcl || plain(key) == wanted } else { plain(key) == wanted })
}

/// A map's entry; its place is that of its key.
fn entry(node: &Node, wanted: impl Fn(&str) -> bool) -> Option<(Span, &Node)> {
    node.entries()?.iter().find(|entry| wanted(&entry.key)).map(|entry| (entry.key_span, &entry.value))
}
