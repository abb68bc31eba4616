//! The plugin `scheduled-jobs`: commands, schedules and their runs.

mod functions;
mod rules;
mod schedule;
mod settings;
mod slots;
#[cfg(test)]
mod tests;
mod upgrade;

use mortise_plugin::{Kind, Plugin, ResourceType, Scope};

mortise_plugin::include_proto!(pub mod proto);
use proto::jobs::v1::{Command, Run, Schedule};

/// Type of commands.
pub const COMMAND: Kind<Command> = Kind::new("jobs", "v1", "Command");

/// Type of schedules.
pub const SCHEDULE: Kind<Schedule> = Kind::new("jobs", "v1", "Schedule");

/// Type of runs.
pub const RUN: Kind<Run> = Kind::new("jobs", "v1", "Run");

static PLUGIN: Plugin = Plugin::new(
    env!("CARGO_PKG_NAME"),
    env!("CARGO_PKG_VERSION"),
    proto::DESCRIPTORS,
    &[
        &ResourceType::of(COMMAND, Scope::Namespace).validate(rules::check_command).columns(&[("LINE", "data.line")]),
        &ResourceType::of(SCHEDULE, Scope::Namespace)
            .schema_version(2)
            .upgrade(upgrade::upgrade)
            .mutate(rules::complete)
            .validate(rules::check)
            .immutable(&["command"])
            .plan(rules::plan)
            .columns(&[("COMMAND", "data.command"), ("EVERY", "data.every")]),
        &ResourceType::of(RUN, Scope::Namespace)
            .immutable(&["schedule", "due", "line"])
            .columns(&[("DUE", "data.due"), ("RESULT", "data.result")]),
    ],
)
.settings_as::<settings::Settings>()
.functions(&functions::FUNCTIONS)
.controllers(&[&schedule::CONTROLLER]);
mortise_plugin::export!(PLUGIN: mutating, validating, configuring, upgrading, planning, functions, controlling);
