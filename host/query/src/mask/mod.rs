//! Field masks: the parts of a resource to show, write or compare.
//!
//! # Contract
//! A mask without paths means everything, and so does one with the path `*`. The mask skips paths of removed fields,
//! recognized by their reserved names. `data` is addressed as in a filter; a path may end at one key of a map. Kept
//! parts stay as they are encoded, with fields that no descriptor knows; a message that is kept in part loses all
//! fields that the mask does not name.
//!
//! # Cost
//! Showing and writing walk over the encoding once and do not decode `data`. Comparing decodes both sides.

mod compare;
mod selection;

pub use compare::changed_paths;

use mortise_resource::{goten, pb};
use prost::Message as _;

use crate::{
    Path, QueryError, Schema, Undecodable,
    error::shown,
    limits,
    path::{Root, Step},
    schema::DATA,
};
use selection::Selection;

/// Fields of a resource that only the server writes.
const OUTPUT_ONLY: [&str; 7] = ["id", "name", "version", "generation", "status", "schema_version", "references"];
/// Fields of `meta` that clients write.
const WRITABLE_META: [&str; 5] = ["tags", "labels", "annotations", "owner_references", "services"];
/// Fields of a resource that clients write.
const WRITABLE: [&str; 4] = ["owner", "metadata", "data", "meta"];

/// A resolved field mask. Comparing and changing fail only for resources that do not decode.
#[derive(Debug, Clone)]
pub struct Mask {
    schema: Schema,
    /// Selected parts of the resource. The selection for the field `data` applies to the message in it.
    root: Selection,
}

impl Mask {
    /// Reads a mask for showing or comparing. Without paths it means everything.
    ///
    /// # Errors
    /// A path leads to no field, or there are more than [`limits::MASK_PATHS`].
    pub fn parse(paths: &[String], schema: &Schema) -> Result<Self, QueryError> {
        let mut mask = Self { schema: schema.clone(), root: Selection::Whole };
        if paths.is_empty() {
            return Ok(mask);
        }
        let resolved = resolve(paths, schema)?;
        if !has_wildcard(paths) {
            mask.root = Selection::nothing();
            resolved.iter().for_each(|path| mask.add(path));
        }
        Ok(mask)
    }

    /// Reads the mask of an answer: the paths of a view and a mask together. `declared` holds the paths that the type
    /// declares for the view; without it, BASIC and DETAIL add nothing. Without any path, the mask means everything.
    ///
    /// # Errors
    /// Those of [`Mask::parse`].
    pub fn of_view(
        view: goten::View,
        declared: Option<&[String]>,
        paths: &[String],
        schema: &Schema,
    ) -> Result<Self, QueryError> {
        let name = ["name".to_owned()];
        let of_view: &[String] = match view {
            goten::View::Full => return Self::parse(&[], schema),
            goten::View::Name => &name,
            goten::View::Basic | goten::View::Detail => declared.unwrap_or_default(),
            goten::View::Unspecified => &[],
        };
        let all: Vec<String> = of_view.iter().chain(paths).cloned().collect();
        Self::parse(&all, schema)
    }

    /// Reads a mask for writing. Without paths, or with `*`, it means everything that a client may write; paths of the
    /// server's own fields are dropped, so the mask may become empty.
    ///
    /// # Errors
    /// Those of [`Mask::parse`], or a path goes through a list of messages.
    pub fn parse_write(paths: &[String], schema: &Schema) -> Result<Self, QueryError> {
        let everything = WRITABLE.map(str::to_owned);
        let mut mask = Self { schema: schema.clone(), root: Selection::nothing() };
        let all: &[String] = if paths.is_empty() || has_wildcard(paths) { &everything } else { &[] };
        for path in resolve(paths, schema)?.into_iter().chain(resolve(all, schema)?) {
            for path in writable_parts(path, schema)? {
                if path.is_through_list() {
                    let path = shown(&path.to_string());
                    let fault = format!(
                        "{path} goes through a list, and a mask cannot write its messages one by one; name the list"
                    );
                    return Err(QueryError::Mask(fault));
                }
                mask.add(&path);
            }
        }
        Ok(mask)
    }

    /// Whether the mask selects everything.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        matches!(self.root, Selection::Whole)
    }

    /// Whether the mask selects nothing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.root.is_nothing()
    }

    /// The selected parts of the resource, and its id.
    ///
    /// # Errors
    /// A part that the mask goes into does not decode.
    pub fn project(&self, resource: &pb::Resource) -> Result<pb::Resource, Undecodable> {
        let projected = self.project_strictly(resource)?;
        Ok(pb::Resource { id: resource.id.clone(), ..projected })
    }

    /// The stored resource with the selected parts of the incoming one: absent parts are cleared, lists and maps are
    /// replaced, and a key of a map is set or removed. Choosing a member of a oneof clears the others.
    ///
    /// # Errors
    /// A part that the mask goes into does not decode.
    pub fn update(&self, stored: &pb::Resource, incoming: &pb::Resource) -> Result<pb::Resource, Undecodable> {
        let head = self.root.merge(&head(stored), &head(incoming))?;
        let data = match self.root.field(DATA) {
            None => stored.data.clone(),
            Some(Selection::Whole) => incoming.data.clone(),
            Some(selection) => {
                let (old, new) = (self.content(stored.data.as_ref())?, self.content(incoming.data.as_ref())?);
                let value = selection.merge(old, new)?;
                let url = stored.data.as_ref().or(incoming.data.as_ref()).map(|data| data.type_url.clone());
                url.map(|type_url| prost_types::Any { type_url, value })
            }
        };
        Ok(pb::Resource { data, ..pb::Resource::decode(head.as_slice())? })
    }

    fn project_strictly(&self, resource: &pb::Resource) -> Result<pb::Resource, Undecodable> {
        if self.is_everything() {
            return Ok(resource.clone());
        }
        let head = self.root.project(&head(resource))?;
        let data = match (self.root.field(DATA), &resource.data) {
            (Some(Selection::Whole), Some(data)) => Some(data.clone()),
            (Some(selection), Some(data)) => {
                let value = selection.project(self.content(Some(data))?)?;
                Some(prost_types::Any { type_url: data.type_url.clone(), value })
            }
            _ => None,
        };
        Ok(pb::Resource { data, ..pb::Resource::decode(head.as_slice())? })
    }

    /// Bytes of data, which have to be of the type's message.
    fn content<'d>(&self, data: Option<&'d prost_types::Any>) -> Result<&'d [u8], Undecodable> {
        let Some(data) = data else { return Ok(&[]) };
        let found = data.type_url.rsplit('/').next().unwrap_or_default();
        match self.schema.data() {
            Some(message) if message.full_name() == found => Ok(&data.value),
            message => {
                let expected = message.map_or("not known", |message| message.full_name()).to_owned();
                Err(Undecodable::OtherMessage { expected, found: found.to_owned() })
            }
        }
    }

    fn add(&mut self, path: &Path) {
        let resource = Schema::resource();
        let field = |name: &str| resource.get_field_by_name(name).map(Step::Field);
        let begin = match path.root {
            Root::Resource | Root::Element => None,
            Root::Data => field("data"),
            Root::Name => field("id"),
        };
        let steps: Vec<Step> = begin.into_iter().chain(path.steps.iter().cloned()).collect();
        self.root.add(&steps);
    }
}

/// The encoding of a resource without its data.
fn head(resource: &pb::Resource) -> Vec<u8> {
    let pb::Resource { id, owner, version, generation, metadata, status, data: _, schema_version, meta, references } =
        resource;
    let head = pb::Resource {
        id: id.clone(),
        owner: owner.clone(),
        version: version.clone(),
        generation: generation.clone(),
        metadata: metadata.clone(),
        status: status.clone(),
        data: None,
        schema_version: *schema_version,
        meta: meta.clone(),
        references: references.clone(),
    };
    head.encode_to_vec()
}

/// The path of a mask that means everything.
const WILDCARD: &str = "*";

fn has_wildcard(paths: &[String]) -> bool {
    paths.iter().any(|path| path == WILDCARD)
}

/// Resolves the paths of a mask, except for the wildcard.
fn resolve(paths: &[String], schema: &Schema) -> Result<Vec<Path>, QueryError> {
    if paths.len() > limits::MASK_PATHS {
        let fault = format!("it has {} paths; at most {} are allowed", paths.len(), limits::MASK_PATHS);
        return Err(QueryError::Mask(fault));
    }
    let named = paths.iter().filter(|path| *path != WILDCARD);
    named.filter_map(|path| Path::parse_unless_reserved(path, schema).transpose()).collect()
}

/// The parts of a path that a client may write.
fn writable_parts(path: Path, schema: &Schema) -> Result<Vec<Path>, QueryError> {
    let name = |step: Option<&Step>| match step {
        Some(Step::Field(field)) => field.name().to_owned(),
        _ => String::new(),
    };
    let (first, second) = (name(path.steps.first()), name(path.steps.get(1)));
    Ok(match (path.root, first.as_str(), second.as_str()) {
        (Root::Data, ..) => vec![path],
        (Root::Name, ..) => Vec::new(),
        (_, first, _) if OUTPUT_ONLY.contains(&first) => Vec::new(),
        (_, "meta", "") => {
            let parts = WRITABLE_META.iter().map(|part| Path::parse(&format!("meta.{part}"), schema));
            parts.collect::<Result<_, _>>()?
        }
        (_, "meta", part) if !WRITABLE_META.contains(&part) => Vec::new(),
        _ => vec![path],
    })
}
