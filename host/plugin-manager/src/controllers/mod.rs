//! Runs controllers: the host's own, and those of the serving plugins.
//!
//! `mortise-controller` runs reconcilers and knows no plugins, `mortise-plugin-host` calls guests and knows no
//! resources. This module connects them: the declarations of a manifest become definitions for the runtime
//! (`definition`), a reconcile becomes a call of the guest (`guest`), and the service answers the guest's calls to the
//! host in the controller's name (`host`). [`ControllerManager`] follows the registry: when a plugin is loaded its
//! controllers start; when it is replaced, running reconciles get time to end, and the new version takes over the
//! queue; when it goes, they end. While their hook is quarantined they are paused. `lookups` answers the searches of
//! hooks.
//!
//! Memory: each controller caches the resources that it manages and watches, as the store's shared copies. An idle
//! controller costs no time.

mod definition;
mod guest;
mod host;
mod lookups;
mod manager;
mod report;
mod source;

pub(crate) use lookups::ServiceLookups;
pub use manager::ControllerManager;
pub(crate) use manager::check;
pub use mortise_controller::ControllersError;
pub use mortise_service::kv::Quota;
pub use source::ServiceSource;
