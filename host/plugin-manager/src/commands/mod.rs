//! What callers of the plugin service command, one command a file. Each takes the plugin's turn, so it waits for what
//! is done with that plugin and for nothing else.

pub(crate) mod disable;
pub(crate) mod enable;
pub(crate) mod inspect;
pub(crate) mod install;
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
    /// A plugin, or a file that is none.
    fn known(&self, name: &str) -> Result<&ManagedPlugin, Error> {
        self.plugins.get(name).ok_or_else(|| Error::not_found(format!("no plugin is named {name:?}")))
    }

    /// The record of something that is a plugin and whose source is there.
    fn owned(&self, name: &str) -> Result<&data::Plugin, Error> {
        let managed = self.known(name)?;
        let data = &managed.record.data;
        if managed.is_file_only() {
            return Err(precondition(format!("{} never became a plugin; mend it, or remove it", data.source)));
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
