//! Names that are taken: found by the plan of a creation, and by the creation itself.

use mortise_resource::{meta, pb};

use super::{
    diagnostic::error_at,
    session::{Server, Session},
};
use crate::{
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    state::{id_text, resource_id},
    value::{Step, Value},
};

/// The fault of a creation under the name of a resource that no state of core has. Core plans a creation for a
/// replacement, too, in which the old resource rightly has the name.
pub(crate) async fn taken_name(
    schema: &ResourceSchema,
    session: &Session,
    server: &Server,
    config: &Value,
) -> Option<Diagnostic> {
    if ["name", "partition", "namespace"].iter().any(|part| !config.get(part).is_wholly_known()) {
        return None;
    }
    // A read that fails says nothing of the name.
    let found = server.client.read(resource_id(schema, config, &server.defaults)).await.ok()??;
    let uid = found.id.as_ref().map(|id| id.uid.clone()).unwrap_or_default();
    (!session.is_managed(&uid)).then(|| name_taken(schema, &found))
}

/// The fault of a name that another resource has.
pub(super) fn name_taken(schema: &ResourceSchema, other: &pb::Resource) -> Diagnostic {
    let id = id_text(schema.scope, &other.id.clone().unwrap_or_default());
    let marked = match meta::is_marked(&other.metadata) {
        true => " It is being deleted; plan again when it is gone.",
        false => "",
    };
    let detail = format!(
        "If this configuration had it at another address, write a `moved` block, and do not import it: a resource at two \
         addresses is destroyed when one of them goes. Else `terraform import ADDRESS {id}` takes it over.{marked} With `create_before_destroy` a replacement is created \
         while the old resource still has the name: remove `create_before_destroy`, or change the name as well."
    );
    let name = [Step::Attribute("name".to_owned())];
    Diagnostic { detail, ..error_at(&name, "a resource of this name already exists") }
}
