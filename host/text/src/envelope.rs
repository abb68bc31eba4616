//! The envelope of a resource's data: id, owner, metadata, version. Keys may be in lowerCamelCase or snake_case; in HCL
//! they are the format's own.
//!
//! The id is under `id`, as on the wire, or its parts are flat at the top, as people write them. A type is a map of its
//! three parts or `group.version.Kind`; an id is a map or `group.version.Kind/name`.

use mortise_resource::{
    FieldPath, PathStep,
    goten::Meta,
    pb,
    types::{Gvk, gvk},
};
use prost::Message as _;
use prost_types::Any;

use crate::{
    Format, Types,
    data::{BYTES, TYPE, UNPRINTABLE_DATA_KEY, canonical, decoder::Decoder, names, wellknown},
    document::meta_descriptor,
    location::Span,
    node::{Entry, Node, Value},
};

/// Every key that may be at the top, those of the flat id included.
const TOP_LEVEL_KEYS: [&str; 14] = [
    "id",
    "type",
    "name",
    "tenancy",
    "partition",
    "namespace",
    "uid",
    "owner",
    "version",
    "generation",
    "metadata",
    "meta",
    "data",
    "status",
];
/// Key that is accepted and not read, since the server sets the schema version.
const IGNORED_KEY: &str = "schemaVersion";
/// Key of a tenancy in Consul, and its value for the cluster itself.
const PEER_KEY: &str = "peerName";
const LOCAL_PEER: &str = "local";
/// Keys of an id that is flat at the top.
const FLAT_ID_KEYS: [&str; 6] = ["type", "name", "tenancy", "partition", "namespace", "uid"];
/// Keys of an id under `id` or `owner`.
const ID_KEYS: [&str; 4] = ["type", "tenancy", "name", "uid"];

/// Reads a resource, and whether its owner is in short form. `None` after faults.
pub(crate) fn read(root: &Node, decoder: &mut Decoder<'_, '_>) -> Option<(pb::Resource, bool)> {
    let faults = decoder.sink.count();
    let Some(entries) = root.entries() else {
        let remedy = "write a map with id (or type and name) and data";
        decoder.mismatch(root, "a resource", Some(remedy.into()));
        return None;
    };
    let top = Fields::sort(entries, &TOP_LEVEL_KEYS, &[IGNORED_KEY], "a resource", decoder);
    let (id, id_node) = identity(root, &top, decoder);
    let mut resource = pb::Resource { id, ..Default::default() };
    let mut has_short_owner = false;
    if let Some(entry) = top.get("owner") {
        within(decoder, "owner", entry, |decoder| {
            has_short_owner = is_text(&entry.value);
            resource.owner = self::id(&entry.value, decoder);
        });
    }
    resource.version = top.text("version", decoder);
    resource.generation = top.text("generation", decoder);
    if let Some(entry) = top.get("metadata") {
        within(decoder, "metadata", entry, |decoder| metadata(&entry.value, decoder, &mut resource));
    }
    if let Some(entry) = top.get("meta") {
        resource.meta = within(decoder, "meta", entry, |decoder| meta(&entry.value, decoder));
    }
    let ty = resource.id.as_ref().and_then(|id| id.r#type.as_ref());
    if let Some(ty) = ty {
        resource.data = data(ty, id_node.unwrap_or(root.span), top.get("data"), decoder);
    }
    (decoder.sink.count() == faults).then_some((resource, has_short_owner))
}

/// Reads a resource whose id is given elsewhere. Other keys are ignored, those of the id included. `None` after faults.
pub(crate) fn read_unnamed(root: &Node, decoder: &mut Decoder<'_, '_>) -> Option<pb::Resource> {
    let faults = decoder.sink.count();
    let Some(entries) = root.entries() else {
        decoder.mismatch(root, "a resource", Some("write a map with data".into()));
        return None;
    };
    let entry = |name: &str| entries.iter().find(|entry| entry.key == name && !entry.value.is_null());
    let mut resource = pb::Resource::default();
    if let Some(entry) = entry("owner") {
        resource.owner = within(decoder, "owner", entry, |decoder| id(&entry.value, decoder));
    }
    if let Some(entry) = entry("metadata") {
        within(decoder, "metadata", entry, |decoder| metadata(&entry.value, decoder, &mut resource));
    }
    if let Some(entry) = entry("meta") {
        resource.meta = within(decoder, "meta", entry, |decoder| meta(&entry.value, decoder));
    }
    match entry("data").or_else(|| entry(UNPRINTABLE_DATA_KEY)) {
        Some(entry) => resource.data = data(&pb::Type::default(), root.span, Some(entry), decoder),
        None => decoder.within(PathStep::Field("data".into()), |decoder| {
            decoder.fault(start_of(root.span), "is required", Some("write the content under `data`".into()));
        }),
    }
    (decoder.sink.count() == faults).then_some(resource)
}

/// A map's entries, each with its name in `known` or `ignored`.
struct Fields<'n>(Vec<(&'static str, &'n Entry)>);

impl<'n> Fields<'n> {
    /// Reports entries that are neither in `known` nor in `ignored`, and entries that occur in two spellings.
    fn sort(
        entries: &'n [Entry],
        known: &[&'static str],
        ignored: &[&'static str],
        what: &str,
        decoder: &mut Decoder<'_, '_>,
    ) -> Self {
        let format = decoder.format();
        let mut sorted: Vec<(&'static str, &'n Entry)> = Vec::new();
        for entry in entries {
            let is = |name: &&&'static str| match format {
                Format::Hcl => names::hcl_name(name) == entry.key,
                _ => **name == entry.key || snake(name) == entry.key,
            };
            match known.iter().chain(ignored).find(is) {
                None => unknown(entry, known, what, decoder),
                Some(name) if sorted.iter().any(|(other, _)| other == name) => {
                    let text = format!("`{}` occurs in two spellings", entry.key);
                    decoder.fault(entry.key_span, text, Some("leave one of them out".into()));
                }
                Some(name) => sorted.push((name, entry)),
            }
        }
        Self(sorted)
    }

    /// An entry that is present and not null.
    fn get(&self, name: &str) -> Option<&'n Entry> {
        let (_, entry) = self.0.iter().find(|(known, _)| *known == name)?;
        (!entry.value.is_null()).then_some(*entry)
    }

    /// A string; empty when it is absent or at fault.
    fn text(&self, name: &'static str, decoder: &mut Decoder<'_, '_>) -> String {
        let Some(entry) = self.get(name) else { return String::new() };
        within(decoder, name, entry, |decoder| decoder.text(&entry.value).map(std::borrow::Cow::into_owned))
            .unwrap_or_default()
    }
}

fn snake(name: &str) -> String {
    name.chars().fold(String::with_capacity(name.len() + 2), |mut text, letter| {
        if letter.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
        text
    })
}

fn within<T>(
    decoder: &mut Decoder<'_, '_>,
    name: &str,
    entry: &Entry,
    inner: impl FnOnce(&mut Decoder<'_, '_>) -> T,
) -> T {
    let outer = std::mem::replace(&mut decoder.argument, entry.key.clone());
    let result = decoder.within(PathStep::Field(snake(name)), inner);
    decoder.argument = outer;
    result
}

fn unknown(entry: &Entry, known: &[&'static str], what: &str, decoder: &mut Decoder<'_, '_>) {
    if decoder.format() == Format::Hcl {
        let near = names::nearest(&entry.key, known.iter().map(|name| names::hcl_name(name)));
        let hint = near.map(|near| format!(" Did you mean \"{near}\"?")).unwrap_or_default();
        let text = match entry.value.value {
            Value::Blocks(_) => {
                format!("Unsupported block type; Blocks of type {:?} are not expected here.", entry.key)
            }
            _ => format!("Unsupported argument; An argument named {:?} is not expected here.", entry.key),
        };
        decoder.sink.add(entry.key_span, &decoder.path, text + &hint, None);
        return;
    }
    let remedy = match entry.key.as_str() {
        // Keys that users of Kubernetes write by habit.
        "apiVersion" | "kind" if what == "a resource" => write_hint("type", TYPE_PATTERN, decoder),
        "spec" if what == "a resource" => "write the content under `data`".to_owned(),
        "version" if what == "a type" => names::did_you_mean("groupVersion"),
        key => match names::nearest(key, known.iter().map(|name| (*name).to_owned())) {
            Some(near) => names::did_you_mean(&near),
            None => format!("{what} has {}", names::listed(known.iter().map(|name| (*name).to_owned()), 20)),
        },
    };
    decoder.within(PathStep::Field(entry.key.clone()), |decoder| {
        decoder.fault(entry.key_span, "there is no such field", Some(remedy));
    });
}

/// Reads the id, from `id` or from the keys at the top, and the place of its type.
fn identity(root: &Node, top: &Fields<'_>, decoder: &mut Decoder<'_, '_>) -> (Option<pb::Id>, Option<Span>) {
    let flat: Vec<_> = FLAT_ID_KEYS.iter().filter_map(|name| top.get(name)).collect();
    if let Some(entry) = top.get("id") {
        for extra in &flat {
            let text = format!("`{}` is part of the id, which `{}` already gives", extra.key, entry.key);
            decoder.fault(extra.key_span, text, Some("write only one of them".into()));
        }
        return within(decoder, "id", entry, |decoder| {
            (id(&entry.value, decoder), Some(type_span(&entry.value, decoder.format())))
        });
    }
    let Some(first) = flat.first() else {
        let remedy = match decoder.format() {
            Format::Hcl => "write a block ID with Type and Name".to_owned(),
            _ => {
                format!("{}, and a name; or an id of type, tenancy and name", write_hint("type", TYPE_PATTERN, decoder))
            }
        };
        // Consul's words.
        decoder.fault(start_of(root.span), "\"id\" field need to be provided", Some(remedy));
        return (None, None);
    };
    let mut id = pb::Id { uid: top.text("uid", decoder), ..Default::default() };
    let mut span = None;
    if let Some(entry) = top.get("type") {
        span = Some(entry.value.span);
        id.r#type = within(decoder, "type", entry, |decoder| r#type(&entry.value, decoder));
    } else {
        let remedy = write_hint("type", TYPE_PATTERN, decoder);
        decoder.fault(start_of(first.key_span), "the type is missing", Some(remedy));
    }
    id.name = name(top, root, decoder);
    let mut tenancy = pb::Tenancy::default();
    if let Some(entry) = top.get("tenancy") {
        within(decoder, "tenancy", entry, |decoder| tenancy = self::tenancy(&entry.value, decoder));
        for unit in ["partition", "namespace"].iter().filter_map(|unit| top.get(unit)) {
            let text = format!("`{}` is part of the tenancy, which is also given", unit.key);
            decoder.fault(unit.key_span, text, Some("write only one of them".into()));
        }
    } else {
        tenancy.partition = top.text("partition", decoder);
        tenancy.namespace = top.text("namespace", decoder);
    }
    id.tenancy = (tenancy != pb::Tenancy::default()).then_some(tenancy);
    (Some(id), span)
}

/// The remedy that shows how to write an entry: `name: korn`, `"name": "korn"`, `Name = "korn"`.
fn write_hint(key: &str, value: &str, decoder: &Decoder<'_, '_>) -> String {
    match decoder.format() {
        Format::Yaml => format!("write `{key}: {value}`"),
        Format::Json => format!("write `\"{key}\": \"{value}\"`"),
        Format::Hcl if key == "type" => format!("write `Type = gvk(\"{value}\")`"),
        Format::Hcl => format!("write `{} = \"{value}\"`", names::hcl_name(key)),
    }
}

const TYPE_PATTERN: &str = "group.version.Kind";

/// An empty span at the start of a long one.
fn start_of(span: Span) -> Span {
    Span::new(span.start, span.start)
}

fn is_text(node: &Node) -> bool {
    matches!(node.value, Value::Text(_) | Value::Plain(_)) && !node.is_null()
}

/// SourceLocation of the type in an id, or of the id itself.
fn type_span(node: &Node, format: Format) -> Span {
    let key = if format == Format::Hcl { "Type" } else { "type" };
    node.get(key).map_or(start_of(node.span), |ty| ty.span)
}

/// Reads an id: a map, or `group.version.Kind/name`.
fn id(node: &Node, decoder: &mut Decoder<'_, '_>) -> Option<pb::Id> {
    if is_text(node) {
        let text = decoder.text(node)?.into_owned();
        let Some((ty, name)) = text.split_once('/').filter(|(ty, name)| !ty.is_empty() && !name.is_empty()) else {
            let remedy = "write group.version.Kind/name, or a map of type, tenancy and name";
            decoder.fault(node.span, format!("{text:?} is not an id"), Some(remedy.into()));
            return None;
        };
        let ty = type_named(ty, node.span, decoder)?;
        return Some(pb::Id { r#type: Some(ty), name: name.to_owned(), ..Default::default() });
    }
    let Some(entries) = node.entries() else {
        decoder.mismatch(node, "a map", Some("write type, tenancy and name, or group.version.Kind/name".into()));
        return None;
    };
    let fields = Fields::sort(entries, &ID_KEYS, &[], "an id", decoder);
    let mut id = pb::Id { uid: fields.text("uid", decoder), ..Default::default() };
    id.name = name(&fields, node, decoder);
    match fields.get("type") {
        Some(entry) => id.r#type = within(decoder, "type", entry, |decoder| r#type(&entry.value, decoder)),
        None => {
            let remedy = write_hint("type", TYPE_PATTERN, decoder);
            decoder.fault(start_of(node.span), "the type is missing", Some(remedy));
        }
    }
    if let Some(entry) = fields.get("tenancy") {
        id.tenancy = Some(within(decoder, "tenancy", entry, |decoder| tenancy(&entry.value, decoder)));
    }
    Some(id)
}

fn name(fields: &Fields<'_>, what: &Node, decoder: &mut Decoder<'_, '_>) -> String {
    if fields.get("name").is_none() {
        let remedy = write_hint("name", "the-name", decoder);
        decoder.within(PathStep::Field("name".into()), |decoder| {
            decoder.fault(start_of(what.span), "the name is missing", Some(remedy));
        });
    }
    fields.text("name", decoder)
}

fn tenancy(node: &Node, decoder: &mut Decoder<'_, '_>) -> pb::Tenancy {
    let Some(entries) = node.entries() else {
        decoder.mismatch(node, "a map", Some("write partition and namespace".into()));
        return pb::Tenancy::default();
    };
    let fields = Fields::sort(entries, &["partition", "namespace"], &[PEER_KEY], "a tenancy", decoder);
    let peer = fields.text(PEER_KEY, decoder);
    if let Some(entry) = fields.get(PEER_KEY).filter(|_| !peer.is_empty() && peer != LOCAL_PEER) {
        let text = format!("{peer:?} is another cluster, and there are no peers here");
        let remedy = format!("leave it out, or write {LOCAL_PEER:?}");
        within(decoder, PEER_KEY, entry, |decoder| decoder.fault(entry.value.span, text, Some(remedy)));
    }
    pb::Tenancy { partition: fields.text("partition", decoder), namespace: fields.text("namespace", decoder) }
}

/// Reads a type: a map of its parts, or `group.version.Kind`.
fn r#type(node: &Node, decoder: &mut Decoder<'_, '_>) -> Option<pb::Type> {
    if is_text(node) {
        let text = decoder.text(node)?.into_owned();
        return type_named(&text, node.span, decoder);
    }
    let Some(entries) = node.entries() else {
        decoder.mismatch(
            node,
            "a type",
            Some("write group.version.Kind, or a map of group, groupVersion and kind".into()),
        );
        return None;
    };
    let faults = decoder.sink.count();
    let fields = Fields::sort(entries, &["group", "groupVersion", "kind"], &[], "a type", decoder);
    let ty = pb::Type {
        group: fields.text("group", decoder),
        group_version: fields.text("groupVersion", decoder),
        kind: fields.text("kind", decoder),
    };
    for (name, value) in [("group", &ty.group), ("groupVersion", &ty.group_version), ("kind", &ty.kind)] {
        if value.is_empty() && decoder.sink.count() == faults {
            decoder.fault(start_of(node.span), format!("the type has no {name}"), None);
        }
    }
    (decoder.sink.count() == faults).then_some(ty)
}

fn type_named(text: &str, span: Span, decoder: &mut Decoder<'_, '_>) -> Option<pb::Type> {
    if let Ok(found) = text.parse::<Gvk>() {
        return Some(found.to_pb());
    }
    // The meaning of a file must not depend on the registered types, so short names are not accepted, only suggested.
    let remedy = near_types(text, decoder.types).unwrap_or_else(|| "write group.version.Kind".into());
    decoder.fault(span, format!("{text:?} is not the full name of a type"), Some(remedy));
    None
}

/// Suggests types with a similar name; lists all types if none is similar.
fn near_types(name: &str, types: &dyn Types) -> Option<String> {
    let named: Vec<String> = types.named(name).iter().map(gvk).collect();
    if !named.is_empty() {
        return Some(format!("did you mean {}?", joined_with_or(&named)));
    }
    let all: Vec<String> = types.all().iter().map(gvk).collect();
    let kind = name.rsplit('.').next().unwrap_or_default();
    let same_kind: Vec<String> =
        all.iter().filter(|ty| ty.rsplit('.').next().is_some_and(|k| k.eq_ignore_ascii_case(kind))).cloned().collect();
    if !same_kind.is_empty() {
        return Some(format!("did you mean {}?", joined_with_or(&same_kind)));
    }
    if let Some(near) = names::nearest(name, all.iter().cloned()) {
        return Some(names::did_you_mean(&near));
    }
    (!all.is_empty()).then(|| format!("the types are {}", names::listed(all.into_iter(), 20)))
}

fn joined_with_or(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
}

fn metadata(node: &Node, decoder: &mut Decoder<'_, '_>, resource: &mut pb::Resource) {
    let Some(entries) = node.entries() else {
        decoder.mismatch(node, "a map", Some("write keys and values".into()));
        return;
    };
    for entry in entries {
        decoder.within(PathStep::Key(entry.key.clone()), |decoder| {
            if entry.value.is_null() {
                let remedy = "write \"\" for an empty string, \"null\" for the word";
                decoder.fault(entry.value.span, "a value of a map cannot be null", Some(remedy.into()));
            } else if let Some(text) = decoder.text(&entry.value) {
                resource.metadata.insert(entry.key.clone(), text.into_owned());
            }
        });
    }
}

/// Reads the whole meta; the server ignores its own part of it.
fn meta(node: &Node, decoder: &mut Decoder<'_, '_>) -> Option<Box<Meta>> {
    let message = decoder.message(&meta_descriptor()?, node)?;
    Meta::decode(canonical::encode(&message).as_slice()).ok().map(Box::new)
}

/// Reads the data by the id's type, which may come later in the text.
fn data(ty: &pb::Type, type_span: Span, entry: Option<&Entry>, decoder: &mut Decoder<'_, '_>) -> Option<Any> {
    let raw = entry.and_then(|entry| entry.value.get(BYTES).map(|bytes| (entry, bytes)));
    let descriptor = decoder.types.message(ty);
    if let Some((entry, bytes)) = raw {
        return within(decoder, "data", entry, |decoder| {
            wellknown::data_from_bytes(&entry.value, bytes, descriptor.as_ref(), decoder)
        });
    }
    let Some(descriptor) = descriptor else {
        let name = gvk(ty);
        let remedy = near_types(&name, decoder.types);
        let text = match decoder.format() {
            Format::Hcl => format!("error getting type for Any field: unknown resource type: {name}"),
            _ => format!("the type {name} is not registered"),
        };
        let id = FieldPath(vec![PathStep::Field("id".into()), PathStep::Field("type".into())]);
        decoder.sink.add(type_span, &id, text, remedy);
        return None;
    };
    let entry = entry?;
    let message = within(decoder, "data", entry, |decoder| match entry.value.get(TYPE) {
        Some(url) if names::find_field(&descriptor, TYPE, decoder.format()).is_none() => {
            let text = decoder.text(url)?;
            if !wellknown::names_message(&text, &descriptor) {
                wellknown::wrong_type(decoder, url, descriptor.full_name());
                return None;
            }
            let entries = entry.value.entries()?;
            match entry.value.get("value").filter(|_| wellknown::has_own_form(descriptor.full_name())) {
                Some(value) => decoder.message(&descriptor, value),
                None => decoder.fields(&descriptor, entries.iter().filter(|entry| entry.key != TYPE)),
            }
        }
        _ => decoder.message(&descriptor, &entry.value),
    })?;
    // Consul's command line sends the bare name for HCL.
    let host = if decoder.format() == Format::Hcl { "" } else { "type.googleapis.com/" };
    Some(Any { type_url: format!("{host}{}", descriptor.full_name()), value: canonical::encode(&message) })
}
