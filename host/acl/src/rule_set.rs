//! The combined, compiled rules of several policies.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::atomic::{AtomicU64, Ordering},
};

use mortise_resource::{
    IdRef,
    authorizer::{Effect, Names, Verb},
};

use crate::{
    areas::Areas,
    policy::{Level, Policy},
    type_rule::{self, CompiledTypeRule},
};

/// The permissions of an identity.
#[derive(Debug)]
pub(crate) struct RuleSet {
    /// Number of the set, unique in this process: sets with equal numbers are the same set.
    pub(crate) number: u64,
    /// Whether the set allows everything.
    pub(crate) management: bool,
    /// Whether an unusable stored rule may be one that denies. The set then allows nothing.
    pub(crate) closed: bool,
    /// Faults of its policies: `NAME: FAULT`.
    pub(crate) faults: Vec<String>,
    pub(crate) areas: HashMap<Box<str>, Area>,
    pub(crate) type_rules: Vec<CompiledTypeRule>,
}

/// The rules of an area by name. Of several rules for one name or prefix, deny wins, else the highest level.
#[derive(Debug, Default)]
pub(crate) struct Area {
    pub(crate) exact: BTreeMap<Box<str>, Level>,
    pub(crate) prefixes: BTreeMap<Box<[u8]>, Level>,
}

impl Area {
    /// The level of the closest rule for a name.
    pub(crate) fn level(&self, name: &str) -> Option<Level> {
        self.exact.get(name).copied().or_else(|| self.prefix_level(name.as_bytes()))
    }

    /// The level of the longest prefix of a name.
    pub(crate) fn prefix_level(&self, name: &[u8]) -> Option<Level> {
        // Takes the greatest stored prefix up to `within`. If it is a prefix of the name, it is the longest. If not,
        // every stored prefix of the name lies within the bytes that both share: the search goes on with these.
        let mut within = name;
        loop {
            let (prefix, level) =
                self.prefixes.range::<[u8], _>((Bound::Unbounded, Bound::Included(within))).next_back()?;
            let shared = prefix.iter().zip(within).take_while(|(a, b)| a == b).count();
            if shared == prefix.len() {
                return Some(*level);
            }
            within = within.get(..shared)?;
        }
    }

    /// The levels that decide about names that begin with a prefix: that of the prefix itself, `None` without a rule,
    /// and those of longer rules.
    fn levels_below<'a>(&'a self, prefix: &'a str) -> (Option<Level>, impl Iterator<Item = Level> + 'a) {
        let after = (Bound::Excluded(prefix.as_bytes()), Bound::Unbounded);
        let longer =
            self.prefixes.range::<[u8], _>(after).take_while(move |(rule, _)| rule.starts_with(prefix.as_bytes()));
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let exact = self.exact.range::<str, _>(from).take_while(move |(name, _)| name.starts_with(prefix));
        let levels = longer.map(|(_, level)| *level).chain(exact.map(|(_, level)| *level));
        (self.prefix_level(prefix.as_bytes()), levels)
    }

    /// Whether every name that begins with the prefix has at least this level.
    fn grants_below(&self, prefix: &str, wanted: Level) -> bool {
        let (level, mut longer) = self.levels_below(prefix);
        level.is_some_and(|level| level >= wanted) && longer.all(|level| level >= wanted)
    }

    /// Whether a rule denies a name that begins with the prefix.
    fn denies_below(&self, prefix: &str) -> bool {
        let (level, mut longer) = self.levels_below(prefix);
        level == Some(Level::Deny) || longer.any(|level| level == Level::Deny)
    }
}

impl RuleSet {
    /// Compiles policies by name; `management` additionally allows everything. Of a policy with a fault, only the rules
    /// that deny are used; if an unusable rule may deny, the set allows nothing.
    pub(crate) fn new<'a>(
        policies: impl IntoIterator<Item = (&'a str, &'a Policy)>,
        known: &Areas,
        management: bool,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut areas = HashMap::<Box<str>, Area>::new();
        let (mut type_rules, mut faults, mut closed) = (Vec::new(), Vec::new(), false);
        for (name, policy) in policies {
            let fault = policy.fault(known);
            let is_used = |denies: bool| denies || fault.is_none();
            for rule in policy.area_rules.iter().filter(|rule| is_used(rule.level == Level::Deny)) {
                let area = areas.entry(rule.area.clone()).or_default();
                let level = match rule.is_prefix {
                    true => area.prefixes.entry(rule.name.as_bytes().into()).or_insert(rule.level),
                    false => area.exact.entry(rule.name.clone()).or_insert(rule.level),
                };
                *level = match (*level, rule.level) {
                    (Level::Deny, _) | (_, Level::Deny) => Level::Deny,
                    (level, other) => level.max(other),
                };
            }
            type_rules.extend(policy.type_rules.iter().filter(|rule| is_used(rule.deny)).cloned());
            if let Some(fault) = fault {
                closed |= fault.may_deny;
                faults.push(format!("policy {name}: {}", fault.text));
            }
        }
        closed &= !management;
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), management, closed, faults, areas, type_rules }
    }

    /// The level that the rules give on a name; `None` if no rule fits.
    fn level(&self, area: &str, name: &str) -> Option<Level> {
        self.areas.get(area)?.level(name)
    }

    /// Whether `permission` is granted on `name`. A malformed permission is never granted.
    pub(crate) fn is_allowed(&self, permission: &str, name: &str) -> bool {
        if self.management {
            return true;
        }
        let Some((area, wanted)) = permission.rsplit_once(':') else { return false };
        let Some(wanted) = Level::parse(wanted) else { return false };
        !self.closed && wanted > Level::Deny && self.level(area, name).is_some_and(|level| level >= wanted)
    }

    /// Whether a rule denies the permission on the name outright.
    pub(crate) fn is_denied(&self, permission: &str, name: &str) -> bool {
        let area = permission.rsplit_once(':').map_or(permission, |(area, _)| area);
        self.closed || (!self.management && self.level(area, name) == Some(Level::Deny))
    }

    /// Whether the rules surely allow `verb` on all resources of the type of `of`, with `permission` on these names.
    /// Costs a look at each rule by type, and at those about longer names.
    pub(crate) fn allows_every(&self, verb: Verb, of: IdRef<'_>, permission: &str, names: Names<'_>) -> bool {
        if self.management {
            return true;
        }
        let Some((area, wanted)) = permission.rsplit_once(':') else { return false };
        let area = self.areas.get(area);
        match type_rule::decide_every(&self.type_rules, verb, of) {
            _ if self.closed => false,
            Some(Effect::Allow) => match names {
                Names::One(name) => !self.is_denied(permission, name),
                Names::Below(prefix) => area.is_none_or(|area| !area.denies_below(prefix)),
            },
            Some(Effect::Undecided) => match (names, Level::parse(wanted)) {
                (Names::One(name), _) => self.is_allowed(permission, name),
                (Names::Below(prefix), Some(wanted)) if wanted > Level::Deny => {
                    area.is_some_and(|area| area.grants_below(prefix, wanted))
                }
                _ => false,
            },
            Some(Effect::Deny) | None => false,
        }
    }

    /// The decision of the rules by type; without a name, about all resources of the type in the id's place.
    pub(crate) fn effect(&self, verb: Verb, id: IdRef<'_>, name: Option<&str>) -> Effect {
        match self.management {
            true => Effect::Allow,
            false if self.closed => Effect::Deny,
            false => type_rule::decide(&self.type_rules, verb, id, name),
        }
    }
}

#[cfg(test)]
mod tests {
    use mortise_resource::data;
    use proptest::prelude::*;

    use super::*;
    use crate::policy::AreaRule;

    fn level() -> impl Strategy<Value = Level> {
        prop_oneof![Just(Level::Deny), Just(Level::Read), Just(Level::List), Just(Level::Write)]
    }

    fn rule() -> impl Strategy<Value = AreaRule> {
        ("[abé/]{0,4}", any::<bool>(), level()).prop_map(|(name, is_prefix, level)| AreaRule {
            area: "key".into(),
            name: name.into(),
            is_prefix,
            level,
        })
    }

    /// The expected level, by looking at each rule: the exact one, else the longest prefix; of equals deny, else the
    /// highest.
    fn expected(rules: &[AreaRule], name: &str) -> Option<Level> {
        let fits = |rule: &&AreaRule| match rule.is_prefix {
            true => name.starts_with(&*rule.name),
            false => *rule.name == *name,
        };
        let closest = rules.iter().filter(fits).map(|rule| (!rule.is_prefix, rule.name.len())).max()?;
        let those = rules.iter().filter(fits).filter(|rule| (!rule.is_prefix, rule.name.len()) == closest);
        let levels: Vec<_> = those.map(|rule| rule.level).collect();
        if levels.contains(&Level::Deny) { Some(Level::Deny) } else { levels.into_iter().max() }
    }

    fn set(area_rules: Vec<AreaRule>, type_rules: &[data::TypeRule]) -> RuleSet {
        let type_rules = type_rules.iter().map(|rule| CompiledTypeRule::read(rule).unwrap()).collect();
        let policy = Policy { area_rules, type_rules, ..Policy::default() };
        RuleSet::new([("p", &policy)], &Areas::default(), false)
    }

    fn key_rule(name: &str, is_prefix: bool, level: Level) -> AreaRule {
        AreaRule { area: "key".into(), name: name.into(), is_prefix, level }
    }

    const ARTIST: IdRef<'static> =
        IdRef { group: "demo", group_version: "v2", kind: "Artist", partition: "", namespace: "", name: "", uid: "" };

    #[test]
    fn a_rule_for_all_names_is_found_once() {
        let reads =
            |area_rules: Vec<AreaRule>, names| set(area_rules, &[]).allows_every(Verb::Read, ARTIST, "key:read", names);
        let (all, prefix) = (key_rule("", true, Level::Read), key_rule("demo/", true, Level::Write));
        assert!(reads(vec![all.clone()], Names::Below("demo/")));
        assert!(reads(vec![prefix.clone()], Names::Below("demo/a")));
        assert!(!reads(vec![prefix.clone()], Names::Below("demo")), "some names have no rule");
        assert!(!reads(vec![], Names::Below("demo/")));
        assert!(reads(vec![all.clone(), key_rule("other/", true, Level::Deny)], Names::Below("demo/")));
        for (name, is_prefix) in [("demo/miles", false), ("demo/m", true), ("demo/", true), ("demo/", false)] {
            let rules = vec![all.clone(), key_rule(name, is_prefix, Level::Deny)];
            assert!(!reads(rules.clone(), Names::Below("demo/")), "{name}");
            assert!(reads(rules, Names::One("demo/korn")) != (is_prefix && name == "demo/"), "{name}");
        }
        assert!(!set(vec![all], &[]).allows_every(Verb::Read, ARTIST, "key:write", Names::Below("")));
    }

    #[test]
    fn rules_by_type_decide_once_if_they_are_about_all_resources() {
        let rule = |types: &str, deny: bool| data::TypeRule {
            types: vec![types.into()],
            verbs: vec!["read".into()],
            deny,
            ..data::TypeRule::default()
        };
        let reads = |rules: &[data::TypeRule], area_rules: Vec<AreaRule>| {
            set(area_rules, rules).allows_every(Verb::Read, ARTIST, "key:read", Names::Below("demo/"))
        };
        let (allow, named) = (rule("demo/*", false), data::TypeRule { names: vec!["a".into()], ..rule("*", false) });
        assert!(reads(std::slice::from_ref(&allow), vec![]));
        assert!(reads(&[allow.clone(), named.clone()], vec![]));
        assert!(!reads(&[named], vec![]), "others are not allowed");
        assert!(!reads(&[data::TypeRule { namespaces: vec!["n".into()], ..allow.clone() }], vec![]));
        assert!(!reads(&[data::TypeRule { verbs: vec!["list".into()], ..allow.clone() }], vec![]));
        assert!(!reads(&[allow.clone(), data::TypeRule { names: vec!["a".into()], ..rule("*", true) }], vec![]));
        assert!(reads(&[allow.clone(), rule("other/*", true)], vec![]));
        assert!(!reads(&[allow], vec![key_rule("demo/miles", false, Level::Deny)]), "the area denies one");
    }

    fn type_rule() -> impl Strategy<Value = data::TypeRule> {
        let words = |words: &'static [&'static str]| {
            prop::collection::vec(prop::sample::select(words).prop_map(str::to_owned), 0..2)
        };
        let types =
            prop::sample::select(&["*", "demo/*", "demo/Artist", "demo.v2.Artist", "demo.v1.Artist", "other/*"]);
        let verb = prop::sample::select(&["read", "list", "*"]);
        let places = (words(&["*", "p", "q"]), words(&["*", "n", "m"]));
        let names = (words(&["a", "b", "ab"]), words(&["", "a", "ab"]));
        (types, verb, places, names, any::<bool>()).prop_map(|(of, verb, places, names, deny)| data::TypeRule {
            types: vec![of.into()],
            verbs: vec![verb.into()],
            partitions: places.0,
            namespaces: places.1,
            names: names.0,
            name_prefixes: names.1,
            deny,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// A judgement of a whole type holds for each of its resources.
        #[test]
        fn a_judgement_of_a_type_holds_for_each_resource(
            type_rules in prop::collection::vec(type_rule(), 0..5),
            area_rules in prop::collection::vec(rule(), 0..4),
            partition in "[pq]?", namespace in "[nm]?", name in "[ab]{1,3}",
        ) {
            let set = set(area_rules, &type_rules);
            let id = IdRef { partition: &partition, namespace: &namespace, name: &name, ..ARTIST };
            for names in [Names::Below(""), Names::Below(&name[..1]), Names::One(&name)] {
                let all = set.allows_every(Verb::Read, ARTIST, "key:read", names);
                let one = match set.effect(Verb::Read, id, Some(&name)) {
                    Effect::Deny => false,
                    Effect::Allow => !set.is_denied("key:read", &name),
                    Effect::Undecided => set.is_allowed("key:read", &name),
                };
                prop_assert!(!all || one, "{names:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_closest_rule_decides(rules in prop::collection::vec(rule(), 0..12), name in "[abé/]{0,6}") {
            let policies: Vec<_> = rules.chunks(3).map(|chunk| {
                Policy { area_rules: chunk.to_vec(), ..Policy::default() }
            }).collect();
            let set = RuleSet::new(policies.iter().map(|policy| ("p", policy)), &Areas::default(), false);
            prop_assert_eq!(set.level("key", &name), expected(&rules, &name));
            for (asked, wanted) in [("key:read", Level::Read), ("key:list", Level::List), ("key:write", Level::Write)] {
                let allowed = expected(&rules, &name).is_some_and(|level| level >= wanted);
                prop_assert_eq!(set.is_allowed(asked, &name), allowed);
            }
            // A judgement for all names holds for each of them.
            for asked in ["key:read", "key:list", "key:write", "key:deny", "key", "other:read"] {
                let lengths = (0..=name.len()).filter(|length| name.is_char_boundary(*length));
                for prefix in lengths.map(|length| &name[..length]) {
                    let all = set.allows_every(Verb::Read, ARTIST, asked, Names::Below(prefix));
                    prop_assert!(!all || set.is_allowed(asked, &name), "{asked} below {prefix}");
                }
            }
            prop_assert!(!set.is_allowed("key:deny", &name) && !set.is_allowed("key", &name) && !set.is_allowed("other:read", &name));
        }
    }
}
