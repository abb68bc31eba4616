//! Keys of labels, annotations and metadata that controllers own. A configuration may give such a key its first value;
//! from then on the value is theirs: it is never a difference, and no apply changes or removes it.

use std::collections::BTreeMap;

use crate::value::{Step, Value, ValueError};

/// Name of the attribute in the provider's configuration.
pub(crate) const CONTROLLER_KEYS: &str = "controller_keys";

/// Most patterns of a configuration.
const MAX_PATTERNS: usize = 1_000;

/// Most bytes of a pattern: those of a label's key.
const MAX_PATTERN_BYTES: usize = 256;

/// The forms of a pattern, for faults.
const FORMS: &str = "write a key, or a prefix with * at its end, such as example.com/*";

/// The keys that controllers own, by patterns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerKeys(Vec<Pattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Key(String),
    Prefix(String),
}

impl ControllerKeys {
    /// Reads the patterns of the attribute: keys, or prefixes that end with `*`. It skips unknown ones.
    ///
    /// # Errors
    /// The faults of patterns, by path.
    pub fn read(patterns: &Value) -> Result<Self, Vec<ValueError>> {
        let Value::List(patterns) = patterns else { return Ok(Self::default()) };
        let attribute = Step::Attribute(CONTROLLER_KEYS.to_owned());
        if patterns.len() > MAX_PATTERNS {
            let what = format!("{} patterns are too many; the limit is {MAX_PATTERNS}", patterns.len());
            return Err(vec![ValueError::new(what).within(attribute)]);
        }
        let (mut known, mut faults) = (Vec::new(), Vec::new());
        for (index, text) in patterns.iter().enumerate() {
            let pattern = match text {
                Value::Unknown(_) => continue,
                Value::String(text) => pattern(text),
                _ => Err(PatternFault::Null),
            };
            match pattern {
                Ok(pattern) => known.push(pattern),
                Err(fault) => {
                    faults
                        .push(ValueError::new(fault.to_string()).within(Step::Index(index)).within(attribute.clone()));
                }
            }
        }
        if faults.is_empty() { Ok(Self(known)) } else { Err(faults) }
    }

    /// Whether controllers own a key.
    #[must_use]
    pub fn own(&self, key: &str) -> bool {
        self.0.iter().any(|pattern| match pattern {
            Pattern::Key(known) => known == key,
            Pattern::Prefix(prefix) => key.starts_with(prefix),
        })
    }

    /// The found pairs for a state or a plan, null if none are left: the values of controllers' keys are the prior
    /// ones, so that they are no difference.
    #[must_use]
    pub fn settled(&self, prior: &Value, found: Value) -> Value {
        let mut entries = match found {
            _ if self.0.is_empty() => return found,
            Value::Null => BTreeMap::new(),
            Value::Map(entries) => entries,
            _ => return found,
        };
        entries.retain(|key, _| !self.own(key));
        if let Value::Map(prior) = prior {
            entries
                .extend(prior.iter().filter(|(key, _)| self.own(key)).map(|(key, value)| (key.clone(), value.clone())));
        }
        if entries.is_empty() { Value::Null } else { Value::Map(entries) }
    }
}

/// The fault of a pattern.
#[derive(Debug, thiserror::Error)]
enum PatternFault {
    #[error("null cannot be an element")]
    Null,
    #[error("the pattern has {0} bytes; the limit is {MAX_PATTERN_BYTES}")]
    TooLong(usize),
    #[error("* alone would give every key to controllers; {FORMS}")]
    Everything,
    #[error("{0:?} ends with a slash, as no key does; {FORMS}")]
    Slash(String),
    #[error("{0:?} is not a key; {FORMS}")]
    NotAKey(String),
}

/// Reads a pattern.
fn pattern(text: &str) -> Result<Pattern, PatternFault> {
    let is_key =
        |text: &str| !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '*');
    if text.len() > MAX_PATTERN_BYTES {
        return Err(PatternFault::TooLong(text.len()));
    }
    match text.strip_suffix('*') {
        Some("") => Err(PatternFault::Everything),
        Some(prefix) if is_key(prefix) => Ok(Pattern::Prefix(prefix.to_owned())),
        None if text.ends_with('/') => Err(PatternFault::Slash(text.to_owned())),
        None if is_key(text) => Ok(Pattern::Key(text.to_owned())),
        _ => Err(PatternFault::NotAKey(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::String(text.into())
    }

    fn keys(patterns: &[&str]) -> ControllerKeys {
        ControllerKeys::read(&Value::List(patterns.iter().map(|pattern| text(pattern)).collect())).unwrap()
    }

    #[test]
    fn patterns_are_keys_and_prefixes() {
        let keys = keys(&["revision", "example.com/*"]);
        for (key, own) in [
            ("revision", true),
            ("revisions", false),
            ("example.com/", true),
            ("example.com/a/b", true),
            ("example.org/a", false),
            ("x.example.com/a", false),
        ] {
            assert_eq!(keys.own(key), own, "{key}");
        }
    }

    #[test]
    fn misspelt_patterns_are_refused_with_their_places() {
        for (wrong, fault) in [
            (text(""), "is not a key"),
            (text("*"), "* alone"),
            (text("a b"), "is not a key"),
            (text("*.example.com"), "is not a key"),
            (text("example.com/**"), "is not a key"),
            (text("example.com/"), "ends with a slash"),
            (text(&"x".repeat(257)), "the limit is 256"),
            (Value::Null, "null cannot be an element"),
        ] {
            let found = ControllerKeys::read(&Value::List(vec![text("good"), wrong.clone()])).unwrap_err();
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert!(found.len() == 1 && found[0].starts_with("controller_keys[1]: "), "{found:?}");
            assert!(found[0].contains(fault), "{found:?}");
        }
        let many = Value::List(vec![text("x"); MAX_PATTERNS + 1]);
        assert!(ControllerKeys::read(&many).unwrap_err()[0].to_string().contains("the limit is 1000"));
        assert_eq!(ControllerKeys::read(&Value::List(vec![Value::unknown()])), Ok(ControllerKeys::default()));
    }

    #[test]
    fn values_of_controllers_are_no_difference() {
        let keys = keys(&["theirs"]);
        let pairs = |pairs: &[(&str, &str)]| Value::object(pairs.iter().map(|(key, value)| (*key, text(value))));
        let found = || pairs(&[("theirs", "now"), ("own", "now")]);
        assert_eq!(keys.settled(&Value::Null, found()), pairs(&[("own", "now")]));
        assert_eq!(
            keys.settled(&pairs(&[("theirs", "before")]), found()),
            pairs(&[("theirs", "before"), ("own", "now")])
        );
        assert_eq!(keys.settled(&pairs(&[("theirs", "before")]), Value::Null), pairs(&[("theirs", "before")]));
        assert_eq!(keys.settled(&Value::Null, pairs(&[("theirs", "now")])), Value::Null);
        assert_eq!(keys.settled(&Value::Null, Value::unknown()), Value::unknown());
    }
}
