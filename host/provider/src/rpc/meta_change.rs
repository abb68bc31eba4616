//! The labels, annotations and tags of a dry run: hooks may refuse them, and a plan shows such a fault.

use mortise_resource::goten::Meta;

use super::session::Server;
use crate::{
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    state::{Notes, all_labels, known_id},
    value::Value,
};

/// The meta to send; `None` leaves the stored one to the server. An update costs a read if it changes a label, an
/// annotation or a tag: those of others are in the meta, too. `creates` says whether the server gets a new resource.
pub(super) async fn meta_to_send(
    schema: &ResourceSchema,
    server: &Server,
    prior: &Value,
    creates: bool,
    config: &Value,
) -> Result<Option<Box<Meta>>, Vec<Diagnostic>> {
    let wanted = with_all_labels(config, server);
    let (owned, after) = (Notes::of(prior), Notes::of(&wanted));
    if creates {
        return Ok(after.new_meta());
    }
    let is_known = ["all_labels", "annotations", "tags"].iter().all(|name| wanted.get(name).is_wholly_known());
    if !is_known || owned == after {
        return Ok(None);
    }
    let stored = server.read(known_id(schema, prior)).await?;
    let stored = stored.as_ref().and_then(|stored| stored.meta.as_deref());
    Ok(after.replacing(&owned, stored, &server.defaults.controller_keys))
}

/// A configuration with the default labels.
fn with_all_labels(config: &Value, server: &Server) -> Value {
    let Value::Map(mut parts) = config.clone() else { return config.clone() };
    parts.insert("all_labels".to_owned(), all_labels(config, &server.defaults.labels));
    Value::Map(parts)
}
