//! The ranges of settings that are whole numbers. `config.toml` documents each, at the end of what it says of the setting.
//!
//! They are wide: below them nothing could be served, above them are typing errors, and what no machine has. Rules between
//! settings, and what a part of the server knows better, are judged when all of the configuration is there (`config`).

use std::fmt;

use toml::{Table, Value};

/// What a whole number may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    least: i64,
    most: i64,
    /// Zero as well, which has a meaning of its own.
    or_zero: bool,
}

impl Range {
    fn holds(self, number: i128) -> bool {
        (self.or_zero && number == 0) || (self.least.into()..=self.most.into()).contains(&number)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { least, most, or_zero } = self;
        f.write_str(if *or_zero { "0, or " } else { "" })?;
        write!(f, "{least} to {most}")
    }
}

/// The range of a setting, by its key; `None` if it is no whole number.
fn range(key: &str) -> Option<Range> {
    const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
    const KIB: i64 = 1 << 10;
    const MIB: i64 = 1 << 20;
    const GIB: i64 = 1 << 30;
    const TIB: i64 = 1 << 40;
    let (least, most) = match key {
        "shutdown_grace_ms"
        | "plugins.settle_ms"
        | "plugins.unfinished_ms"
        | "plugins.drain_ms"
        | "service.second_pass_ms"
        | "sandbox.low_priority_ms" => (0, DAY_MS),
        "plugins.rescan_ms"
        | "sandbox.deadline_ms"
        | "sandbox.describe_deadline_ms"
        | "controllers.deadline_ms"
        | "controllers.host_call_ms"
        | "quarantine.window_ms"
        | "quarantine.backoff_ms"
        | "quarantine.max_backoff_ms" => (1, DAY_MS),
        "http.request_timeout_ms" | "http.stall_timeout_ms" | "http.keep_alive_ms" => (10, DAY_MS),
        "service.max_streams" | "service.max_watches" | "grpc.max_connections" | "http.max_connections" => {
            (1, 1_000_000)
        }
        "service.max_request_bytes" | "sandbox.component_bytes" => (KIB, GIB),
        // Plugins describe themselves in an answer.
        "sandbox.reply_bytes" => (64 * KIB, GIB),
        "store.cache_bytes" => (64 * KIB, TIB),
        // The host keeps resources of its own, one for each plugin.
        "store.max_resource_bytes" => (1_000, GIB),
        "store.history_events" => (0, 100_000_000),
        "store.history_bytes" => (0, TIB),
        "store.watch_buffer" | "store.commit_queue" | "plugin_logs.follow_lines" => (1, 1 << 20),
        "sandbox.instances" | "controllers.instances" => (0, 10_000),
        "sandbox.fuel" | "controllers.fuel" => (1, i64::MAX),
        "sandbox.memory_bytes" | "controllers.memory_bytes" => (64 * KIB, 4 * GIB),
        "sandbox.table_elements" => (1, 10_000_000),
        "sandbox.core_instances" | "sandbox.tables" => (1, 1_000),
        "sandbox.memories" => (1, 100),
        "sandbox.handles" => (1, 1_000_000),
        "sandbox.host_calls" | "controllers.host_calls" => (1, u32::MAX.into()),
        "sandbox.log_bytes" => (0, 64 * MIB),
        "sandbox.concurrency" | "quarantine.faults" | "quarantine.probation_faults" => (1, 10_000),
        // No settings at all are two bytes of JSON.
        "sandbox.settings_bytes" => (2, 64 * MIB),
        "sandbox.remembered_decisions" | "plugin_logs.lines_per_second" | "plugin_logs.kept_lines" => (0, 1_000_000),
        "sandbox.compile_threads" => (0, 256),
        "plugin_logs.bytes_per_second" | "plugin_logs.kept_bytes" => (0, GIB),
        "kv.values" => (0, 10_000_000),
        "kv.bytes" => (0, TIB),
        _ => return None,
    };
    Some(Range { least, most, or_zero: key == "store.cache_bytes" })
}

/// Refuses a number that is out of the range of its key.
pub(crate) fn check_range(key: &str, number: i128) -> Result<(), String> {
    match range(key) {
        Some(range) if !range.holds(number) => Err(format!("{key} must be {range}, got {number}")),
        _ => Ok(()),
    }
}

/// The same for all numbers of a table, whose keys begin with `section`.
pub(crate) fn check_ranges(section: &str, table: &Table) -> Result<(), String> {
    table.iter().try_for_each(|(key, value)| match value {
        Value::Table(inner) => check_ranges(&format!("{section}{key}."), inner),
        Value::Integer(number) => check_range(&format!("{section}{key}"), (*number).into()),
        _ => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::config::{Config, Overrides, Settings, variable};

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config.toml");

    /// Keys of whole numbers with their defaults.
    fn numbers(section: &str, table: &Table) -> Vec<(String, i64)> {
        table
            .iter()
            .flat_map(|(key, value)| match value {
                Value::Table(inner) => numbers(&format!("{section}{key}."), inner),
                Value::Integer(number) => vec![(format!("{section}{key}"), *number)],
                _ => Vec::new(),
            })
            .collect()
    }

    #[test]
    fn every_number_has_a_range_with_its_default_in_it_and_just_its_ends_are_taken() {
        for (key, default) in numbers("", &Table::try_from(Config::default()).unwrap()) {
            let range = range(&key).unwrap_or_else(|| panic!("{key} has no range"));
            let (least, most) = (range.least.into(), range.most.into());
            for number in [default.into(), least, most] {
                assert_eq!(check_range(&key, number), Ok(()), "{key}");
            }
            assert_eq!(check_range(&key, most + 1), Err(format!("{key} must be {range}, got {}", most + 1)));
            assert_eq!(check_range(&key, -1), Err(format!("{key} must be {range}, got -1")));
            if least > 0 {
                assert!(check_range(&key, least - 1).is_err(), "{key}");
                assert_eq!(check_range(&key, 0).is_ok(), range.or_zero, "{key}");
            }
        }
    }

    #[test]
    fn every_range_stands_in_the_documented_file() {
        let (mut section, mut comment) = (String::new(), String::new());
        for line in std::fs::read_to_string(FILE).unwrap().lines() {
            match line.split_once(" = ") {
                _ if line.starts_with('#') => comment.push_str(line.trim_start_matches('#')),
                _ if line.starts_with('[') => section = format!("{}.", line.trim_matches(['[', ']'])),
                Some((key, _)) => {
                    if let Some(range) = range(&format!("{section}{key}")) {
                        let said = comment.ends_with(&format!(" {range}."));
                        assert!(said, "{section}{key}: its comment does not end with its range, {range}");
                    }
                    comment.clear();
                }
                None => comment.clear(),
            }
        }
    }

    #[test]
    fn the_ends_of_ranges_are_taken_by_the_parts_that_judge_for_themselves() {
        for (key, _) in numbers("", &Table::try_from(Config::default()).unwrap()) {
            let Range { least, most, .. } = range(&key).unwrap();
            for number in [least, most] {
                let env = HashMap::from([(variable(&key), number.to_string())]);
                let taken = Settings::load(None, &|name| env.get(name).cloned(), Overrides::default());
                // The first wait may be no longer than the longest, and there are no more probation faults than faults.
                let bounded = ["quarantine.backoff_ms", "quarantine.probation_faults"].contains(&key.as_str());
                assert!(taken.is_ok() || (bounded && number == most), "{key}: {taken:?}");
            }
        }
    }
}
