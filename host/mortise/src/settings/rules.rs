//! What no range of a single setting can refuse: numbers that do not fit each other, and names that mean nothing.

use std::error::Error;

use crate::bundled;

use super::{error::SettingError, parts, plugin, table::Config};

impl Config {
    /// Every fault begins with the key, which tells where it was set.
    pub(crate) fn check(&self) -> Result<(), SettingError> {
        self.quarantine.check().map_err(part)?;
        self.controllers.check().map_err(part)?;
        parts::http(self).check().map_err(part)?;
        if let Some(name) = self.plugins.bundled.iter().find(|name| bundled::find(name).is_none()) {
            let known = bundled::ALL.map(|(name, _)| name).join(", ");
            return Err(SettingError::NotBundled { name: name.clone(), known });
        }
        self.log.filter()?;
        plugin::read(&self.plugin)?;
        Ok(())
    }
}

fn part(fault: impl Into<Box<dyn Error + Send + Sync>>) -> SettingError {
    SettingError::Part(fault.into())
}
