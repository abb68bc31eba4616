//! Environment variables, by a lookup that tests can replace. An empty variable counts as unset.

use std::ffi::OsString;

use crate::{CliError, Color, Ui, words::letters::nearest};

/// Looks up an environment variable.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Beginning of the names of Mortise's variables.
const PREFIX: &str = "MORTISE_";

/// Variable that holds a path, which may have any bytes.
const CONFIG: &str = "MORTISE_CONFIG";

/// Variables of clients, without [`PREFIX`].
const CLIENT: [&str; 18] = [
    "ADDR",
    "CACHE_DIR",
    "CA_FILE",
    "CLIENT_CERT",
    "CLIENT_KEY",
    "CONFIG",
    "CONTEXT",
    "CONTEXTS",
    "NAMESPACE",
    "PARTITION",
    "PROVIDER_SCHEMA",
    "SIGNING_PASSWORD",
    "SOCKET",
    "TIMEOUT",
    "TLS",
    "TLS_SERVER_NAME",
    "TOKEN",
    "TOKEN_FILE",
];

/// Looks a variable up in the environment of this process. [`check_environment`] has refused a value that is not UTF-8.
pub(crate) fn process(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Checks the environment of this process before any variable is looked up.
///
/// # Errors
/// A variable of Mortise is not UTF-8: it would count as unset.
pub fn check_environment() -> Result<(), CliError> {
    check(std::env::vars_os())
}

/// Warns of misspelt variables. `settings` returns the variables of a server.
pub fn warn_of_misspelt(settings: impl FnOnce() -> Vec<String>) {
    for (name, meant) in misspelt_variables(settings) {
        Ui::new(Color::Auto).warn(&format!("the variable {name} has no effect; did you mean {meant}?"));
    }
}

/// Returns the misspelt variables of this process, each with the one that is meant. `settings` returns the variables of
/// a server.
pub fn misspelt_variables(settings: impl FnOnce() -> Vec<String>) -> Vec<(String, String)> {
    misspelt(std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()), settings)
}

/// Variables that are near to one of Mortise by their letters, and that one. Others may belong to plugins.
fn misspelt(names: impl Iterator<Item = String>, settings: impl FnOnce() -> Vec<String>) -> Vec<(String, String)> {
    let is_client = |name: &str| name.strip_prefix(PREFIX).is_some_and(|own| CLIENT.contains(&own));
    let unknown: Vec<String> = names.filter(|name| name.starts_with(PREFIX) && !is_client(name)).collect();
    if unknown.is_empty() {
        return Vec::new();
    }
    let settings = settings();
    let known: Vec<&str> =
        CLIENT.into_iter().chain(settings.iter().filter_map(|name| name.strip_prefix(PREFIX))).collect();
    let meant = |name: &String| {
        let own = name.strip_prefix(PREFIX).filter(|own| !known.contains(own))?;
        Some((name.clone(), format!("{PREFIX}{}", nearest(own, known.iter().copied())?)))
    };
    unknown.iter().filter_map(meant).collect()
}

fn check(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<(), CliError> {
    for (name, value) in variables {
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && name != CONFIG && value.to_str().is_none() {
            return Err(CliError::usage(format!("environment variable {name}: its value is not UTF-8"))
                .remedy(format!("set it to UTF-8 text, or remove it: unset {name}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn a_variable_that_is_not_utf8_is_refused_by_its_name() {
        let checked = |name: &str, value: &[u8]| check([(name.into(), OsString::from_vec(value.to_vec()))]);
        for (name, value) in [
            ("MORTISE_TOKEN", b"caf\xc3\xa9".as_slice()),
            ("MORTISE_CONFIG", b"/caf\xe9".as_slice()),
            ("OTHER", b"caf\xe9".as_slice()),
        ] {
            assert_eq!(checked(name, value), Ok(()), "{name}");
        }
        let refused = checked("MORTISE_TOKEN", b"caf\xe9").unwrap_err();
        assert_eq!(refused.message, "environment variable MORTISE_TOKEN: its value is not UTF-8");
        assert!(refused.remedy.unwrap().contains("unset MORTISE_TOKEN"));
    }

    #[test]
    fn a_misspelt_variable_is_said_with_the_one_that_is_meant() {
        let settings = || vec!["MORTISE_GRPC_ADDR".to_owned(), "MORTISE_DATA_DIR".to_owned()];
        let said = |name: &str| misspelt([name.to_owned()].into_iter(), settings).pop().map(|(_, meant)| meant);
        for (name, meant) in [
            ("MORTISE_TOKN_FILE", Some("MORTISE_TOKEN_FILE")),
            ("MORTISE_GRPC_ADR", Some("MORTISE_GRPC_ADDR")),
            ("MORTISE_GRPC_ADDR", None),
            ("MORTISE_TOKEN", None),
            ("MORTISE_GRPC_PORT", None),
            ("MORTISE_SHOP_PASSWORD", None),
            ("MORTIS_TOKEN", None),
        ] {
            assert_eq!(said(name).as_deref(), meant, "{name}");
        }
    }
}
