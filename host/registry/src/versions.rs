//! Versions in tags, and the newer ones that a policy allows.

use std::{fmt, str::FromStr};

use semver::Version;
use serde::{Deserialize, Serialize};

/// Newest versions of a policy that are tried.
const NEWEST: usize = 2;

/// Newer versions that count as an update of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Update {
    /// The present version alone.
    #[default]
    Pin,
    /// Versions with the same major and minor number.
    Patch,
    /// Versions with the same major number; with major number 0, also the same minor number.
    Minor,
}

impl fmt::Display for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pin => "pin",
            Self::Patch => "patch",
            Self::Minor => "minor",
        })
    }
}

impl Update {
    /// Whether the policy leads from a version to another one. Pre-releases never count.
    #[must_use]
    pub fn allows(self, from: &Version, to: &Version) -> bool {
        let same_minor = from.major == to.major && from.minor == to.minor;
        let fits = match self {
            Self::Pin => false,
            Self::Patch => same_minor,
            Self::Minor => from.major == to.major && (from.major > 0 || same_minor),
        };
        fits && to > from && to.pre.is_empty()
    }
}

/// Tags of a repository that count as updates of a plugin, from a version on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    tag: String,
    from: Version,
    update: Update,
}

impl Policy {
    /// Makes the policy of a tag, from whose version it counts. `None` if the tag is not a version.
    #[must_use]
    pub fn new(tag: &str, update: Update) -> Option<Self> {
        Some(Self { tag: tag.to_owned(), from: version(tag)?, update })
    }

    /// Chooses tags to try, the newest first: the two newest versions that are allowed, then the policy's own. None is as
    /// old as `above`, the version that serves or that an operator went back from.
    #[must_use]
    pub fn candidates<'t>(&'t self, tags: &'t [String], above: Option<&Version>) -> Vec<&'t str> {
        let is_above = |version: &Version| above.is_none_or(|above| version.cmp_precedence(above).is_gt());
        let mut newer: Vec<_> = tags.iter().filter_map(|tag| Some((version(tag)?, tag.as_str()))).collect();
        newer.retain(|(version, _)| self.update.allows(&self.from, version) && is_above(version));
        newer.sort_unstable_by(|one, other| other.cmp(one));
        // Two tags of one version, such as 1.2.3 and v1.2.3.
        newer.dedup_by(|one, other| one.0 == other.0);
        let own = is_above(&self.from).then_some(self.tag.as_str());
        newer.into_iter().map(|(_, tag)| tag).take(NEWEST).chain(own).collect()
    }
}

/// Reads the version in a tag: `1.2.3` or `v1.2.3`.
#[must_use]
pub fn version(tag: &str) -> Option<Version> {
    Version::from_str(tag.strip_prefix('v').unwrap_or(tag)).ok()
}

/// Finds the newest version among tags that `allows` lets pass, with its tag.
pub fn newest<'t>(
    tags: impl IntoIterator<Item = &'t String>,
    allows: impl Fn(&Version) -> bool,
) -> Option<(Version, &'t str)> {
    let found = tags.into_iter().filter_map(|tag| Some((version(tag)?, tag.as_str())));
    found.filter(|(version, _)| allows(version)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_never_leads_further_than_it_says() {
        let tags: Vec<String> = ["latest", "1.1.9", "v1.2.4", "1.2.10", "1.3.0", "1.4.0-rc.1", "2.0.0", "1.2", "x"]
            .map(str::to_owned)
            .into();
        let find = |policy: Update, from: &str| {
            let from = from.parse().unwrap();
            newest(&tags, |to| policy.allows(&from, to)).map(|(_, tag)| tag)
        };
        assert_eq!(find(Update::Pin, "1.2.3"), None);
        assert_eq!(find(Update::Patch, "1.2.3"), Some("1.2.10"));
        assert_eq!(find(Update::Minor, "1.2.3"), Some("1.3.0"));
        assert_eq!(find(Update::Minor, "1.3.0"), None, "a pre-release does not count");
        assert_eq!(find(Update::Minor, "0.9.0"), None, "0.9 promises nothing about 1.0");
        assert_eq!(find(Update::Patch, "2.0.0"), None);
    }

    #[test]
    fn the_newest_tags_are_tried_first_and_none_that_is_not_newer() {
        let tags: Vec<String> = ["1.2.0", "1.2.9", "1.2.10", "v1.2.10", "v1.2.3", "1.3.0", "1.2.11-rc.1", "latest"]
            .map(str::to_owned)
            .into();
        let policy = Policy::new("1.2.0", Update::Patch).unwrap();
        let candidates = |above: &str| policy.candidates(&tags, version(above).as_ref());
        assert_eq!(candidates(""), ["v1.2.10", "1.2.9", "1.2.0"], "one of the two tags of 1.2.10");
        assert_eq!(candidates("1.2.0"), ["v1.2.10", "1.2.9"]);
        assert_eq!(candidates("1.2.9"), ["v1.2.10"]);
        for newest in ["1.2.10", "1.2.10+build.5", "1.2.11", "3.0.0"] {
            assert_eq!(candidates(newest), [""; 0], "{newest}");
        }
        assert_eq!(candidates("1.2.10-rc.1"), ["v1.2.10"]);
        assert_eq!(policy.candidates(&[], None), ["1.2.0"]);
        assert_eq!(Policy::new("latest", Update::Patch), None);
    }

    #[test]
    fn minor_stays_within_0_x() {
        let allows = |from: &str, to: &str| Update::Minor.allows(&from.parse().unwrap(), &to.parse().unwrap());
        assert!(allows("0.2.0", "0.2.1") && !allows("0.2.0", "0.3.0") && !allows("0.2.1", "0.2.0"));
    }
}
