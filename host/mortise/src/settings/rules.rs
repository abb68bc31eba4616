//! What no range of a single setting can refuse: numbers that do not fit each other, and names that mean nothing.

use crate::bundled;

use super::{error::SettingError, plugin, range::Range, table::Config};

impl Config {
    /// Every fault begins with the key, which tells where it was set.
    pub(crate) fn check(&self) -> Result<(), SettingError> {
        let rules = &self.quarantine;
        at_most("quarantine.probation_faults", rules.probation_faults.into(), rules.faults.into())?;
        at_most("quarantine.backoff_ms", rules.backoff_ms, rules.max_backoff_ms)?;
        if let Some(name) = self.plugins.bundled.iter().find(|name| bundled::find(name).is_none()) {
            let known = bundled::ALL.map(|(name, _)| name).join(", ");
            return Err(SettingError::NotBundled { name: name.clone(), known });
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if let Some(wrong) = self.http.allowed_hosts.iter().find(|name| name.is_empty() || !name.chars().all(is_name)) {
            return Err(SettingError::NotAHostName { text: wrong.clone() });
        }
        let is_label = |label: &str| {
            let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            (1..=63).contains(&label.len())
                && label.bytes().all(is_part)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let zone = &self.destination.zone;
        if zone.len() > 200 || !zone.split('.').all(is_label) {
            return Err(SettingError::NotAZone { key: "destination.zone", text: zone.clone() });
        }
        self.log.filter()?;
        plugin::read(&self.plugin)?;
        Ok(())
    }
}

/// Refuses a number above that of another setting. Both are within their own ranges.
fn at_most(key: &str, number: u64, most: u64) -> Result<(), SettingError> {
    let range = Range::new(1, i64::try_from(most).unwrap_or(i64::MAX));
    Ok(range.check(key, number.into())?)
}
