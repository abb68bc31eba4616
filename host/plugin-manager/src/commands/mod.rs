//! Commands of the plugin service, one per file. Each takes the plugin's turn, so it waits only for other work on that
//! plugin.

pub(crate) mod disable;
pub(crate) mod dry_run;
pub(crate) mod enable;
mod held;
pub(crate) mod inspect;
pub(crate) mod install;
pub(crate) mod load;
pub(crate) mod pause;
pub(crate) mod remove;
pub(crate) mod reset;
pub(crate) mod rollback;

use mortise_resource::{Code, Error, data, pb};

use crate::state::{ManagerState, plugin::ManagedPlugin};

fn precondition(what: String) -> Error {
    Error::new(Code::FailedPrecondition, what)
}

impl ManagerState {
    /// The record of a plugin, or of a file that is not a plugin.
    fn known_record(&self, name: &str) -> Result<&ManagedPlugin, Error> {
        self.plugins.get(name).ok_or_else(|| Error::not_found(format!("no plugin is named {name:?}")))
    }

    /// The record of a plugin with an existing source.
    fn owned_record(&self, name: &str) -> Result<&data::Plugin, Error> {
        let managed = self.known_record(name)?;
        let data = &managed.record.data;
        if managed.is_file_only() {
            return Err(precondition(format!(
                "{} could not be loaded as a plugin; replace the file, or remove it",
                data.source
            )));
        }
        if managed.is_removed() {
            let what = if managed.is_disabled() {
                "is disabled and its file is gone; put it back, or remove the plugin and install it"
            } else {
                "is removed; install it"
            };
            return Err(precondition(format!("plugin {name:?} {what}")));
        }
        Ok(data)
    }

    /// The plugin's resource, for a command that has changed it.
    fn answer(&self, name: &str) -> Result<pb::Resource, Error> {
        self.resource(name).ok_or_else(|| Error::internal(format!("the resource of plugin {name:?} is not stored")))
    }
}
