//! The areas of rules by area and name: Consul's, and those that plugins ask about. Any other word is a mistake, which
//! must not pass: a denying rule with a misspelt area would deny nothing.

use std::collections::HashSet;

use crate::{policy::AreaRule, policy_error::PolicyError};

/// Consul's areas, and whether their rules have names.
const CONSUL_AREAS: [(&str, bool); 15] = [
    ("acl", false),
    ("agent", true),
    ("event", true),
    ("identity", true),
    ("key", true),
    ("keyring", false),
    ("mesh", false),
    ("namespace", true),
    ("node", true),
    ("operator", false),
    ("partition", true),
    ("peering", false),
    ("query", true),
    ("service", true),
    ("session", true),
];

/// The known areas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Areas {
    of_plugins: HashSet<String>,
}

impl Areas {
    /// Adds areas that plugins ask about. Returns whether one of them is new.
    pub fn add<'a>(&mut self, areas: impl IntoIterator<Item = &'a str>) -> bool {
        let mut is_new = false;
        for area in areas {
            if !CONSUL_AREAS.iter().any(|(known, _)| *known == area) && !self.of_plugins.contains(area) {
                is_new |= self.of_plugins.insert(area.to_owned());
            }
        }
        is_new
    }

    /// Checks that the area of a rule is known, and that a rule with a name is in an area with names.
    pub(crate) fn check(&self, rule: &AreaRule) -> Result<(), PolicyError> {
        match CONSUL_AREAS.iter().find(|(known, _)| *known == &*rule.area) {
            Some((_, false)) if !rule.name.is_empty() => Err(PolicyError::NoNames { area: rule.area.to_string() }),
            Some(_) => Ok(()),
            None if self.of_plugins.contains(&*rule.area) => Ok(()),
            None => {
                let mut known: Vec<_> = CONSUL_AREAS.iter().map(|(known, _)| *known).collect();
                known.extend(self.of_plugins.iter().map(String::as_str));
                known.sort_unstable();
                Err(PolicyError::UnknownArea { area: rule.area.to_string(), known: known.join(", ") })
            }
        }
    }
}
