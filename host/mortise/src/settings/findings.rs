//! All faults of a configuration, not only the first: those of the file, of the variables, and of the rules between
//! settings, each with its origin.
//!
//! Each setting of the file is read by itself, so that a wrong one hides no other. The rules are checked with the
//! settings that are right. A file whose syntax is wrong is not read further.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::Deserialize as _;
use toml::{Table, Value};

use super::{
    declare::check_ranges,
    environment::{self, overlay, variable},
    error::{ConfigError, SettingError},
    load::Overrides,
    places::{Place, Places},
    renamed,
    table::{Config, SECTIONS},
    test_limits::TestLimits,
};

/// Tables with names of the user's own.
const FREE_TABLES: [&str; 3] = ["plugin", "region.peers", "acl.certificates"];

/// A fault of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    origin: Origin,
    text: String,
}

/// Origin of a setting or of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// No setting has it: the default.
    Default,
    /// The file, with the place in it.
    File(PathBuf, Option<Place>),
    /// A variable of the environment.
    Variable(String),
    /// A flag of the command line.
    Flag(&'static str),
}

impl Origin {
    /// The order of findings: those of the file by their places, then the others.
    fn rank(&self) -> (u8, Option<Place>) {
        match self {
            Self::File(_, place) => (0, *place),
            Self::Default => (1, None),
            Self::Variable(_) => (2, None),
            Self::Flag(_) => (3, None),
        }
    }
}

impl Finding {
    /// Makes a finding about a variable of the environment.
    pub(crate) fn of_variable(name: String, text: String) -> Self {
        Self { origin: Origin::Variable(name), text }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        match &self.origin {
            Origin::Default => write!(f, "{text}"),
            Origin::File(path, None) => write!(f, "{}: {text}", path.display()),
            Origin::File(path, Some(place)) => write!(f, "{}:{place}: {text}", path.display()),
            Origin::Variable(name) => write!(f, "environment variable {name}: {text}"),
            Origin::Flag(flag) => write!(f, "flag {flag}: {text}"),
        }
    }
}

/// The sources of a configuration, and the places of the file's keys.
pub(crate) struct Sources<'a, E> {
    pub(crate) file: Option<&'a Path>,
    pub(crate) env: &'a E,
    pub(crate) flags: &'a Overrides,
    pub(crate) places: Places,
}

impl<E: Fn(&str) -> Option<String>> Sources<'_, E> {
    /// Returns the origin of a setting in force: a flag beats the environment, which beats the file.
    pub(crate) fn origin(&self, key: &str) -> Origin {
        let name = variable(key);
        match (self.flags.flag(key), self.file) {
            (Some(flag), _) => Origin::Flag(flag),
            (None, _) if (self.env)(&name).is_some() => Origin::Variable(name),
            (None, Some(path)) if self.places.find(key).is_some() => {
                Origin::File(path.to_owned(), self.places.find(key))
            }
            _ => Origin::Default,
        }
    }

    /// Returns a fault of a setting with the origin of the setting, or of the closest table around it.
    pub(crate) fn finding(&self, key: &str, text: String) -> Finding {
        let origin = match (self.origin(key), self.file, self.places.nearest(key)) {
            (Origin::Default, Some(path), Some(place)) => Origin::File(path.to_owned(), Some(place)),
            (origin, ..) => origin,
        };
        Finding { origin, text }
    }

    /// Returns a fault whose text begins with a key, which ends at a colon or a space.
    pub(crate) fn finding_of(&self, fault: &dyn std::error::Error) -> Finding {
        let text = fault.to_string();
        let key = text.split([' ', ':']).next().unwrap_or_default().to_owned();
        self.finding(&key, text)
    }
}

/// The faults of a configuration, and the configuration as far as it is right.
pub(crate) struct Examined {
    pub(crate) findings: Vec<Finding>,
    /// `None` if nothing can be checked further: the file cannot be read, or its syntax is wrong.
    pub(crate) config: Option<Config>,
}

/// Sorts findings: those of the file by their places, then the others.
pub(crate) fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| finding.origin.rank());
}

/// Reads file, environment and flags as `serve` does, and collects the faults. `sources.places` is filled in.
pub(crate) fn examine<E: Fn(&str) -> Option<String>>(sources: &mut Sources<'_, E>) -> Examined {
    let mut findings = Vec::new();
    let (mut table, mut is_whole) = (Table::new(), true);
    if let Some(path) = sources.file {
        match std::fs::read_to_string(path) {
            Ok(text) => {
                sources.places = Places::of(&text);
                let syntax = std::mem::take(&mut sources.places.syntax);
                is_whole = syntax.is_empty();
                let fault = |(place, text)| Finding { origin: Origin::File(path.to_owned(), place), text };
                findings.extend(syntax.into_iter().map(fault));
                table = text.parse().unwrap_or_default();
            }
            Err(source) => {
                is_whole = false;
                let text = ConfigError::Unreadable { path: path.to_owned(), source }.to_string();
                findings.push(Finding { origin: Origin::Default, text });
            }
        }
    }
    let defaults = Table::try_from(Config::default()).unwrap_or_default();
    let mut wrong = Vec::new();
    keep_right(&[], &mut table, &defaults, &mut wrong);
    findings.extend(wrong.into_iter().map(|(key, text)| {
        // A variable of the same key is another matter.
        let place = sources.places.nearest(&key);
        Finding { origin: Origin::File(sources.file.unwrap_or(Path::new("")).to_owned(), place), text }
    }));
    let wrong = wrong_variables(&defaults, sources.env);
    let is_right = |name: &str| wrong.iter().all(|(faulty, _)| faulty != name);
    let env = |name: &str| (sources.env)(name).filter(|_| is_right(name));
    // Each variable was checked by itself.
    let _ = overlay("", &defaults, &mut table, &env);
    findings.extend(wrong.iter().map(|(name, text)| Finding::of_variable(name.clone(), text.clone())));
    sources.flags.apply(&mut table);
    let config = if is_whole { right_settings(sources, table, &mut findings) } else { None };
    sort(&mut findings);
    Examined { findings, config }
}

/// Reads the settings that are right each by itself, and checks the rules between them.
fn right_settings<E: Fn(&str) -> Option<String>>(
    sources: &Sources<'_, E>,
    table: Table,
    findings: &mut Vec<Finding>,
) -> Option<Config> {
    match Config::deserialize(table) {
        Ok(config) => {
            findings.extend(config.faults().iter().map(|fault| sources.finding_of(fault)));
            findings.extend(config.check_exposure(config.acl.enabled).err().map(|fault| sources.finding_of(&fault)));
            findings.extend(config.check_authority(config.acl.enabled).err().map(|fault| sources.finding_of(&fault)));
            Some(config)
        }
        Err(fault) => {
            findings.push(Finding { origin: Origin::Default, text: fault.message().to_owned() });
            None
        }
    }
}

/// Returns the variables that cannot be read, with their faults, and those with the old name of a setting.
fn wrong_variables(defaults: &Table, env: &impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let renamed = renamed::ALL.map(|(old, new)| (variable(old), SettingError::Renamed { old, new }.to_string()));
    let mut found: Vec<_> = renamed.into_iter().filter(|(name, _)| env(name).is_some()).collect();
    for (name, _) in environment::given(env) {
        let alone = |asked: &str| env(asked).filter(|_| asked == name);
        match overlay("", defaults, &mut Table::new(), &alone) {
            Err(ConfigError::Environment { source, .. }) => found.push((name, source.to_string())),
            Err(fault) => found.push((name, fault.to_string())),
            Ok(()) => {}
        }
    }
    if let Err(ConfigError::Environment { name, source }) = TestLimits::read(env) {
        found.push((name, source.to_string()));
    }
    found
}

/// Removes the settings that cannot be read, and lists them with their faults. `within` is the path of the table.
fn keep_right(within: &[&str], table: &mut Table, defaults: &Table, wrong: &mut Vec<(String, String)>) {
    let names: Vec<String> = table.keys().cloned().collect();
    for name in &names {
        let path = [within, &[name.as_str()]].concat();
        let key = path.join(".");
        let before = wrong.len();
        let Some(value) = table.get_mut(name) else { continue };
        match (value, defaults.get(name)) {
            (Value::Table(inner), _) if FREE_TABLES.contains(&key.as_str()) => {
                inner.retain(|name, value| keep_right_parts(&[&path[..], &[name]].concat(), value, wrong));
                continue;
            }
            (Value::Table(inner), Some(Value::Table(defaults))) => {
                keep_right(&path, inner, defaults, wrong);
                continue;
            }
            (value, Some(_)) => wrong.extend(fault(&path, value).map(|text| (key.clone(), text))),
            (_, None) => wrong.push((key.clone(), unknown(&key, name, defaults))),
        }
        if wrong.len() > before {
            table.remove(name);
        }
    }
}

/// Text about a setting that does not exist. `defaults` has those of its table.
fn unknown(key: &str, name: &str, defaults: &Table) -> String {
    if let Some((old, new)) = renamed::ALL.into_iter().find(|(old, _)| *old == key) {
        return SettingError::Renamed { old, new }.to_string();
    }
    match mortise_cli::nearest(name, defaults.keys().map(String::as_str)) {
        Some(near) => format!("{key} is not a setting; did you mean {near}?"),
        None => format!("{key} is not a setting; config.toml in Mortise's documentation lists all of them"),
    }
}

/// Adds the faults of a value in a table of the user's own, at the innermost keys that have them, and removes these keys.
/// Returns whether the rest of the value is right.
fn keep_right_parts(path: &[&str], value: &mut Value, wrong: &mut Vec<(String, String)>) -> bool {
    let Some(text) = fault(path, value) else { return true };
    let before = wrong.len();
    if let Value::Table(table) = value {
        let names: Vec<String> = table.keys().cloned().collect();
        for name in &names {
            let inner = [path, &[name.as_str()]].concat();
            let Some(part) = table.get_mut(name) else { continue };
            // A part by itself lacks fields that its neighbours may have.
            let is_there = |text: &str| names.iter().any(|name| text.contains(&format!("missing field `{name}`")));
            let is_table = part.is_table();
            let is_lack = |text: &str| text.contains("missing field") && (!is_table || is_there(text));
            let is_wrong = fault(&inner, part).is_some_and(|text| !is_lack(&text));
            if is_wrong && !keep_right_parts(&inner, part, wrong) {
                table.remove(name);
            }
        }
    }
    if wrong.len() == before {
        wrong.push((path.join("."), text));
        return false;
    }
    fault(path, value).is_none()
}

/// Returns the fault of a setting that is read by itself.
fn fault(path: &[&str], value: &Value) -> Option<String> {
    let within = |inner: Value, name: &&str| Value::Table(Table::from_iter([((*name).to_owned(), inner)]));
    let Value::Table(alone) = path.iter().rev().fold(value.clone(), within) else { return None };
    if let Err(fault) = check_ranges(SECTIONS, "", &alone) {
        return Some(fault.to_string());
    }
    let fault = Config::deserialize(alone).err()?;
    let (key, text) = (path.join("."), fault.message().trim());
    Some(if text.starts_with(&key) { text.to_owned() } else { format!("{key}: {text}") })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn found(file: Option<&str>, env: &[(&str, &str)]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        if let Some(text) = file {
            std::fs::write(&path, text).unwrap();
        }
        let env: HashMap<_, _> = env.iter().copied().collect();
        let env = |name: &str| env.get(name).map(|value| (*value).to_owned());
        let flags = Overrides::default();
        let file = file.map(|_| path.as_path());
        let mut sources = Sources { file, env: &env, flags: &flags, places: Places::default() };
        let findings = examine(&mut sources).findings;
        findings.iter().map(|finding| finding.to_string().replace(&format!("{}:", path.display()), "")).collect()
    }

    #[test]
    fn every_fault_of_a_file_is_found_with_its_place() {
        let text = "grpc_adr = \"127.0.0.1:1\"\nshutdown_grace_ms = \"25h\"\n[log]\nspans = 3\nlevel = \"loud\"\n\
                    [tls]\ncert_file = \"a.pem\"\n[kv]\nvalues = 7\n[quaratine]\nfaults = 1\n";
        let found = found(Some(text), &[("MORTISE_SANDBOX_FUEL", "much"), ("MORTISE_KV_KEYS", "9")]);
        let starts = [
            "1:1: grpc_adr is not a setting; did you mean grpc_addr?",
            "2:1: shutdown_grace_ms must be 0 to 24h, got 25h",
            "4:1: log.spans: invalid type: integer `3`, expected a boolean",
            "5:1: log.level \"loud\" is not a filter",
            "7:1: tls.cert_file has no effect without tls.key_file",
            "9:1: kv.values is now kv.keys",
            "10:2: quaratine is not a setting; did you mean quarantine?",
            "environment variable MORTISE_SANDBOX_FUEL: sandbox.fuel: \"much\" is not a whole number",
        ];
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found}\n{start}");
        }
        assert_eq!(found.len(), starts.len(), "{found:#?}");
    }

    #[test]
    fn tables_of_plugins_are_read_part_by_part() {
        let text = "[plugin.a.grants]\nread = [\"Route\"]\ndirectories = { out = { write = true }, in = { path = \"/x\", \
                    wrong = 1 } }\nsecrets = { one = { }, two = { env = \"A\" } }\n[plugin.b]\nlog_level = \"loud\"\n\
                    settings = { any = [1, { x = 2 }] }\n[acl.certificates]\n\"laptop.example.org\" = [\"a\"]\nb = 3\n";
        let found = found(Some(text), &[]);
        let starts = [
            "2:1: plugin.a.grants.read: \"Route\" is not a type",
            "3:17: plugin.a.grants.directories.out: missing field `path`",
            "3:61: plugin.a.grants.directories.in.wrong: unknown field `wrong`",
            "4:13: plugin.a.grants.secrets.one: a secret is either",
            "6:1: plugin.b.log_level \"loud\" is not a level",
            "10:1: acl.certificates.b: invalid type: integer",
        ];
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found}\n{start}");
        }
        assert_eq!(found.len(), starts.len(), "{found:#?}");
    }

    #[test]
    fn a_right_configuration_has_no_findings_and_a_missing_file_is_one() {
        assert_eq!(found(Some("[log]\nlevel = \"debug\"\n"), &[("MORTISE_HTTP_API", "false")]), [] as [String; 0]);
        assert_eq!(found(None, &[]), [] as [String; 0]);
        let faulty = found(Some("a = \n[log]\nlevl = 1\n"), &[("MORTISE_HTTP_API", "maybe")]);
        assert!(faulty[0].starts_with("1:"), "{faulty:?}");
        assert!(faulty.last().unwrap().starts_with("environment variable MORTISE_HTTP_API: must be true or false"));
    }
}
