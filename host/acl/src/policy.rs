//! A policy, read from its resource: rules by area and name, and rules by type and place.
//!
//! Rules by area are Consul's: HCL, or the same as YAML or JSON (a map from areas to a level, or to a map of names to
//! `{policy: LEVEL}`). The suffix `_prefix` makes the names prefixes. A policy with an unknown word is refused when it
//! is written. A stored one, of an earlier release, is loaded without the rules that allow: see [`Policy::load`].

use std::collections::BTreeMap;

use mortise_resource::{FieldFault, FieldPath, PathStep, data};
use mortise_text::{Limits, Source, plain_documents};
use serde_json::Value;

use crate::{
    areas::Areas,
    hcl::{self, RawRule},
    policy_error::{MAX_RULES_BYTES, PolicyError, YamlRulesError},
    type_rule::CompiledTypeRule,
};

/// Most rules by area and name.
const MAX_RULES: usize = 2_000;
/// Most rules by type and place.
const MAX_TYPE_RULES: usize = 256;
/// Most policies of one token, certificate or setting.
pub const MAX_POLICIES: usize = 32;

/// Bounds of rules in YAML, which nest three deep.
const YAML_LIMITS: Limits =
    Limits { bytes: MAX_RULES_BYTES, values: 8 * MAX_RULES, depth: 4, documents: 1, diagnostics: 1 };

/// The level of access in an area. Each level includes the ones before it, except `Deny`, which allows nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Level {
    Deny,
    Read,
    List,
    Write,
}

impl Level {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "deny" => Some(Self::Deny),
            "read" => Some(Self::Read),
            "list" => Some(Self::List),
            "write" => Some(Self::Write),
            _ => None,
        }
    }
}

/// Rule by area and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AreaRule {
    pub(crate) area: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) is_prefix: bool,
    pub(crate) level: Level,
}

/// A policy in compiled form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    pub(crate) area_rules: Vec<AreaRule>,
    pub(crate) type_rules: Vec<CompiledTypeRule>,
    /// First fault of a stored policy, apart from areas, which depend on the plugins.
    pub(crate) fault: Option<RuleFault>,
}

/// The fault of a stored policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleFault {
    /// Field and fault.
    pub(crate) text: String,
    /// Whether the unusable rule may be one that denies. Its subject is unknown, so the policy then allows nothing.
    pub(crate) may_deny: bool,
}

type Fault = FieldFault<PolicyError>;

impl RuleFault {
    fn new(fault: &Fault, may_deny: bool) -> Self {
        Self { text: fault.to_string(), may_deny }
    }
}

impl Policy {
    /// Reads a policy that is to be written.
    ///
    /// # Errors
    /// The first fault and its field, such as `type_rules[2]`.
    pub fn read(policy: &data::Policy, areas: &Areas) -> Result<Self, Fault> {
        let mut faults = Vec::new();
        let read = Self::collect(policy, &mut |fault, _| faults.push(fault));
        let unknown = read.area_rules.iter().find_map(|rule| areas.check(rule).err());
        let unknown = unknown.map(|fault| FieldFault { path: FieldPath::field("rules"), fault });
        faults.into_iter().chain(unknown).next().map_or(Ok(read), Err)
    }

    /// Reads a stored policy, with its fault if it has one.
    #[must_use]
    pub fn load(policy: &data::Policy) -> Self {
        let mut first: Option<RuleFault> = None;
        let mut read = Self::collect(policy, &mut |fault, may_deny| {
            let known = first.get_or_insert_with(|| RuleFault::new(&fault, may_deny));
            known.may_deny |= may_deny;
        });
        read.fault = first;
        read
    }

    /// Makes a policy of data that cannot be read.
    pub(crate) fn unreadable() -> Self {
        let fault = RuleFault { text: PolicyError::Unreadable.to_string(), may_deny: true };
        Self { fault: Some(fault), ..Self::default() }
    }

    /// Returns the fault of a stored policy: unusable rules, or rules in unknown areas.
    pub(crate) fn fault(&self, areas: &Areas) -> Option<RuleFault> {
        let mut found = self.fault.clone();
        for rule in &self.area_rules {
            let Err(fault) = areas.check(rule) else { continue };
            let fault = FieldFault { path: FieldPath::field("rules"), fault };
            let known = found.get_or_insert_with(|| RuleFault::new(&fault, false));
            known.may_deny |= rule.level == Level::Deny;
        }
        found
    }

    /// Reads the usable rules, and hands over each fault with whether the rule may deny something.
    fn collect(policy: &data::Policy, fault: &mut impl FnMut(Fault, bool)) -> Self {
        let at = |field: &str, fault| FieldFault { path: FieldPath::field(field), fault };
        let mut read = Self::default();
        match raw_rules(&policy.rules) {
            Ok(raw) => {
                for rule in raw {
                    let may_deny = !matches!(Level::parse(&rule.level), Some(Level::Read | Level::List | Level::Write));
                    match area_rule(rule) {
                        Ok(rule) => read.area_rules.push(rule),
                        Err(found) => fault(at("rules", found), may_deny),
                    }
                }
            }
            Err(found) => fault(at("rules", found), true),
        }
        if policy.type_rules.len() > MAX_TYPE_RULES {
            fault(at("type_rules", PolicyError::TooManyRules { most: MAX_TYPE_RULES }), true);
        }
        for (index, rule) in policy.type_rules.iter().take(MAX_TYPE_RULES).enumerate() {
            match CompiledTypeRule::read(rule) {
                Ok(rule) => read.type_rules.push(rule),
                Err(found) => {
                    let path = FieldPath::field("type_rules").with(PathStep::index(index));
                    fault(FieldFault { path, fault: found }, rule.deny);
                }
            }
        }
        read
    }
}

/// Returns the names of the rules in the area `key`, and whether each is a prefix. Unusable rules have none.
#[must_use]
pub fn key_names(rules: &str) -> Vec<(String, bool)> {
    let raw = raw_rules(rules).unwrap_or_default();
    let keys = raw.into_iter().filter_map(|rule| area_rule(rule).ok()).filter(|rule| &*rule.area == "key");
    keys.map(|rule| (rule.name.into(), rule.is_prefix)).collect()
}

fn raw_rules(text: &str) -> Result<Vec<RawRule>, PolicyError> {
    if text.len() > MAX_RULES_BYTES {
        return Err(PolicyError::TooLong { bytes: text.len() });
    }
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let written = match hcl::looks_like_hcl(text) {
        true => hcl::read(text, MAX_RULES)?,
        false => read_yaml(text)?,
    };
    if written.len() > MAX_RULES {
        return Err(PolicyError::TooManyRules { most: MAX_RULES });
    }
    Ok(written)
}

/// The value of an area in YAML.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum YamlArea {
    Level(String),
    Names(BTreeMap<String, YamlPolicy>),
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct YamlPolicy {
    policy: String,
}

fn read_yaml(text: &str) -> Result<Vec<RawRule>, YamlRulesError> {
    let mut documents = plain_documents(Source { name: "rules", text }, &YAML_LIMITS)?;
    let Some(Value::Object(areas)) = documents.pop().map(|document| document.value) else {
        return Err(YamlRulesError::NotAMap);
    };
    let mut rules = Vec::new();
    for (keyword, area) in areas {
        let rule = |label, level| RawRule { keyword: keyword.clone(), label, level, line: 0 };
        match serde_json::from_value(area) {
            Ok(YamlArea::Level(level)) => rules.push(rule(None, level)),
            Ok(YamlArea::Names(names)) => {
                rules.extend(names.into_iter().map(|(name, policy)| rule(Some(name), policy.policy)));
            }
            Err(_) => return Err(YamlRulesError::BadRule(keyword)),
        }
    }
    Ok(rules)
}

fn area_rule(written: RawRule) -> Result<AreaRule, PolicyError> {
    let RawRule { keyword, label, level, .. } = written;
    let Some(level) = Level::parse(&level) else { return Err(PolicyError::UnknownLevel { keyword, level }) };
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    let is_area = keyword.len() <= 64
        && keyword.starts_with(|letter: char| letter.is_ascii_lowercase())
        && keyword.bytes().all(is_part);
    let area = keyword.strip_suffix("_prefix");
    if !is_area || area == Some("") {
        return Err(PolicyError::BadArea { keyword });
    }
    match (area, label) {
        (Some(_), None) => Err(PolicyError::NameMissing { keyword }),
        (Some(area), Some(name)) => Ok(AreaRule { area: area.into(), name: name.into(), is_prefix: true, level }),
        // A single level for an area applies to every name in it.
        (None, None) => Ok(AreaRule { area: keyword.into(), name: "".into(), is_prefix: true, level }),
        (None, Some(name)) => Ok(AreaRule { area: keyword.into(), name: name.into(), is_prefix: false, level }),
    }
}
