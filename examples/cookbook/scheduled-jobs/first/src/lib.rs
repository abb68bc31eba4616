//! The first version of the plugin `scheduled-jobs`: types alone, with schedules in minutes.

use mortise_plugin::{Kind, Plugin, ResourceType, Scope};

mortise_plugin::include_proto!(pub mod proto);
use proto::jobs::v1::{Command, Schedule};

const COMMAND: Kind<Command> = Kind::new("jobs", "v1", "Command");

const SCHEDULE: Kind<Schedule> = Kind::new("jobs", "v1", "Schedule");

static PLUGIN: Plugin = Plugin::new(
    "scheduled-jobs",
    env!("CARGO_PKG_VERSION"),
    proto::DESCRIPTORS,
    &[&ResourceType::of(COMMAND, Scope::Namespace), &ResourceType::of(SCHEDULE, Scope::Namespace)],
);
mortise_plugin::export!(PLUGIN);
