//! Comparison of resources within a mask, and the paths that differ between two resources.

use mortise_resource::pb;
use prost_reflect::{DynamicMessage, FieldDescriptor, ReflectMessage as _};

use super::{Mask, head};
use crate::{
    Schema, Undecodable,
    candidate::decode_data,
    equality::{is_equivalent, is_same, is_same_field},
};

impl Mask {
    /// Whether two resources mean the same within the mask: an absent message equals an empty one, a list of one empty
    /// message equals an empty list, and entries of maps with empty messages count as absent.
    ///
    /// # Errors
    /// A compared part does not decode.
    pub fn is_equal(&self, a: &pb::Resource, b: &pb::Resource) -> Result<bool, Undecodable> {
        let (a, b) = (self.project_strictly(a)?, self.project_strictly(b)?);
        if !is_equivalent(&decode_head(&a)?, &decode_head(&b)?) {
            return Ok(false);
        }
        let (url, other_url) = (a.data.as_ref().map(|data| &data.type_url), b.data.as_ref().map(|data| &data.type_url));
        match (a.data == b.data, url, other_url) {
            (true, ..) => Ok(true),
            (_, Some(url), Some(other)) if url != other => Ok(false),
            _ => match self.schema.data() {
                None => Ok(false),
                Some(message) => {
                    let decode = |data: &Option<prost_types::Any>| match data {
                        None => Ok(DynamicMessage::new(message.clone())),
                        Some(data) => decode_data(&self.schema, &data.type_url, data.value.clone().into()),
                    };
                    Ok(is_equivalent(&decode(&a.data)?, &decode(&b.data)?))
                }
            },
        }
    }
}

/// The paths that differ between two resources: fields of the resource, and instead of `meta` and `data` the fields in
/// them. The path is `data` itself where only one resource has data, or where fields differ that the message does not
/// declare.
///
/// # Errors
/// One of the resources does not decode.
pub fn changed_paths(before: &pb::Resource, after: &pb::Resource, schema: &Schema) -> Result<Vec<String>, Undecodable> {
    let (old, new) = (decode_head(before)?, decode_head(after)?);
    let mut paths = Vec::new();
    for field in Schema::resource().fields().filter(|field| !is_same_field(&old, &new, field)) {
        match field.name() {
            "meta" => {
                let part = |message: &DynamicMessage| message.get_field(&field).as_message().cloned();
                let (Some(old), Some(new)) = (part(&old), part(&new)) else { continue };
                let changed = changed_fields(&old, &new);
                // Both are empty, but one is absent.
                let is_whole = changed.is_empty();
                paths.extend(changed.iter().map(|part| format!("meta.{}", part.name())));
                paths.extend(is_whole.then(|| "meta".to_owned()));
            }
            name => paths.push(name.to_owned()),
        }
    }
    if before.data != after.data {
        paths.extend(changed_data(before.data.as_ref(), after.data.as_ref(), schema)?);
    }
    Ok(paths)
}

/// The paths that differ between data with different bytes.
fn changed_data(
    before: Option<&prost_types::Any>,
    after: Option<&prost_types::Any>,
    schema: &Schema,
) -> Result<Vec<String>, Undecodable> {
    let whole = || Ok(vec!["data".to_owned()]);
    let (Some(before), Some(after), Some(_)) = (before, after, schema.data()) else { return whole() };
    if before.type_url != after.type_url {
        return whole();
    }
    let decode = |data: &prost_types::Any| decode_data(schema, &data.type_url, data.value.clone().into());
    let (old, new) = (decode(before)?, decode(after)?);
    if is_same(&old, &new) {
        return Ok(Vec::new());
    }
    if !old.unknown_fields().eq(new.unknown_fields()) {
        return whole();
    }
    Ok(changed_fields(&old, &new).iter().map(|field| format!("data.{}", field.name())).collect())
}

fn changed_fields(old: &DynamicMessage, new: &DynamicMessage) -> Vec<FieldDescriptor> {
    old.descriptor().fields().filter(|field| !is_same_field(old, new, field)).collect()
}

fn decode_head(resource: &pb::Resource) -> Result<DynamicMessage, Undecodable> {
    Ok(DynamicMessage::decode(Schema::resource().clone(), head(resource).as_slice())?)
}
