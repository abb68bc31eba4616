//! Encodes a message for printing: proto3's JSON mapping, and a lossless form where that mapping would lose data.

use mortise_resource::{map_key::map_key_text, pb, redaction::Redaction};
use prost_reflect::{DynamicMessage, EnumDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value};
use prost_types::Any;

use crate::{
    Types,
    data::{
        BYTES, TYPE, UNKNOWN, UNPRINTABLE_DATA_KEY,
        canonical::{self, order},
        embedded,
        hidden::RedactedValues,
        scalar, time, wellknown,
    },
    tree::Tree,
};

/// Most messages within each other, those in an `Any` included. It is protobuf's own limit, although protobuf counts
/// from zero again in each `Any`; printing takes stack for each level.
const MAX_MESSAGE_DEPTH: usize = 100;

/// Reasons why a message cannot be printed as its fields.
#[derive(Debug)]
enum Unprintable {
    /// It has no form in proto3's JSON, such as a timestamp of the year 20,000.
    NoForm,
    /// It is nested more than [`MAX_MESSAGE_DEPTH`] levels deep.
    TooDeep,
}

use Unprintable::{NoForm, TooDeep};

type PrintResult = Result<Tree, Unprintable>;

/// Settings for printing messages.
#[derive(Clone, Copy)]
struct Scope<'a> {
    types: &'a dyn Types,
    /// Numbers to print in place of redacted values; `None` prints the values.
    hidden: Option<&'a RedactedValues>,
    /// True if the data of resources within messages has the form of the HTTP API.
    embeds_resources: bool,
    /// Further levels of messages that may follow.
    depth: usize,
}

impl<'a> Scope<'a> {
    fn new(types: &'a dyn Types, hidden: Option<&'a RedactedValues>) -> Self {
        Self { types, hidden, embeds_resources: false, depth: MAX_MESSAGE_DEPTH }
    }

    fn inner(self) -> Result<Self, Unprintable> {
        Ok(Self { depth: self.depth.checked_sub(1).ok_or(TooDeep)?, ..self })
    }
}

/// The data of a resource, as the map of its fields. It is printed as `@type` and `@bytes`, which read back unchanged,
/// if its type is unknown, if it is not an instance of the type's message, or if it has no form in JSON.
pub(crate) fn data(data: &Any, ty: Option<&pb::Type>, types: &dyn Types, hidden: Option<&RedactedValues>) -> Tree {
    let name = data.type_url.rsplit('/').next().unwrap_or_default();
    let known = ty.and_then(|ty| types.message(ty));
    let decoded = known
        .clone()
        .filter(|descriptor| descriptor.full_name() == name)
        .and_then(|descriptor| DynamicMessage::decode(descriptor, data.value.as_slice()).ok());
    match decoded.map(|message| self::message(&message, Scope::new(types, hidden))) {
        Some(Ok(tree)) if !is_mistakable(&tree) => tree,
        _ => match hidden.zip(known).filter(|(_, known)| Redaction::from_pool(known.parent_pool()).is_some()) {
            Some((hidden, _)) => hidden.value(&Value::Bytes(data.value.clone().into())),
            None => raw(&data.type_url, &data.value),
        },
    }
}

/// Whether the content has keys of its own that would be taken for `@type` and `@bytes`.
fn is_mistakable(tree: &Tree) -> bool {
    matches!(tree, Tree::Map(entries) if entries.iter().any(|(key, _)| key == TYPE || key == BYTES))
}

/// Prints a message other than data, such as a status; `None` when it has no form.
pub(crate) fn message_tree(message: &DynamicMessage, types: &dyn Types) -> Option<Tree> {
    self::message(message, Scope::new(types, None)).ok()
}

/// Prints a message whose resources have the form that they have in the HTTP API; `None` when it has no form.
pub(crate) fn answer_tree(message: &DynamicMessage, types: &dyn Types) -> Option<Tree> {
    self::message(message, Scope { embeds_resources: true, ..Scope::new(types, None) }).ok()
}

/// The data of a resource within a message, with its key.
fn embedded_data(
    resource: &DynamicMessage,
    any: &DynamicMessage,
    scope: Scope<'_>,
) -> Result<(String, Tree), Unprintable> {
    let any = any.transcode_to::<Any>().map_err(|_| NoForm)?;
    let tree = data(&any, embedded::type_of(resource).as_ref(), scope.types, scope.hidden);
    let key = if is_mistakable(&tree) { UNPRINTABLE_DATA_KEY } else { embedded::DATA_FIELD };
    Ok((key.to_owned(), tree))
}

fn raw(url: &str, bytes: &[u8]) -> Tree {
    Tree::Map(vec![
        (TYPE.to_owned(), Tree::Text(url.to_owned())),
        (BYTES.to_owned(), Tree::Text(scalar::to_base64(bytes))),
    ])
}

fn message(message: &DynamicMessage, scope: Scope<'_>) -> PrintResult {
    let scope = scope.inner()?;
    let descriptor = message.descriptor();
    if wellknown::has_own_form(descriptor.full_name()) && descriptor.name() != "Empty" {
        // Their forms have no place for unknown fields.
        if !canonical::undeclared_fields(message).is_empty() {
            return Err(NoForm);
        }
        return own_form(message, &descriptor, scope);
    }
    fields(message, scope).map(Tree::Map)
}

fn fields(message: &DynamicMessage, scope: Scope<'_>) -> Result<Vec<(String, Tree)>, Unprintable> {
    let mut entries = Vec::new();
    let embeds = scope.embeds_resources && embedded::is_resource(&message.descriptor());
    for (field, value) in canonical::present_fields(message) {
        let value = value.as_ref();
        match (field.name(), value) {
            (embedded::REFERENCES_FIELD, _) if embeds => continue,
            (embedded::DATA_FIELD, Value::Message(any)) if embeds => {
                entries.push(embedded_data(message, any, scope)?);
                continue;
            }
            _ => {}
        }
        if let Some(hidden) = scope.hidden.filter(|hidden| hidden.covers(&field)) {
            entries.push((field.json_name().to_owned(), hidden.value(value)));
            continue;
        }
        let tree = match value {
            Value::Map(map) => {
                let value_kind = match field.kind() {
                    Kind::Message(entry) => entry.map_entry_value_field().kind(),
                    kind => kind,
                };
                let mut sorted: Vec<(&MapKey, &Value)> = map.iter().collect();
                sorted.sort_by(|(a, _), (b, _)| order(a, b));
                let entries = sorted
                    .into_iter()
                    .map(|(key, value)| Ok((map_key_text(key), self::value(&value_kind, value, scope)?)));
                Tree::Map(entries.collect::<Result<_, Unprintable>>()?)
            }
            Value::List(items) => {
                let kind = field.kind();
                Tree::List(items.iter().map(|item| self::value(&kind, item, scope)).collect::<Result<_, _>>()?)
            }
            value => self::value(&field.kind(), value, scope)?,
        };
        entries.push((field.json_name().to_owned(), tree));
    }
    let beyond = canonical::undeclared_fields(message);
    if !beyond.is_empty() {
        entries.push((UNKNOWN.to_owned(), Tree::Text(scalar::to_base64(&beyond))));
    }
    Ok(entries)
}

fn value(kind: &Kind, value: &Value, scope: Scope<'_>) -> PrintResult {
    Ok(match value {
        Value::Bool(value) => Tree::Bool(*value),
        Value::I32(value) => Tree::Int(i64::from(*value)),
        Value::U32(value) => Tree::Int(i64::from(*value)),
        Value::I64(value) => Tree::Long(i128::from(*value)),
        Value::U64(value) => Tree::Long(i128::from(*value)),
        Value::F32(value) => Tree::Float(*value),
        Value::F64(value) => Tree::Double(*value),
        Value::String(text) => Tree::Text(text.clone()),
        Value::Bytes(bytes) => Tree::Text(scalar::to_base64(bytes)),
        Value::EnumNumber(number) => enumerated(kind.as_enum(), *number),
        Value::Message(inner) => message(inner, scope)?,
        // Lists and maps are fields, not single values.
        Value::List(_) | Value::Map(_) => return Err(NoForm),
    })
}

fn enumerated(descriptor: Option<&EnumDescriptor>, number: i32) -> Tree {
    let Some(descriptor) = descriptor else { return Tree::Int(i64::from(number)) };
    if descriptor.full_name() == "google.protobuf.NullValue" && number == 0 {
        return Tree::Null;
    }
    match descriptor.get_value(number) {
        Some(value) => Tree::Text(value.name().to_owned()),
        None => Tree::Int(i64::from(number)),
    }
}

fn own_form(message: &DynamicMessage, descriptor: &MessageDescriptor, scope: Scope<'_>) -> PrintResult {
    let get = |number| message.get_field_by_number(number).ok_or(NoForm);
    match descriptor.name() {
        "Timestamp" => timestamp(get(1)?.as_i64().ok_or(NoForm)?, get(2)?.as_i32().ok_or(NoForm)?),
        "Duration" => duration(get(1)?.as_i64().ok_or(NoForm)?, get(2)?.as_i32().ok_or(NoForm)?),
        "FieldMask" => field_mask(get(1)?.as_list().ok_or(NoForm)?),
        "Any" => any(message, descriptor, scope),
        "Struct" => {
            let fields = get(1)?;
            let mut sorted: Vec<(&MapKey, &Value)> = fields.as_map().ok_or(NoForm)?.iter().collect();
            sorted.sort_by(|(a, _), (b, _)| order(a, b));
            let entry = |(key, value): (&MapKey, &Value)| {
                Ok((map_key_text(key), self::message(value.as_message().ok_or(NoForm)?, scope)?))
            };
            sorted.into_iter().map(entry).collect::<Result<_, _>>().map(Tree::Map)
        }
        "ListValue" => {
            let values = get(1)?;
            let items = values.as_list().ok_or(NoForm)?.iter();
            let item = |value: &Value| self::message(value.as_message().ok_or(NoForm)?, scope);
            items.map(item).collect::<Result<_, _>>().map(Tree::List)
        }
        "Value" => {
            let (field, content) = message.fields().next().ok_or(NoForm)?;
            match content {
                Value::EnumNumber(0) => Ok(Tree::Null),
                // An unknown number of NullValue would be read back as a number.
                Value::EnumNumber(_) => Err(NoForm),
                // JSON has no such number, and a string would be read back as a string.
                Value::F64(number) if !number.is_finite() => Err(NoForm),
                content => value(&field.kind(), content, scope),
            }
        }
        // The wrappers.
        _ => value(&descriptor.get_field(1).ok_or(NoForm)?.kind(), get(1)?.as_ref(), scope),
    }
}

fn timestamp(seconds: i64, nanos: i32) -> PrintResult {
    if !time::TIMESTAMP_SECONDS.contains(&seconds) || !(0..1_000_000_000).contains(&nanos) {
        return Err(NoForm);
    }
    let instant = time::EPOCH.checked_add(jiff::SignedDuration::new(seconds, nanos)).map_err(|_| NoForm)?;
    Ok(Tree::Text(match nanos {
        0 => format!("{instant:.0}Z"),
        nanos if nanos % 1_000_000 == 0 => format!("{instant:.3}Z"),
        nanos if nanos % 1_000 == 0 => format!("{instant:.6}Z"),
        _ => format!("{instant:.9}Z"),
    }))
}

fn duration(seconds: i64, nanos: i32) -> PrintResult {
    let one_sign = seconds == 0 || nanos == 0 || (seconds < 0) == (nanos < 0);
    if seconds.abs() > time::DURATION_SECONDS || nanos.abs() >= 1_000_000_000 || !one_sign {
        return Err(NoForm);
    }
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let (seconds, nanos) = (seconds.abs(), nanos.abs());
    Ok(Tree::Text(match nanos {
        0 => format!("{sign}{seconds}s"),
        nanos if nanos % 1_000_000 == 0 => format!("{sign}{seconds}.{:03}s", nanos / 1_000_000),
        nanos if nanos % 1_000 == 0 => format!("{sign}{seconds}.{:06}s", nanos / 1_000),
        nanos => format!("{sign}{seconds}.{nanos:09}s"),
    }))
}

fn field_mask(paths: &[Value]) -> PrintResult {
    let mut text = String::new();
    for path in paths {
        let path = path.as_str().filter(|path| !path.is_empty()).ok_or(NoForm)?;
        if !text.is_empty() {
            text.push(',');
        }
        let mut upper = false;
        for letter in path.chars() {
            match letter {
                '_' if !upper => upper = true,
                // Only names that read back unchanged: one letter after each underscore, and no other upper case.
                'a'..='z' if upper => {
                    text.push(letter.to_ascii_uppercase());
                    upper = false;
                }
                'a'..='z' | '0'..='9' | '.' if !upper => text.push(letter),
                _ => return Err(NoForm),
            }
        }
        if upper {
            return Err(NoForm);
        }
    }
    Ok(Tree::Text(text))
}

fn any(message: &DynamicMessage, descriptor: &MessageDescriptor, scope: Scope<'_>) -> PrintResult {
    let (url, bytes) = (message.get_field_by_number(1).ok_or(NoForm)?, message.get_field_by_number(2).ok_or(NoForm)?);
    let (url, bytes) = (url.as_str().ok_or(NoForm)?, bytes.as_bytes().ok_or(NoForm)?);
    if url.is_empty() {
        return if bytes.is_empty() { Ok(Tree::Map(Vec::new())) } else { Err(NoForm) };
    }
    let name = url.rsplit('/').next().unwrap_or_default();
    let inner = descriptor.parent_pool().get_message_by_name(name).or_else(|| scope.types.message_named(name));
    let Some(inner) = inner.and_then(|inner| DynamicMessage::decode(inner, bytes.clone()).ok()) else {
        return Ok(raw(url, bytes));
    };
    let ty = (TYPE.to_owned(), Tree::Text(url.to_owned()));
    let entries = if wellknown::has_own_form(name) {
        self::message(&inner, scope).map(|value| vec![ty, ("value".to_owned(), value)])
    } else {
        fields(&inner, scope.inner()?).map(|fields| std::iter::once(ty).chain(fields).collect())
    };
    match entries {
        Ok(entries) => Ok(Tree::Map(entries)),
        Err(NoForm) => Ok(raw(url, bytes)),
        Err(TooDeep) => Err(TooDeep),
    }
}
