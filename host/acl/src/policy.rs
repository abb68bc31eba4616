//! A policy, read from its resource: rules by area and name, and rules by type and place.
//!
//! Rules by area are Consul's: HCL, or the same as YAML or JSON (a map from areas to a level, or to a map of names to
//! `{policy: LEVEL}`). Plugins define the meaning of areas, so every lower-case word is accepted; the suffix
//! `_prefix` makes the names prefixes.

use std::collections::BTreeMap;

use mortise_resource::{FieldFault, FieldPath, PathStep, data};
use mortise_text::{Limits, Source, plain_documents};
use serde_json::Value;

use crate::{
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

/// A valid policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    pub(crate) area_rules: Vec<AreaRule>,
    pub(crate) type_rules: Vec<CompiledTypeRule>,
}

impl Policy {
    /// Reads a policy.
    ///
    /// # Errors
    /// The first fault and its field, such as `type_rules[2]`.
    pub fn read(policy: &data::Policy) -> Result<Self, FieldFault<PolicyError>> {
        let field_fault = |field: &str, fault| FieldFault { path: FieldPath::field(field), fault };
        let area_rules = read_rules(&policy.rules).map_err(|fault| field_fault("rules", fault))?;
        if policy.type_rules.len() > MAX_TYPE_RULES {
            return Err(field_fault("type_rules", PolicyError::TooManyRules { most: MAX_TYPE_RULES }));
        }
        let type_rules = policy.type_rules.iter().enumerate().map(|(index, rule)| {
            let path = || FieldPath::field("type_rules").with(PathStep::index(index));
            CompiledTypeRule::read(rule).map_err(|fault| FieldFault { path: path(), fault })
        });
        Ok(Self { area_rules, type_rules: type_rules.collect::<Result<_, _>>()? })
    }
}

fn read_rules(text: &str) -> Result<Vec<AreaRule>, PolicyError> {
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
    written.into_iter().map(area_rule).collect()
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
