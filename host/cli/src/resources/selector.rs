//! Selection of resources by their metadata.

use std::collections::BTreeMap;

/// A text that is no selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no selector; use key=value, several separated by commas")]
pub(crate) struct SelectorError(String);

/// What a resource's metadata has to have: `key=value`, or `key` whatever its value, all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selector(Vec<(String, Option<String>)>);

impl Selector {
    /// Reads `key=value,key2,…`.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        let part = |part: &str| {
            let (key, value) = match part.split_once('=') {
                Some((key, value)) => (key, Some(value.strip_prefix('=').unwrap_or(value).trim().to_owned())),
                None => (part, None),
            };
            let key = key.trim();
            if key.is_empty() || key.ends_with('!') {
                return Err(SelectorError(text.to_owned()));
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
pub(crate) fn selector(text: &str) -> Result<Selector, SelectorError> {
    Selector::parse(text)
}

#[cfg(test)]
mod tests {
    use super::*;

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
