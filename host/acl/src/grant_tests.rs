//! The comparisons against every answer in a small world.

use mortise_resource::{
    IdRef,
    authorizer::{Effect, Verb},
};
use proptest::prelude::*;

use super::*;
use crate::{
    areas::Areas,
    policy::{AreaRule, Policy},
};

const KINDS: [(&str, &str); 4] = [("demo", "A"), ("demo", "B"), ("other", "A"), ("mortise", "Token")];
const NAMES: [&str; 4] = ["a", "ab", "abc", "b"];

#[derive(Debug, Clone)]
enum Rule {
    Area(AreaRule),
    Type(CompiledTypeRule),
}

fn rule() -> impl Strategy<Value = Rule> {
    let level = prop_oneof![Just(Level::Deny), Just(Level::Read), Just(Level::List), Just(Level::Write)];
    let area = (prop::sample::select(vec!["", "a", "ab", "abc"]), any::<bool>(), level).prop_map(
        |(name, is_prefix, level)| Rule::Area(AreaRule { area: "key".into(), name: name.into(), is_prefix, level }),
    );
    let some = |words: &'static [&'static str]| prop::sample::subsequence(words.to_vec(), 0..=words.len().min(2));
    let kinds = ["*", "demo/*", "demo/A", "demo.v1.A", "mortise/*", "mortise/Token"];
    let by_type = (
        prop::sample::subsequence(kinds.to_vec(), 1..=2),
        prop::sample::select(vec!["read", "list", "write", "*", "escalate"]),
        some(&["p", "q"]),
        some(&["a", "ab"]),
        some(&["", "a", "abc"]),
        any::<bool>(),
    );
    let by_type = by_type.prop_map(|(kinds, verb, partitions, names, prefixes, deny)| {
        let words = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let rule = mortise_resource::data::TypeRule {
            types: words(kinds),
            verbs: vec![verb.to_owned()],
            partitions: words(partitions),
            names: words(names),
            name_prefixes: words(prefixes),
            deny,
            ..Default::default()
        };
        Rule::Type(CompiledTypeRule::read(&rule).unwrap())
    });
    prop_oneof![area, by_type]
}

fn policy(rules: &[Rule], chosen: impl Fn(usize) -> bool) -> Policy {
    let mut policy = Policy::default();
    for (_, rule) in rules.iter().enumerate().filter(|(index, _)| chosen(*index)) {
        match rule {
            Rule::Area(rule) => policy.area_rules.push(rule.clone()),
            Rule::Type(rule) => policy.type_rules.push(rule.clone()),
        }
    }
    policy
}

fn set(policies: &[&Policy]) -> RuleSet {
    RuleSet::new(policies.iter().map(|policy| ("p", *policy)), &Areas::default(), false)
}

/// Every answer: by verb, type, place and name, each with a question of the type's plugin.
fn answers(set: &RuleSet) -> Vec<bool> {
    let mut all = Vec::new();
    for verb in VERBS {
        for (group, kind) in KINDS {
            for (partition, name) in ["p", "q", "*"].iter().flat_map(|p| NAMES.map(|name| (*p, name))) {
                let of = IdRef { group, group_version: "v1", kind, partition, name, ..IdRef::default() };
                let effect = set.effect(verb, of, (verb != Verb::List).then_some(name));
                for asked in ["key:read", "key:list", "key:write"] {
                    for on in NAMES {
                        all.push(match effect {
                            Effect::Deny => false,
                            Effect::Allow => !set.is_denied(asked, on),
                            Effect::Undecided => verb != Verb::Escalate && set.is_allowed(asked, on),
                        });
                    }
                }
            }
        }
    }
    all
}

fn is_within(given: &[bool], held: &[bool]) -> bool {
    given.iter().zip(held).all(|(given, held)| !given || *held)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Two policies that a caller may write give nothing beyond its own permissions, alone and together.
    #[test]
    fn what_may_be_granted_is_held(rules in prop::collection::vec(rule(), 1..7), one: u8, other: u8, held: u8) {
        let has = |mask: u8| move |index: usize| mask & (1 << index) != 0;
        let (one, other) = (policy(&rules, has(one)), policy(&rules, has(other)));
        let held = set(&[&policy(&rules, has(held))]);
        let may = |policy: &Policy| check(&set(&[policy]), &held).is_ok();
        if may(&one) {
            prop_assert!(is_within(&answers(&set(&[&one])), &answers(&held)));
            if may(&other) {
                prop_assert!(is_within(&answers(&set(&[&one, &other])), &answers(&held)));
            }
        }
    }

    /// Own permissions may always be granted whole.
    #[test]
    fn ones_own_may_be_granted(rules in prop::collection::vec(rule(), 1..7)) {
        let own = set(&[&policy(&rules, |_| true)]);
        prop_assert_eq!(check(&own, &own), Ok(()));
    }

    /// A change of a policy gives the callers with it nothing that they did not have and that its writer does not hold.
    #[test]
    fn what_a_change_opens_is_held(
        rules in prop::collection::vec(rule(), 1..8), before: u8, after: u8, with: u8, held: u8
    ) {
        let has = |mask: u8| move |index: usize| mask & (1 << index) != 0;
        let (before, after) = (policy(&rules, has(before)), policy(&rules, has(after)));
        let with = policy(&rules, has(with));
        let held = set(&[&policy(&rules, has(held))]);
        let denies = before.type_rules.iter().filter(|rule| rule.deny && !after.type_rules.contains(rule));
        let removed = Policy { type_rules: denies.map(CompiledTypeRule::allowing).collect(), ..Policy::default() };
        let (was, is) = (set(&[&before, &with]), set(&[&after, &with]));
        let same_areas = before.area_rules == after.area_rules;
        let adds = adds_allows(&before.type_rules, &after.type_rules);
        let may = check(&set(&[&after]), &held).is_ok()
            && ((removed.type_rules.is_empty() && same_areas && !adds)
                || check_change(&set(&[&removed]), &was, &is, &held).is_ok());
        if may {
            let (was, is, held) = (answers(&was), answers(&is), answers(&held));
            let or = was.iter().zip(&held).map(|(was, held)| *was || *held).collect::<Vec<_>>();
            prop_assert!(is_within(&is, &or));
        }
    }
}

#[test]
fn refusals_name_the_permission() {
    let read = |rules: &[(&str, &str, &[&str], bool)]| {
        let rules = rules.iter().map(|(verb, kind, names, deny)| {
            let (words, names) =
                (|word: &str| vec![word.to_owned()], names.iter().map(|name| (*name).to_owned()).collect());
            let rule = mortise_resource::data::TypeRule {
                types: words(kind),
                verbs: words(verb),
                names,
                deny: *deny,
                ..Default::default()
            };
            CompiledTypeRule::read(&rule).unwrap()
        });
        set(&[&Policy { type_rules: rules.collect(), ..Policy::default() }])
    };
    let held = read(&[("read", "demo/*", &[], false), ("read", "demo/A", &["secret"], true)]);
    let said = |given: &RuleSet| check(given, &held).map_err(|error| error.to_string());
    assert_eq!(said(&read(&[("read", "demo/B", &[], false)])), Ok(()));
    assert_eq!(said(&read(&[("read", "demo/A", &["open"], false)])), Ok(()));
    let lacks = "it does not have what this would grant: ";
    assert_eq!(said(&read(&[("write", "demo/B", &[], false)])), Err(format!("{lacks}write:demo/B")));
    assert_eq!(
        said(&read(&[("read", "demo/A", &[], false)])),
        Err(format!("{lacks}read:demo/A, of which the caller is denied read:demo/A:secret"))
    );
    let with_deny = read(&[("read", "demo/A", &[], false), ("read", "demo/A", &["secret"], true)]);
    assert_eq!(said(&with_deny), Ok(()));
    let wild = read(&[("write", "*", &[], false)]);
    let (token, any) = (read(&[("write", "mortise/Token", &[], false)]), read(&[("*", "mortise/Token", &[], false)]));
    assert!(check(&token, &wild).is_err(), "a wildcard leaves out tokens");
    assert!(check(&read(&[("escalate", "mortise/Token", &[], false)]), &any).is_err(), "* leaves out escalate");
}

/// An area without its deny rule opens what rules by type leave undecided or allow, so the writer's own denials by type
/// must hold there.
#[test]
fn a_change_opens_nothing_in_areas_that_the_writer_is_denied() {
    let area = |name: &str, is_prefix, level| AreaRule { area: "key".into(), name: name.into(), is_prefix, level };
    let by_type = |names: &[&str], deny| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let (types, verbs) = (vec!["demo/A".into()], vec!["write".into()]);
        let rule = mortise_resource::data::TypeRule { types, verbs, names, deny, ..Default::default() };
        CompiledTypeRule::read(&rule).unwrap()
    };
    let rules = |areas: &[AreaRule], types: &[CompiledTypeRule]| {
        set(&[&Policy { area_rules: areas.to_vec(), type_rules: types.to_vec(), ..Policy::default() }])
    };
    let (deny, all) = (area("a", false, Level::Deny), area("", true, Level::Write));
    let held = rules(std::slice::from_ref(&all), &[by_type(&[], true)]);
    let removal = |with: &[CompiledTypeRule]| {
        let (before, after) = (rules(&[deny.clone(), all.clone()], with), rules(std::slice::from_ref(&all), with));
        check_change(&rules(&[], &[]), &before, &after, &held).map_err(|error| error.to_string())
    };
    let lacks = "it does not have what this would grant: ";
    assert_eq!(removal(&[]), Err(format!("{lacks}the caller is denied write:demo/A; add that deny rule")));
    assert_eq!(removal(&[by_type(&[], true)]), Ok(()));
    let closer = [by_type(&[], true), by_type(&["a"], false)];
    assert_eq!(removal(&closer), Err(format!("{lacks}write:demo/A:a")));
    // A rule by type that only an area restricts opens what another policy of the token lifts.
    let (none, own) = (area("", true, Level::Deny), [by_type(&[], false)]);
    let with = area("a", false, Level::Read);
    let (before, after) = (rules(std::slice::from_ref(&with), &[]), rules(&[none.clone(), with], &own));
    assert!(check_change(&rules(&[], &[]), &before, &after, &rules(&[none], &own)).is_err());
    let granted = |types| check(&rules(&[area("a", false, Level::Read)], types), &held).is_ok();
    assert!(!granted(&[]) && granted(&[by_type(&[], true)]));
}

#[test]
fn a_check_of_too_many_rules_ends() {
    let words = |count: usize, word: &str| (0..count).map(|one| format!("{word}{one}")).collect::<Vec<_>>();
    let rule = mortise_resource::data::TypeRule {
        types: words(256, "demo/K"),
        verbs: vec!["read".into()],
        names: words(256, "n"),
        partitions: words(256, "p"),
        namespaces: words(256, "n"),
        ..Default::default()
    };
    let many = set(&[&Policy { type_rules: vec![CompiledTypeRule::read(&rule).unwrap(); 4], ..Policy::default() }]);
    assert_eq!(check(&many, &many), Err(GrantError::TooMany));
}
