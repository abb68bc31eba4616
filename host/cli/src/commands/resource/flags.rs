//! Command lines as Go's `flag` package reads them: `-name value`, `-name=value`, one dash or two, up to the first
//! argument that is not a flag.

use std::collections::BTreeMap;

/// Flags that every command of `consul resource` has, and whether they take a value.
const COMMON: [(&str, bool); 16] = [
    ("f", true),
    ("namespace", true),
    ("partition", true),
    ("datacenter", true),
    ("stale", false),
    ("token", true),
    ("token-file", true),
    ("grpc-addr", true),
    ("grpc-tls", false),
    ("client-cert", true),
    ("client-key", true),
    ("ca-file", true),
    ("ca-path", true),
    ("tls-server-name", true),
    ("http-addr", true),
    ("p", true),
];

/// The flags of a command line, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(BTreeMap<String, String>);

/// Reason why reading flags ended early.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FlagError {
    Help,
    Wrong(String),
}

impl Flags {
    /// Reads flags up to the first other argument, and returns the rest. `-p` is known only if `prefix` is set.
    pub(super) fn read<'a>(&mut self, args: &'a [String], prefix: bool) -> Result<&'a [String], FlagError> {
        let mut rest = args;
        while let Some((arg, after)) = rest.split_first() {
            if arg == "--" {
                return Ok(after);
            }
            let Some(name) = arg.strip_prefix('-').filter(|name| !name.is_empty()) else { return Ok(rest) };
            let name = name.strip_prefix('-').unwrap_or(name);
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, None),
            };
            if name.is_empty() || name.starts_with('-') {
                return Err(FlagError::Wrong(format!("bad flag syntax: {arg}")));
            }
            if name == "h" || name == "help" {
                return Err(FlagError::Help);
            }
            let known = COMMON.iter().find(|(known, _)| *known == name && (prefix || *known != "p"));
            let Some((_, takes)) = known else {
                return Err(FlagError::Wrong(format!("flag provided but not defined: -{name}")));
            };
            rest = after;
            let value = match (value, takes) {
                (Some(value), true) => value,
                (Some(value), false) if matches!(value.as_str(), "true" | "t" | "T" | "TRUE" | "True" | "1") => {
                    "true".into()
                }
                (Some(value), false) if matches!(value.as_str(), "false" | "f" | "F" | "FALSE" | "False" | "0") => {
                    "false".into()
                }
                (Some(value), false) => {
                    return Err(FlagError::Wrong(format!("invalid boolean value {value:?} for -{name}: parse error")));
                }
                (None, false) => "true".into(),
                (None, true) => {
                    let Some((value, after)) = rest.split_first() else {
                        return Err(FlagError::Wrong(format!("flag needs an argument: -{name}")));
                    };
                    rest = after;
                    value.clone()
                }
            };
            self.0.insert(name.to_owned(), value);
        }
        Ok(rest)
    }

    /// Returns the given value, unless it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the state of a flag without a value, if the flag was given.
    pub(super) fn is_on(&self, name: &str) -> Option<bool> {
        self.0.get(name).map(|value| value == "true")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pairs = Vec<(String, String)>;

    fn read(args: &[&str]) -> Result<(Pairs, Vec<String>), FlagError> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut flags = Flags::default();
        let rest = flags.read(&args, false)?.to_vec();
        Ok((flags.0.into_iter().collect(), rest))
    }

    #[test]
    fn flags_as_go_has_them() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            read(&["-f", "a", "--namespace=b", "-stale", "x", "-token", "t"]),
            Ok((
                vec![pair("f", "a"), pair("namespace", "b"), pair("stale", "true")],
                vec!["x".into(), "-token".into(), "t".into()]
            ))
        );
        assert_eq!(read(&["-stale=0", "--", "-f"]), Ok((vec![pair("stale", "false")], vec!["-f".into()])));
        assert_eq!(read(&["-f", "-"]), Ok((vec![pair("f", "-")], vec![])));
        assert_eq!(read(&["-"]), Ok((vec![], vec!["-".into()])));
        let wrong = |text: &str| Err(FlagError::Wrong(text.into()));
        assert_eq!(read(&["-f"]), wrong("flag needs an argument: -f"));
        assert_eq!(read(&["-p", "x"]), wrong("flag provided but not defined: -p"));
        assert_eq!(read(&["-nope"]), wrong("flag provided but not defined: -nope"));
        assert_eq!(read(&["---f"]), wrong("bad flag syntax: ---f"));
        assert_eq!(read(&["-=x"]), wrong("bad flag syntax: -=x"));
        assert_eq!(read(&["-stale=maybe"]), wrong("invalid boolean value \"maybe\" for -stale: parse error"));
        assert_eq!(read(&["-help"]), Err(FlagError::Help));
    }
}
