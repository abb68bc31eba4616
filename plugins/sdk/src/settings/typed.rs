//! Settings as a struct, with a place for each fault.
//!
//! # Contract
//! A key that the struct lacks is an error, at any depth, without `#[serde(deny_unknown_fields)]`. All unknown keys and
//! the first other fault are found at once. Texts from the settings, which may be secret, are not repeated in errors.
//!
//! # Cost
//! Each call parses the text again, which takes microseconds.
//!
//! # Limits
//! Inside of `flatten`, of untagged and of internally tagged enums, serde itself reads the keys, and passes unknown ones
//! over: write `#[serde(deny_unknown_fields)]` there, or do without.

use std::{cell::RefCell, fmt};

use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;

use super::node::{Fault, Node};
use crate::Diagnostics;

/// Settings of a plugin, as a struct for [`crate::Plugin::settings_as`].
///
/// ```
/// # use mortise_plugin::{Diagnostics, Settings, setting};
/// #[derive(serde::Deserialize)]
/// struct Jukebox {
///     endpoint: String,
///     #[serde(default = "three")]
///     retries: u32,
/// }
///
/// fn three() -> u32 {
///     3
/// }
///
/// impl Settings for Jukebox {
///     fn check(&self, diagnostics: &mut Diagnostics) {
///         if self.retries > 10 {
///             diagnostics.error("must be at most 10").at(setting("retries"));
///         }
///     }
/// }
/// ```
pub trait Settings: DeserializeOwned {
    /// Checks values that have the right form, before the plugin serves. By default all of them are right.
    fn check(&self, diagnostics: &mut Diagnostics) {
        let _ = diagnostics;
    }
}

/// Faults of the settings: unknown keys, and a missing or wrong one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError(Vec<Fault>);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("settings of the plugin: ")?;
        for (place, Fault { path, text, .. }) in self.0.iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            let colon = if path.is_empty() { "" } else { ": " };
            write!(f, "{separator}{path}{colon}{text}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsError {}

/// Returns the plugin's [`settings`](crate::settings()) as a struct, with `#[serde(default)]` for what the operator left
/// out. Values are not checked further: [`crate::Plugin::settings_as`] does that once, before the plugin serves.
///
/// # Errors
/// A key that `T` lacks, a missing key, or a value of another type.
pub fn settings_as<T: DeserializeOwned>() -> Result<T, SettingsError> {
    read(&crate::settings())
}

/// Checks settings before the plugin serves.
pub(crate) fn check<T: Settings>(text: &str, diagnostics: &mut Diagnostics) {
    match read::<T>(text) {
        Ok(settings) => settings.check(diagnostics),
        Err(SettingsError(faults)) => {
            for Fault { path, text, .. } in faults {
                diagnostics.error(text).path = path;
            }
        }
    }
}

/// Reads settings from the text of one JSON object.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, SettingsError> {
    let value: Value = serde_json::from_str(text).map_err(|fault| SettingsError(vec![Fault::custom(fault)]))?;
    let unknown = RefCell::default();
    let read = T::deserialize(Node::root(&value, &unknown));
    let mut faults = unknown.into_inner();
    match read {
        Ok(settings) if faults.is_empty() => return Ok(settings),
        Ok(_) => {}
        Err(fault) => faults.push(fault),
    }
    Err(SettingsError(faults))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::{Plugin, setting, testing::with_settings};

    #[derive(Debug, PartialEq, Deserialize)]
    struct Jukebox {
        endpoint: String,
        token: Option<String>,
        #[serde(default = "three")]
        retries: u8,
        #[serde(default, alias = "loudness")]
        volume: f64,
        #[serde(default)]
        mode: Mode,
        #[serde(default)]
        rooms: Vec<Room>,
        #[serde(default)]
        labels: BTreeMap<String, u16>,
        #[serde(default)]
        corner: Option<(i32, i32)>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        #[default]
        Quiet,
        Party {
            until: u64,
        },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Room {
        name: Name,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Name(String);

    const fn three() -> u8 {
        3
    }

    impl Settings for Jukebox {
        fn check(&self, diagnostics: &mut Diagnostics) {
            if self.retries > 10 {
                diagnostics.error("must be at most 10").at(setting("retries"));
            }
        }
    }

    /// Findings of the check, each with its path.
    fn findings(text: &str) -> Vec<String> {
        static PLUGIN: Plugin = Plugin::new("jukebox", "0.1.0", &[], &[]).settings_as::<Jukebox>();
        let diagnostics = PLUGIN.check(text);
        diagnostics.iter().map(|one| format!("{}: {}", one.path, one.summary)).collect()
    }

    #[test]
    fn absent_settings_have_their_defaults() {
        let read: Jukebox = with_settings(r#"{"endpoint": "http://x"}"#, settings_as).unwrap();
        let expected = Jukebox {
            endpoint: "http://x".into(),
            token: None,
            retries: 3,
            volume: 0.0,
            mode: Mode::Quiet,
            rooms: Vec::new(),
            labels: BTreeMap::new(),
            corner: None,
        };
        assert_eq!(read, expected);
        assert!(settings_as::<Jukebox>().is_err(), "without any settings, the endpoint is missing");
        assert_eq!(settings_as::<BTreeMap<String, String>>(), Ok(BTreeMap::new()));
    }

    #[test]
    fn every_form_is_read() {
        let text = r#"{"endpoint": "e", "token": "t", "retries": 4, "loudness": 1, "mode": {"party": {"until": 5}},
            "rooms": [{"name": "a"}, {"name": "b"}], "labels": {"x": 7}, "corner": [-1, 2]}"#;
        let read: Jukebox = read(text).unwrap();
        assert_eq!((read.token.as_deref(), read.retries, read.mode), (Some("t"), 4, Mode::Party { until: 5 }));
        assert!((read.volume - 1.0).abs() < f64::EPSILON);
        assert_eq!(read.rooms, [Room { name: Name("a".into()) }, Room { name: Name("b".into()) }]);
        assert_eq!((read.labels["x"], read.corner), (7, Some((-1, 2))));
    }

    #[test]
    fn an_unknown_key_is_refused_at_any_depth_without_a_word_of_the_author() {
        const KNOWN: &str = "endpoint, token, retries, loudness, volume, mode, rooms, labels, corner";
        let unknown = format!("unknown setting; take it out, or use one of {KNOWN}");
        assert_eq!(findings(r#"{"endpoint": "e", "tokn": "t"}"#), [format!("tokn: {unknown}")]);
        assert_eq!(
            findings(r#"{"endpont": "e", "tokn": "t"}"#),
            [format!("endpont: {unknown}"), format!("tokn: {unknown}"), "endpoint: required; set it".to_owned()]
        );
        assert_eq!(
            findings(r#"{"endpoint": "e", "rooms": [{"name": "a"}, {"name": "b", "nmae": "c"}]}"#),
            ["rooms[1].nmae: unknown setting; take it out, or use one of name"]
        );
        let in_variant = findings(r#"{"endpoint": "e", "mode": {"party": {"until": 5, "untl": 6}}}"#);
        assert_eq!(in_variant, ["mode.party.untl: unknown setting; take it out, or correct its name"]);
    }

    #[test]
    fn a_struct_that_denies_unknown_fields_itself_has_the_same_text() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code, reason = "only its fields' names count")]
        struct Strict {
            colour: Option<String>,
        }
        let refused = read::<Strict>(r#"{"color": "red"}"#).unwrap_err().to_string();
        assert_eq!(refused, "settings of the plugin: color: unknown setting; take it out, or use one of colour");
    }

    #[test]
    fn a_wrong_value_is_named_with_its_place_and_its_form() {
        let wrong = |more: &str| findings(&format!(r#"{{"endpoint": "e", {more}}}"#)).join("|");
        assert_eq!(wrong(r#""retries": -1"#), "retries: must be a whole number from 0 to 255; got -1");
        assert_eq!(wrong(r#""retries": 256"#), "retries: must be a whole number from 0 to 255; got 256");
        assert_eq!(wrong(r#""retries": 1.5"#), "retries: must be a whole number from 0 to 255; got 1.5");
        assert_eq!(wrong(r#""mode": "loud""#), "mode: must be one of quiet, party; got another name");
        assert_eq!(wrong(r#""mode": 3"#), "mode: must be a name, or a table with one name");
        assert_eq!(wrong(r#""rooms": [{}]"#), "rooms[0].name: required; set it");
        assert_eq!(wrong(r#""rooms": {}"#), "rooms: must be a list; got a table");
        assert_eq!(wrong(r#""labels": {"x": 70000}"#), "labels.x: must be a whole number from 0 to 65535; got 70000");
        assert_eq!(wrong(r#""corner": [1, 2, 3]"#), "corner: must be at most 2 values; got 3");
        assert_eq!(wrong(r#""corner": [1]"#), "corner: must be a tuple of size 2; got 1 values");
        assert_eq!(wrong(r#""retries": 11"#), "retries: must be at most 10");
    }

    #[test]
    fn a_fault_that_the_authors_function_finds_has_its_place() {
        #[derive(Debug, Deserialize)]
        #[serde(try_from = "u32")]
        struct Even;
        impl TryFrom<u32> for Even {
            type Error = String;

            fn try_from(number: u32) -> Result<Self, String> {
                if number.is_multiple_of(2) { Ok(Self) } else { Err(format!("must be even; got {number}")) }
            }
        }
        let refused = read::<BTreeMap<String, Vec<Even>>>(r#"{"a": [2, 4], "b": [2, 3]}"#).unwrap_err();
        assert_eq!(refused.to_string(), "settings of the plugin: b[1]: must be even; got 3");
    }

    #[test]
    fn a_secret_is_not_repeated() {
        let refused = findings(r#"{"endpoint": "e", "retries": "s3cret"}"#);
        assert_eq!(refused, ["retries: must be a whole number from 0 to 255; got a string"]);
        let refused = findings(r#"{"endpoint": {"s3cret": 1}}"#);
        assert_eq!(refused, ["endpoint: must be a string; got a table"]);
    }

    #[test]
    fn a_text_that_is_not_json_is_a_fault() {
        assert!(read::<Jukebox>("{").unwrap_err().to_string().starts_with("settings of the plugin: EOF"));
    }

    #[test]
    fn a_list_is_not_a_struct() {
        assert_eq!(
            read::<Room>(r#"["a"]"#).unwrap_err().to_string(),
            "settings of the plugin: must be a table; got a list"
        );
    }
}
