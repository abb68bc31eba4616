//! A resource of a text, and its place there.

use std::{collections::BTreeMap, sync::Arc, sync::LazyLock};

use mortise_resource::{DESCRIPTORS, FieldPath, PathStep, pb};
use prost::Message;
use prost_reflect::{DescriptorPool, MessageDescriptor};

use crate::{
    Format, Types,
    data::{canonical, decoder::Decoder},
    diagnostic::{DiagnosticSink, Diagnostics},
    location::{Lines, SourceLocation},
    node::{Entry, Node, Value},
    path,
};

/// A resource that a text describes.
#[derive(Debug, Clone)]
pub struct Document {
    /// The resource. Its data is encoded, with entries of maps sorted. Its status is always empty, since clients do not
    /// write statuses; see [`Document::status`].
    pub resource: pb::Resource,
    /// Start of the resource in the text.
    pub place: SourceLocation,
    /// Format of the text.
    pub format: Format,
    /// Whether the owner is written in short form, so that its tenancy is still to be filled in.
    pub(crate) has_short_owner: bool,
    pub(crate) root: Node,
    pub(crate) lines: Arc<Lines>,
}

impl Document {
    /// The place of a field, or of the nearest field above it if the text does not have it. Paths are as in faults and
    /// in the server's violations: `data.group_members["drums"]`, `data.tracks[3]`, `resource.id.name`. An invalid path
    /// means the document as a whole.
    #[must_use]
    pub fn locate(&self, path: &str) -> SourceLocation {
        let span = path::find(&self.root, path, self.format);
        SourceLocation { file: self.place.file.clone(), position: self.lines.position(span.start) }
    }

    /// The status in the text, which is not part of [`Document::resource`]; empty if the text has none.
    ///
    /// # Errors
    /// The status is not a map of statuses.
    pub fn status(&self, types: &dyn Types) -> Result<BTreeMap<String, pb::Status>, Diagnostics> {
        let mut sink = DiagnosticSink::new(&self.place.file, self.format, Arc::clone(&self.lines), 20);
        let mut read = BTreeMap::new();
        if let Some(node) = self.root.get("status").filter(|node| !node.is_null()) {
            let mut decoder = Decoder::new(types, &mut sink);
            decoder.path = FieldPath::field("status");
            match (node.entries(), status_descriptor()) {
                (Some(entries), Some(descriptor)) => {
                    for entry in entries {
                        let step = PathStep::Key(entry.key.clone());
                        let message = decoder.within(step, |decoder| decoder.message(&descriptor, &entry.value));
                        let status =
                            message.and_then(|message| pb::Status::decode(canonical::encode(&message).as_slice()).ok());
                        read.extend(status.map(|status| (entry.key.clone(), status)));
                    }
                }
                _ => decoder.mismatch(node, "a map", None),
            }
        }
        sink.finish().map(|()| read)
    }

    /// Fills in the tenancy units that the type's scope has and the text leaves open: of the resource, and of an owner
    /// in short form, which has the units of the resource. Fills in nothing for a type whose scope is unknown.
    pub fn place_in(&mut self, partition: &str, namespace: &str, types: &dyn Types) {
        let Some(id) = &mut self.resource.id else { return };
        fill(id, partition, namespace, types);
        let own = id.tenancy.clone().unwrap_or_default();
        if self.has_short_owner
            && let Some(owner) = &mut self.resource.owner
        {
            let pick = |own: &str, default: &str| if own.is_empty() { default.to_owned() } else { own.to_owned() };
            fill(owner, &pick(&own.partition, partition), &pick(&own.namespace, namespace), types);
        }
    }
}

fn fill(id: &mut pb::Id, partition: &str, namespace: &str, types: &dyn Types) {
    use mortise_resource::Scope;
    let scope = id.r#type.as_ref().and_then(|ty| types.scope(ty));
    let tenancy = id.tenancy.get_or_insert_default();
    let fill = |unit: &mut String, value: &str| {
        if unit.is_empty() {
            value.clone_into(unit);
        }
    };
    match scope {
        Some(Scope::Cluster | Scope::Undefined) | None => {}
        Some(Scope::Partition) => fill(&mut tenancy.partition, partition),
        Some(Scope::Namespace) => {
            fill(&mut tenancy.partition, partition);
            fill(&mut tenancy.namespace, namespace);
        }
    }
}

/// The descriptor of a status.
pub(crate) fn status_descriptor() -> Option<MessageDescriptor> {
    descriptor("hashicorp.consul.resource.Status")
}

/// The descriptor of a resource's meta.
pub(crate) fn meta_descriptor() -> Option<MessageDescriptor> {
    descriptor("goten.types.Meta")
}

/// The descriptor of a message of the resource crate.
fn descriptor(name: &str) -> Option<MessageDescriptor> {
    static POOL: LazyLock<Option<DescriptorPool>> = LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).ok());
    POOL.as_ref()?.get_message_by_name(name)
}

/// Splits a text's values into one for each resource: lists and `{"resources": […]}` hold several, and requests and
/// answers of Consul's API, `{"resource": …}`, hold one.
pub(crate) fn split_collections(nodes: Vec<Node>) -> Vec<Node> {
    let mut unpacked = Vec::with_capacity(nodes.len());
    for node in nodes {
        match node.value {
            Value::List(items) => unpacked.extend(items),
            Value::Map(entries) if is_collection(&entries) => {
                for entry in entries {
                    match entry.value.value {
                        Value::List(items) => unpacked.extend(items),
                        // `resources: null`, as a server writes an empty list.
                        _ if entry.value.is_null() => {}
                        value => unpacked.push(Node::new(entry.value.span, value)),
                    }
                }
            }
            value => unpacked.push(Node::new(node.span, value)),
        }
    }
    unpacked
}

fn is_collection(entries: &[Entry]) -> bool {
    matches!(entries, [Entry { key, .. }] if key == "resources" || key == "resource")
}

/// Reads the document that a value describes; `None` after faults.
pub(crate) fn read(root: Node, types: &dyn Types, sink: &mut DiagnosticSink) -> Option<Document> {
    let (resource, has_short_owner) = crate::envelope::read(&root, &mut Decoder::new(types, sink))?;
    let place = sink.place(root.span.start);
    Some(Document { resource, place, format: sink.format, has_short_owner, root, lines: Arc::clone(&sink.lines) })
}
