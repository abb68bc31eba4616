//! The choice among a service's endpoints: by the zone or a label in a name, and by the zone that the server prefers.
//!
//! Texts of a question are in lower case, and match zones and labels in any case. A DNS name has at most 255 bytes, and
//! so have these texts together.

use crate::catalog::Endpoint;

/// A condition on endpoints in a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum Narrowing {
    /// Every endpoint.
    #[default]
    All,
    /// `ZONE.zone.`: the endpoints of a zone.
    Zone(String),
    /// `VALUE.KEY.label.`: the endpoints with a label. Without a value: `KEY.label.`, a name without records.
    Label { key: String, value: String },
}

/// The marks before a service's name.
const ZONE: &str = "zone";
const LABEL: &str = "label";

impl Narrowing {
    /// Returns whether a label of a name, before that of a service, marks a condition.
    pub(super) fn is_mark(label: &str) -> bool {
        matches!(label, ZONE | LABEL)
    }

    /// Reads the labels before a mark; `None` without any.
    pub(super) fn parse(labels: &[&str], mark: &str) -> Option<Self> {
        let (last, before) = labels.split_last()?;
        Some(match mark {
            ZONE => Self::Zone(labels.join(".")),
            _ => Self::Label { key: (*last).to_owned(), value: before.join(".") },
        })
    }

    /// Returns whether an endpoint meets the condition.
    pub(super) fn has(&self, endpoint: &Endpoint) -> bool {
        match self {
            Self::All => true,
            Self::Zone(zone) => endpoint.zone.eq_ignore_ascii_case(zone),
            Self::Label { key, value } => {
                !value.is_empty() && values(endpoint, key).any(|found| found.eq_ignore_ascii_case(value))
            }
        }
    }

    /// Returns whether an endpoint makes the name exist. A zone `a.b` has two labels, so `b.zone.` exists, too:
    /// resolvers that ask label by label (RFC 9156) take a name for absent if one above it is.
    pub(super) fn is_named_by(&self, endpoint: &Endpoint) -> bool {
        match self {
            Self::All => true,
            Self::Zone(zone) => ends_with(&endpoint.zone, zone),
            Self::Label { key, value } => {
                values(endpoint, key).any(|found| value.is_empty() || ends_with(found, value))
            }
        }
    }
}

/// The values of an endpoint's labels with a key, in any case.
fn values<'e>(endpoint: &'e Endpoint, key: &str) -> impl Iterator<Item = &'e String> {
    let with_key = endpoint.labels.iter().filter(move |(found, _)| found.eq_ignore_ascii_case(key));
    with_key.map(|(_, value)| value)
}

/// Returns whether the last labels of a text are those.
fn ends_with(text: &str, labels: &str) -> bool {
    let Some(start) = text.len().checked_sub(labels.len()) else { return false };
    let is_end = text.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(labels));
    is_end && (start == 0 || text.get(..start).is_some_and(|before| before.ends_with('.')))
}

/// The preference for the endpoints of a zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZonePreference {
    /// Zone of workloads whose endpoints come first; empty for no preference.
    pub zone: String,
    /// Number of such endpoints from which on an answer has them alone; 0: other endpoints always follow.
    pub alone_from: usize,
}

impl ZonePreference {
    /// Returns whether an endpoint comes first. Without a preference each does.
    pub(super) fn is_near(&self, endpoint: &Endpoint) -> bool {
        self.zone.is_empty() || endpoint.zone.eq_ignore_ascii_case(&self.zone)
    }

    /// Returns whether an answer has these near endpoints alone.
    pub(super) fn are_enough(&self, near: usize) -> bool {
        self.alone_from > 0 && near >= self.alone_from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(zone: &str, labels: &[(&str, &str)]) -> Endpoint {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Endpoint { zone: zone.into(), labels, ..Endpoint::default() }
    }

    #[test]
    fn zones_match_in_any_case_and_whole() {
        let found = endpoint("EU.west-1", &[]);
        for (zone, has, named) in [
            ("eu.west-1", true, true),
            ("west-1", false, true),
            ("est-1", false, false),
            ("u.west-1", false, false),
            ("eu", false, false),
            ("de.eu.west-1", false, false),
            ("", false, false),
        ] {
            let zone = Narrowing::Zone(zone.into());
            assert_eq!((zone.has(&found), zone.is_named_by(&found)), (has, named), "{zone:?}");
        }
        let other = Narrowing::Zone("é".into());
        assert!(!other.is_named_by(&endpoint("zé", &[])) && other.has(&endpoint("é", &[])));
        assert!(!Narrowing::Zone("a".into()).is_named_by(&endpoint("", &[])));
    }

    #[test]
    fn labels_match_by_key_and_whole_value() {
        let found = endpoint("", &[("Version", "1.2"), ("track", "canary"), ("empty", "")]);
        for (labels, has, named) in [
            (&["1", "2", "version"][..], true, true),
            (&["2", "version"], false, true),
            (&["version"], false, true),
            (&["canary", "track"], true, true),
            (&["canary", "version"], false, false),
            (&["stable", "track"], false, false),
            (&["empty"], false, true),
            (&["other"], false, false),
        ] {
            let label = Narrowing::parse(labels, LABEL).unwrap();
            assert_eq!((label.has(&found), label.is_named_by(&found)), (has, named), "{label:?}");
        }
        assert_eq!((Narrowing::parse(&[], ZONE), Narrowing::parse(&[], LABEL)), (None, None));
    }

    #[test]
    fn a_preference_names_a_zone_and_a_number() {
        let (near, far) = (endpoint("rack-1", &[]), endpoint("rack-2", &[]));
        let by = |zone: &str, alone_from| ZonePreference { zone: zone.into(), alone_from };
        assert!(by("rack-1", 2).is_near(&near) && !by("rack-1", 2).is_near(&far) && by("", 0).is_near(&far));
        assert!(!by("rack-1", 2).are_enough(1) && by("rack-1", 2).are_enough(2) && !by("rack-1", 0).are_enough(9));
    }
}
