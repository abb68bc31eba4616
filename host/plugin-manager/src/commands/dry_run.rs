//! A dry run of an install.

use mortise_resource::{
    Error,
    pb::{self, Id},
    types,
};
use prost::Message as _;

use super::{install::check_name, load::OperatorLoad};
use crate::{core::Core, load::stage::Failure, plugin_resources::TYPE_URL};

/// Returns the plugin's resource as it would be, and whether the component serves already. It waits for the plugin's
/// turn, as an install does.
pub(crate) async fn try_install(
    core: &Core,
    name: &str,
    bytes: Vec<u8>,
    signature: Option<Vec<u8>>,
) -> Result<(pb::Resource, bool), Error> {
    check_name(name)?;
    let load = OperatorLoad::begin(core, name).await;
    let request = load.state.install_request(name, bytes, signature)?;
    let tried = load.try_run(core, &request).await.map_err(Failure::into_error)?;
    let stored = core.lock().await.resource(name);
    if tried.serves {
        return stored.map(|resource| (resource, true)).ok_or_else(|| Error::internal("the plugin has no resource"));
    }
    let new = || Id { name: name.to_owned(), r#type: Some(types::plugin().to_pb()), ..Id::default() };
    let id = stored.and_then(|resource| resource.id).unwrap_or_else(new);
    let data = prost_types::Any { type_url: TYPE_URL.to_owned(), value: tried.data.encode_to_vec() };
    Ok((pb::Resource { id: Some(id), data: Some(data), ..pb::Resource::default() }, false))
}
