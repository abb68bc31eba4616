//! Environment variables, by a lookup that tests can replace. An empty variable counts as unset.

use std::ffi::OsString;

use crate::CliError;

/// Looks up an environment variable.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Beginning of the names of Mortise's variables.
const PREFIX: &str = "MORTISE_";

/// Variable that holds a path, which may have any bytes.
const CONFIG: &str = "MORTISE_CONFIG";

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
}
