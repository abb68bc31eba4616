//! Upgrade of schedules that schema version 1 stored: `minutes` became `every`.

use mortise_plugin::{Diagnostics, prost::Message, prost_types::Duration};

use crate::proto::jobs::v1::{Schedule, ScheduleV1};

/// Upgrades the data of a schedule.
pub(crate) fn upgrade(since: u32, data: &[u8]) -> Result<Schedule, Diagnostics> {
    if since != 1 {
        return Err(Diagnostics::refusal(format!("cannot upgrade from schema version {since}; use a newer plugin")));
    }
    let old = ScheduleV1::decode(data)
        .map_err(|fault| Diagnostics::refusal(format!("cannot decode the data of schema version 1: {fault}")))?;
    let every = Duration { seconds: i64::from(old.minutes).saturating_mul(60), nanos: 0 };
    Ok(Schedule { command: old.command, every: Some(every), keep: 3 })
}
