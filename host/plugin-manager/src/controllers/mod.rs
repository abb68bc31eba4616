//! Runs controllers: the host's own, and those of the plugins that serve.
//!
//! `mortise-controller` runs reconcilers and knows no plugins, `mortise-plugin-host` calls guests and knows no
//! resources. Here they meet: what a manifest declares becomes a definition for the runtime (`definition`), a reconcile
//! becomes a call of the guest (`guest`), and what the guest asks of the host is answered by the service in the
//! controller's name (`host`). [`ControllerManager`] follows the registry: when a plugin is loaded its controllers
//! start; when it is replaced, the reconciles that run get time to end, and the new version takes over the queue; when
//! it goes, they end. While their hook is quarantined they are paused. What hooks search for is answered beside (`lookups`).
//!
//! Memory: each controller keeps what it manages and watches, as the store's shared copies. An idle one does nothing.

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
