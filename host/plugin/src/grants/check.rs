//! The operator's check of files before they take their place in a granted directory: `check` of a directory's grant.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Most parts of a command, and most bytes of one.
const MAX_PARTS: usize = 64;
const MAX_PART_BYTES: usize = 4_096;

/// A command that checks a candidate for a file, in a copy of its directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CheckTable", into = "CheckTable")]
pub struct Check {
    /// Program and arguments, at least one part. Each may contain [`DIR`], [`FILE`], [`TEMP`] and [`CONFIG`].
    pub(crate) command: Vec<String>,
    /// A file of which the program gets a copy as [`CONFIG`]. It may contain [`DIR`] and [`TEMP`].
    pub(crate) config: Option<PathBuf>,
}

/// Stands for the copy of the directory, with the candidate in it.
pub(crate) const DIR: &str = "{dir}";

/// Stands for the candidate.
pub(crate) const FILE: &str = "{file}";

/// Stands for an empty directory, which exists until the check ends.
pub(crate) const TEMP: &str = "{temp}";

/// Stands for the copy of `config`.
pub(crate) const CONFIG: &str = "{config}";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckTable {
    command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    config: Option<PathBuf>,
}

impl TryFrom<CheckTable> for Check {
    type Error = &'static str;

    fn try_from(CheckTable { command, config }: CheckTable) -> Result<Self, Self::Error> {
        let is_sound = |part: &String| part.len() <= MAX_PART_BYTES && !part.contains('\0');
        if command.first().is_none_or(String::is_empty) {
            return Err("command needs a program and its arguments, such as [\"nginx\", \"-t\", \"-c\", \"{config}\"]");
        }
        if command.len() > MAX_PARTS || !command.iter().all(is_sound) {
            return Err("command has at most 64 parts of at most 4,096 bytes without NUL");
        }
        match (command.iter().any(|part| part.contains(CONFIG)), &config) {
            (true, None) => Err("command has {config}, but config is not set; set config to the path of a file"),
            (false, Some(_)) => Err("config has no effect without {config} in command; add it, or remove config"),
            _ => Ok(Self { command, config }),
        }
    }
}

impl From<Check> for CheckTable {
    fn from(Check { command, config }: Check) -> Self {
        Self { command, config }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_has_a_program_and_a_config_that_it_uses() {
        let check = |json: &str| serde_json::from_str::<Check>(json).map_err(|e| e.to_string());
        let good = r#"{"command":["nginx","-c","{config}"],"config":"/etc/c"}"#;
        let read = check(good).unwrap();
        assert_eq!(read.command, ["nginx", "-c", "{config}"]);
        assert_eq!(serde_json::to_string(&read).unwrap(), good);
        assert!(check(r#"{"command":["true"]}"#).is_ok());
        let many = format!(r#"{{"command":[{}"x"]}}"#, r#""x","#.repeat(64));
        let long = format!(r#"{{"command":["{}"]}}"#, "x".repeat(4_097));
        for (bad, says) in [
            (r#"{"command":[]}"#, "command needs a program"),
            (r#"{"command":["","-t"]}"#, "command needs a program"),
            (r#"{"command":"nginx -t"}"#, "invalid type: string"),
            (r#"{"command":["x","a\u0000b"]}"#, "without NUL"),
            (&many, "at most 64 parts"),
            (&long, "at most 64 parts"),
            (r#"{"command":["nginx","-c","{config}"]}"#, "config is not set"),
            (r#"{"command":["nginx"],"config":"/etc/c"}"#, "config has no effect"),
            (r#"{"command":["nginx"],"timeout":"1s"}"#, "unknown field `timeout`"),
        ] {
            let refused = check(bad).unwrap_err();
            assert!(refused.contains(says), "{bad}: {refused}");
        }
    }
}
