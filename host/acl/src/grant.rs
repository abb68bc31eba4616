//! Comparison of the rules that a write would grant with those that its caller holds.
//!
//! Held rules must allow everything that the granted ones allow, and granted rules must deny everything that the held
//! ones deny. Both are true of a union of rules if they are true of each, so a policy is compared by itself, without
//! the other policies of its tokens.
//!
//! Rules by area and name are compared exactly. A rule by type and place is taken apart into its types, verbs, places
//! and names; each of these must be within one held rule, as in Kubernetes. So a caller whose two rules only together
//! cover a rule cannot give it away as one rule.
//!
//! # Limits
//! [`MAX_STEPS`] comparisons; rules that need more are refused.

use std::{cell::Cell, fmt};

use mortise_resource::{authorizer::Verb, tenancy::WILDCARD, types::is_access_kind};

use crate::{
    policy::Level,
    rule_set::{Area, RuleSet},
    type_rule::{Closeness, CompiledTypeRule, EXACT, TypePattern, VERBS},
};

/// Most comparisons of one check; about a tenth of a second.
const MAX_STEPS: usize = 5_000_000;

/// A reason why rules may not be given away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The caller does not hold a granted permission, or is denied what the rules leave open.
    #[error("it does not have what this would grant: {0}")]
    NotHeld(String),
    /// The rules need too many comparisons.
    #[error("the rules are too many to be compared with those of the caller; split the policy")]
    TooMany,
}

/// The names that a rule fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names<'r> {
    All,
    Exact(&'r str),
    Prefix(&'r str),
}

/// A part of a rule: one type, verb, partition, namespace and name. `None` is every partition or namespace.
#[derive(Debug, Clone, Copy)]
struct Part<'r> {
    verb: Verb,
    kind: &'r TypePattern,
    deny: bool,
    partition: Option<&'r str>,
    namespace: Option<&'r str>,
    names: Names<'r>,
}

impl<'r> Names<'r> {
    fn closeness(self) -> Closeness {
        match self {
            Self::All => 0,
            Self::Exact(_) => EXACT,
            Self::Prefix(prefix) => prefix.len(),
        }
    }

    fn includes(self, other: Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Exact(one), Self::Exact(other)) => one == other,
            (Self::Prefix(prefix), Self::Exact(text) | Self::Prefix(text)) => text.starts_with(prefix),
            (Self::Prefix(prefix), Self::All) => prefix.is_empty(),
            (Self::Exact(_), Self::All | Self::Prefix(_)) => false,
        }
    }

    /// The names that both fit; `None` for none.
    fn both(self, other: Self) -> Option<Self> {
        match (self.includes(other), other.includes(self)) {
            (true, _) => Some(other),
            (_, true) => Some(self),
            _ => None,
        }
    }
}

/// Compares two patterns: whether the first includes the second. `deny` and `other_deny` say whether their rules deny;
/// a wildcard in a rule that allows leaves out tokens and policies.
fn includes(one: &TypePattern, deny: bool, other: &TypePattern, other_deny: bool) -> bool {
    let is_access = |group: &str, kind: &str| !deny && is_access_kind(group, kind);
    match (one, other) {
        (TypePattern::Any, TypePattern::Any) => deny || !other_deny,
        (TypePattern::Any, TypePattern::Group(group)) => deny || !other_deny || !has_access_kinds(group),
        (TypePattern::Any, TypePattern::Kind { group, kind }) => !is_access(group, kind),
        (TypePattern::Any, TypePattern::Exact(exact)) => !is_access(&exact.group, &exact.kind),
        (TypePattern::Group(one), TypePattern::Group(group)) => {
            one == group && (deny || !other_deny || !has_access_kinds(group))
        }
        (TypePattern::Group(one), TypePattern::Kind { group, kind }) => one == group && !is_access(group, kind),
        (TypePattern::Group(one), TypePattern::Exact(exact)) => {
            **one == *exact.group && !is_access(&exact.group, &exact.kind)
        }
        (TypePattern::Kind { group, kind }, TypePattern::Exact(exact)) => {
            **group == *exact.group && **kind == *exact.kind
        }
        (TypePattern::Kind { .. }, TypePattern::Kind { .. }) | (TypePattern::Exact(_), TypePattern::Exact(_)) => {
            one == other
        }
        (TypePattern::Group(_) | TypePattern::Kind { .. } | TypePattern::Exact(_), _) => false,
    }
}

fn has_access_kinds(group: &str) -> bool {
    is_access_kind(group, "Token")
}

impl<'r> Part<'r> {
    /// The parts of a rule for a verb.
    fn of(rule: &'r CompiledTypeRule, verb: Verb) -> impl Iterator<Item = Self> + Clone {
        let units = |units: &'r [Box<str>]| {
            let is_all = units.is_empty() || units.iter().any(|unit| **unit == *WILDCARD);
            let named = units.iter().filter(move |_| !is_all).map(|unit| Some(&**unit));
            named.chain(is_all.then_some(None))
        };
        // The question for a list names no resource: each rule that allows fits it, and so does one that denies all
        // names.
        let is_list = verb == Verb::List;
        let is_all = rule.fits_all_names() || (is_list && !rule.deny);
        let has_names = !is_all && !is_list;
        let exact = rule.names.iter().map(|name| Names::Exact(name));
        let prefixes = rule.name_prefixes.iter().map(|prefix| Names::Prefix(prefix));
        let names = exact.chain(prefixes).filter(move |_| has_names).chain(is_all.then_some(Names::All));
        let kinds = rule.types.iter().filter(move |_| rule.has_verb(verb));
        kinds.flat_map(move |kind| {
            let names = names.clone();
            units(&rule.partitions).flat_map(move |partition| {
                let names = names.clone();
                units(&rule.namespaces).flat_map(move |namespace| {
                    let part = move |names| Part { verb, kind, deny: rule.deny, partition, namespace, names };
                    names.clone().map(part)
                })
            })
        })
    }

    fn includes_place(&self, other: &Self) -> bool {
        includes(self.kind, self.deny, other.kind, other.deny)
            && (self.partition.is_none() || self.partition == other.partition)
            && (self.namespace.is_none() || self.namespace == other.namespace)
    }

    fn includes(&self, other: &Self) -> bool {
        self.includes_place(other) && self.names.includes(other.names)
    }

    /// The part that both fit; `None` for none.
    fn both(&self, other: &Self) -> Option<Self> {
        let unit = |one: Option<&'r str>, other: Option<&'r str>| match (one, other) {
            (Some(one), Some(other)) if one != other => None,
            (one, other) => Some(one.or(other)),
        };
        let partition = unit(self.partition, other.partition)?;
        let namespace = unit(self.namespace, other.namespace)?;
        let names = self.names.both(other.names)?;
        let (kind, deny) = self.both_kinds(other)?;
        Some(Self { verb: self.verb, kind, deny, partition, namespace, names })
    }

    /// The types that both fit, and whether a wildcard among them includes tokens and policies.
    fn both_kinds(&self, other: &Self) -> Option<(&'r TypePattern, bool)> {
        let deny = self.deny && other.deny;
        // As in rules that deny, where wildcards leave nothing out.
        let narrower = if includes(self.kind, true, other.kind, true) {
            other
        } else if includes(other.kind, true, self.kind, true) {
            self
        } else {
            return None;
        };
        let reaches = |one: &Self| includes(one.kind, one.deny, narrower.kind, false);
        (reaches(self) && reaches(other)).then_some((narrower.kind, deny))
    }
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            TypePattern::Any => "*".to_owned(),
            TypePattern::Group(group) => format!("{group}/*"),
            TypePattern::Kind { group, kind } => format!("{group}/{kind}"),
            TypePattern::Exact(exact) => exact.to_string(),
        };
        write!(f, "{}:{kind}", self.verb.name())?;
        if self.partition.is_some() || self.namespace.is_some() {
            write!(f, "@{}/{}", self.partition.unwrap_or("*"), self.namespace.unwrap_or("*"))?;
        }
        match self.names {
            Names::All => Ok(()),
            Names::Exact(name) => write!(f, ":{name}"),
            Names::Prefix(prefix) => write!(f, ":{prefix}*"),
        }
    }
}

/// Bounds the comparisons of one check.
struct Steps(Cell<usize>);

impl Steps {
    fn take(&self) -> Result<(), GrantError> {
        self.0.set(self.0.get() + 1);
        if self.0.get() > MAX_STEPS { Err(GrantError::TooMany) } else { Ok(()) }
    }

    /// The first item for which `is` holds.
    fn find<T: Copy>(
        &self,
        mut items: impl Iterator<Item = T>,
        is: impl Fn(T) -> bool,
    ) -> Result<Option<T>, GrantError> {
        items.try_fold(None, |found, item| {
            self.take()?;
            Ok(found.or_else(|| is(item).then_some(item)))
        })
    }
}

/// The parts of all rules that allow, or of all that deny.
fn parts(set: &RuleSet, verb: Verb, deny: bool) -> impl Iterator<Item = Part<'_>> + Clone {
    set.type_rules.iter().filter(move |rule| rule.deny == deny).flat_map(move |rule| Part::of(rule, verb))
}

/// Checks that `held` allows everything that `given` allows, and that `given` denies everything that `held` denies.
pub(crate) fn check(given: &RuleSet, held: &RuleSet) -> Result<(), GrantError> {
    if held.management {
        return Ok(());
    }
    if given.management {
        return Err(GrantError::NotHeld("everything (global-management)".to_owned()));
    }
    if held.closed {
        return Err(GrantError::NotHeld(held.faults.join("; ")));
    }
    let steps = Steps(Cell::new(0));
    for verb in VERBS {
        for part in parts(given, verb, false) {
            check_allowed(&part, given, held, &steps)?;
        }
    }
    // Where no rule by type decides, the granted rules by area do.
    if grants_areas(given) {
        check_denied(given, held, &steps)?;
    }
    // Without a rule by area, the question is denied unless a rule by type allows it.
    let grants_types = given.type_rules.iter().any(|rule| !rule.deny);
    check_areas(&[given, held], &steps, |levels| match levels {
        [given, held] => given <= held || (*given == NO_RULE && !grants_types),
        _ => false,
    })
}

fn grants_areas(set: &RuleSet) -> bool {
    let levels = |area: &Area| area.exact.values().chain(area.prefixes.values()).any(|level| *level > Level::Deny);
    set.areas.values().any(levels)
}

/// Checks that `held` allows a part of the granted rules wherever those do.
fn check_allowed(part: &Part<'_>, given: &RuleSet, held: &RuleSet, steps: &Steps) -> Result<(), GrantError> {
    let mut covered: Option<Closeness> = None;
    for allow in parts(held, part.verb, false) {
        steps.take()?;
        if allow.includes(part) {
            covered = covered.max(Some(allow.names.closeness()));
        }
    }
    let Some(covered) = covered else { return Err(GrantError::NotHeld(part.to_string())) };
    for deny in parts(held, part.verb, true) {
        steps.take()?;
        let Some(both) = part.both(&deny).filter(|_| deny.names.closeness() >= covered) else { continue };
        let denies_too = |own: Part<'_>| own.names.closeness() >= part.names.closeness() && own.includes(&both);
        if steps.find(parts(given, part.verb, true), denies_too)?.is_none() {
            return Err(GrantError::NotHeld(format!("{part}, of which the caller is denied {both}")));
        }
    }
    Ok(())
}

/// The rank of a name without a rule.
const NO_RULE: u8 = 1;

/// The level of a name as a number: deny, no rule, read, list, write.
fn rank(level: Option<Level>) -> u8 {
    match level {
        Some(Level::Deny) => 0,
        None => NO_RULE,
        Some(Level::Read) => 2,
        Some(Level::List) => 3,
        Some(Level::Write) => 4,
    }
}

/// Checks each stretch of names within which no level changes: `is_right` gets the levels of the sets, in their order.
/// An error names the level of the first set.
fn check_areas(sets: &[&RuleSet], steps: &Steps, is_right: impl Fn(&[u8]) -> bool) -> Result<(), GrantError> {
    let mut names: Vec<_> = sets.iter().flat_map(|set| set.areas.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for area in names {
        let check = |on: &dyn fmt::Display, level: &dyn Fn(&Area) -> Option<Level>| {
            steps.take()?;
            let levels: Vec<_> = sets.iter().map(|set| rank(set.areas.get(area).and_then(level))).collect();
            if is_right(&levels) {
                return Ok(());
            }
            let own = levels.first().map_or(0, |level| usize::from(*level));
            let own =
                ["deny", "names that it is denied", "read", "list", "write"].get(own).copied().unwrap_or_default();
            Err(GrantError::NotHeld(format!("{own} in the area {area} on {on}")))
        };
        for rules in sets.iter().filter_map(|set| set.areas.get(area)) {
            for prefix in rules.prefixes.keys() {
                let shown = String::from_utf8_lossy(prefix);
                check(&format_args!("\"{shown}*\""), &|area| area.prefix_level(prefix))?;
            }
            for name in rules.exact.keys() {
                check(&format_args!("{name:?}"), &|area| area.level(name))?;
            }
        }
    }
    Ok(())
}

/// Checks that a caller with `held` may turn a set of rules that is in use from `before` into `after`. `removed` are
/// the allowing counterparts of the rules that no longer deny; what the change adds is checked by itself ([`check`]).
pub(crate) fn check_change(
    removed: &RuleSet,
    before: &RuleSet,
    after: &RuleSet,
    held: &RuleSet,
) -> Result<(), GrantError> {
    if held.management || after.management {
        return Ok(());
    }
    if held.closed || before.closed {
        return Err(GrantError::NotHeld([&*held.faults, &*before.faults].concat().join("; ")));
    }
    let steps = Steps(Cell::new(0));
    let grants_areas = grants_areas(after);
    for verb in VERBS {
        for part in parts(removed, verb, false) {
            let opens = steps.find(parts(after, verb, false), |allow| allow.both(&part).is_some())?.is_some();
            if opens || (grants_areas && verb != Verb::Escalate) {
                check_allowed(&part, removed, held, &steps)?;
            }
        }
    }
    let grants_types = after.type_rules.iter().any(|rule| !rule.deny);
    // Other rules of the set may lift an area's denial that restricts the writer's own rules by type.
    let opens_types = !removed.type_rules.is_empty() || adds_allows(&before.type_rules, &after.type_rules);
    let (opens, lifts) = (Cell::new(false), Cell::new(false));
    check_areas(&[after, before, held], &steps, |levels| match levels {
        [after, _, 0] if opens_types && *after > 0 => false,
        [after, before, _] if after <= before || (*after == NO_RULE && !grants_types) => true,
        [after, before, held] => {
            opens.set(true);
            // A rule by type may allow everything where no rule denies any more.
            let is_lifted = grants_types && *before == 0;
            lifts.set(lifts.get() || is_lifted);
            if is_lifted { *held == rank(Some(Level::Write)) } else { after <= held }
        }
        _ => false,
    })?;
    if lifts.get() {
        // No level of an area stands for escalate.
        for part in parts(after, Verb::Escalate, false) {
            check_allowed(&part, after, held, &steps)?;
        }
    }
    if opens.get() { check_denied(after, held, &steps) } else { Ok(()) }
}

/// Compares two lists of rules by type: whether the second has a rule that allows and that the first lacks.
pub(crate) fn adds_allows(before: &[CompiledTypeRule], after: &[CompiledTypeRule]) -> bool {
    after.iter().any(|rule| !rule.deny && !before.contains(rule))
}

/// Checks that `given` denies by type everything that `held` denies by type, for names that an area opens.
fn check_denied(given: &RuleSet, held: &RuleSet, steps: &Steps) -> Result<(), GrantError> {
    for denied in VERBS.into_iter().flat_map(|verb| parts(held, verb, true)) {
        let mut covered: Option<Closeness> = None;
        for deny in parts(given, denied.verb, true) {
            steps.take()?;
            if deny.includes(&denied) {
                covered = covered.max(Some(deny.names.closeness()));
            }
        }
        let Some(covered) = covered else {
            return Err(GrantError::NotHeld(format!("the caller is denied {denied}; add that deny rule")));
        };
        for allow in parts(given, denied.verb, false) {
            steps.take()?;
            // A closer rule allows some of what the other denies.
            if allow.names.closeness() > covered && allow.both(&denied).is_some() {
                check_allowed(&allow, given, held, steps)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "grant_tests.rs"]
mod tests;
