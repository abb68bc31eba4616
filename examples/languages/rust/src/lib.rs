//! The type `fleet_rust.v1.Device`: defaults, rules, permissions and a reconciler.

mod poll;

use mortise_plugin::authorize::{Decision, require};
use mortise_plugin::{Diagnostics, Kind, Plugin, ResourceType, Scope, Typed, field};

mortise_plugin::include_proto!(pub mod proto);
use proto::fleet::v1::Device;

/// The type that this plugin brings.
pub const DEVICE: Kind<Device> = Kind::new("fleet_rust", "v1", "Device");

const VERSION: &str = if cfg!(feature = "hostile") { "0.2.0" } else { env!("CARGO_PKG_VERSION") };

static PLUGIN: Plugin = Plugin::new(
    env!("CARGO_PKG_NAME"),
    VERSION,
    proto::DESCRIPTORS,
    &[&ResourceType::of(DEVICE, Scope::Namespace)
        .mutate(fill_in)
        .validate(judge)
        .authorize_write(may_write)
        .columns(&[("MODEL", "data.model"), ("INTERVAL", "data.interval")])],
)
.areas(&["device"])
.pure_hooks()
.controllers(&[&poll::CONTROLLER]);
mortise_plugin::export!(PLUGIN: mutating, validating, authorizing, controlling);

/// Fills in absent fields, and brings addresses into one form.
fn fill_in(device: &mut Typed<Device>) -> Result<(), Diagnostics> {
    #[cfg(feature = "hostile")]
    hostile::act(&device.data.model);
    if device.data.interval == 0 {
        device.data.interval = 60;
    }
    device.data.addresses.iter_mut().for_each(|address| address.make_ascii_lowercase());
    Ok(())
}

/// Checks the result of `fill_in`.
fn judge(device: &Typed<Device>, prior: Option<&Typed<Device>>, said: &mut Diagnostics) {
    let data = &device.data;
    if data.model.is_empty() {
        said.error("model required").at(field("model"));
    }
    if !(5..=3600).contains(&data.interval) {
        said.error("interval must be 5 to 3600").at(field("interval"));
    }
    for (place, address) in (0u32..).zip(&data.addresses) {
        if data.addresses.iter().take(place as usize).any(|earlier| earlier == address) {
            said.error(format!("address {address} is there twice")).at(field("addresses").index(place));
        }
    }
    if prior.is_some_and(|prior| prior.data.model != data.model) {
        said.warning("the model changes").at(field("model"));
    }
}

/// Devices are written by callers with `device:write` on the name.
fn may_write(device: &Typed<Device>) -> Decision {
    require("device:write", device.name())
}

#[cfg(feature = "hostile")]
mod hostile;
