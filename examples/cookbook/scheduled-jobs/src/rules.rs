//! Defaults and rules of commands and schedules, and the plan of a schedule.

use mortise_plugin::{Diagnostics, Plan, Typed, field, name, settings_as};

use crate::{
    proto::jobs::v1::{Command, Schedule},
    settings::Settings,
    slots::Every,
};

/// Longest name of a schedule: those of its runs have a dash and the seconds since 1970 after it.
const LONGEST_NAME: usize = 50;

/// Checks a command.
pub(crate) fn check_command(command: &Typed<Command>, _stored: Option<&Typed<Command>>, diagnostics: &mut Diagnostics) {
    if command.data.line.is_empty() {
        diagnostics.error("line must not be empty").at(field("line"));
    }
}

/// Fills in the defaults of a schedule.
pub(crate) fn complete(schedule: &mut Typed<Schedule>) -> Result<(), Diagnostics> {
    if schedule.data.keep == 0 {
        let settings: Settings = settings_as().map_err(|fault| Diagnostics::refusal(fault.to_string()))?;
        schedule.data.keep = settings.keep;
    }
    Ok(())
}

/// Checks a schedule. The server checks that its command exists.
pub(crate) fn check(schedule: &Typed<Schedule>, _stored: Option<&Typed<Schedule>>, diagnostics: &mut Diagnostics) {
    if !name::is_valid(&schedule.data.command) {
        let text = "command must be the name of a command in the schedule's namespace";
        diagnostics.error(text).at(field("command"));
    }
    if let Err(fault) = Every::of(&schedule.data) {
        diagnostics.error(fault.to_string()).at(field("every"));
    }
    if schedule.name().len() > LONGEST_NAME {
        diagnostics.error(format!("the name of a schedule must have at most {LONGEST_NAME} characters"));
    }
}

/// Warns of moved times. A changed command needs no code: the host replaces a resource for an immutable field.
pub(crate) fn plan(
    schedule: &Typed<Schedule>,
    stored: Option<&Typed<Schedule>>,
    _kept: Option<&[u8]>,
    plan: &mut Plan<Schedule>,
) {
    if stored.is_some_and(|stored| stored.data.every != schedule.data.every) {
        plan.diagnostics.warning("the next run moves to a multiple of the new time").at(field("every"));
    }
}
