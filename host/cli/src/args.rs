//! Values on the command line that several commands take.

use std::{collections::BTreeMap, time::Duration};

use clap::Args;
use mortise_resource::{Scope, pb};
use mortise_text::Types as _;

use crate::{CliError, catalog::Catalog, session::Session};

/// Where in the server: flags, else the environment, else what the context says, else the server's defaults.
#[derive(Debug, Clone, Default, Args)]
pub struct Tenancy {
    /// The partition [default: the context's, or "default"] [env: MORTISE_PARTITION]
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// The namespace [default: the context's, or "default"] [env: MORTISE_NAMESPACE]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
}

impl Tenancy {
    /// The units; an empty one is left to the server.
    #[must_use]
    pub fn units(&self, session: &Session) -> pb::Tenancy {
        let unit = |flag: &Option<String>, name: &str, own: Option<&str>| {
            flag.clone().or_else(|| crate::connect::env(name)).or_else(|| own.map(str::to_owned)).unwrap_or_default()
        };
        let (partition, namespace) = session.context_units();
        pb::Tenancy {
            partition: unit(&self.partition, "MORTISE_PARTITION", partition),
            namespace: unit(&self.namespace, "MORTISE_NAMESPACE", namespace),
        }
    }

    /// The units that a type's scope has. A flag that names one which it lacks stays, so that the server refuses it; what
    /// environment and context say is meant for types that have it.
    #[must_use]
    pub fn units_for(&self, ty: &pb::Type, session: &Session, catalog: &Catalog) -> pb::Tenancy {
        let mut units = self.units(session);
        let scope = catalog.scope(ty);
        if self.partition.is_none() && matches!(scope, Some(Scope::Cluster)) {
            units.partition.clear();
        }
        if self.namespace.is_none() && matches!(scope, Some(Scope::Cluster | Scope::Partition)) {
            units.namespace.clear();
        }
        units
    }
}

/// What a resource's metadata has to have: `key=value`, or `key` whatever its value, all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selector(Vec<(String, Option<String>)>);

impl Selector {
    /// Reads `key=value,key2,…`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let part = |part: &str| {
            let (key, value) = match part.split_once('=') {
                Some((key, value)) => (key, Some(value.strip_prefix('=').unwrap_or(value).trim().to_owned())),
                None => (part, None),
            };
            let key = key.trim();
            if key.is_empty() || key.ends_with('!') {
                return Err(format!("{text:?} is no selector; use key=value, several separated by commas"));
            }
            Ok((key.to_owned(), value))
        };
        text.split(',').map(part).collect::<Result<_, _>>().map(Self)
    }

    /// Whether metadata has all of it.
    pub(crate) fn matches(&self, metadata: &BTreeMap<String, String>) -> bool {
        self.0
            .iter()
            .all(|(key, value)| metadata.get(key).is_some_and(|own| value.as_ref().is_none_or(|value| value == own)))
    }
}

/// For clap.
pub(crate) fn selector(text: &str) -> Result<Selector, String> {
    Selector::parse(text)
}

/// A duration: a number with ms, s, m or h behind it; without a unit, seconds. Above zero, at most a year.
///
/// # Errors
/// A sentence about what is wrong.
pub fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{text:?} is no duration; use 500ms, 30s, 5m or 1h")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is no duration; use 500ms, 30s, 5m or 1h"))?;
    let total = number * seconds;
    if !(0.001..=366.0 * 86_400.0).contains(&total) {
        return Err(format!("{text:?} is out of range; from 1ms to a year"));
    }
    Ok(Duration::from_secs_f64(total))
}

/// True or false, from the environment.
pub(crate) fn boolean(name: &str, text: &str) -> Result<bool, CliError> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(CliError::usage(format!("environment variable {name}: must be true or false, got {text:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let cases =
            [("500ms", 500), ("30s", 30_000), ("2", 2_000), ("1.5s", 1_500), ("5m", 300_000), ("1h", 3_600_000)];
        for (text, ms) in cases {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "0", "0s", "-1s", "1d", "s", "1.2.3s", "1 s", "999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_selector_wants_all_of_it() {
        let metadata = BTreeMap::from([("app".to_owned(), "shop".to_owned()), ("tier".to_owned(), String::new())]);
        for (text, holds) in [
            ("app=shop", true),
            ("app==shop", true),
            ("app", true),
            ("tier=", true),
            ("app=shop, tier", true),
            ("app=other", false),
            ("app=shop,nope", false),
        ] {
            assert_eq!(Selector::parse(text).unwrap().matches(&metadata), holds, "{text}");
        }
        for text in ["", "=x", "app!=shop", "a=b,"] {
            assert!(Selector::parse(text).is_err(), "{text}");
        }
    }
}
