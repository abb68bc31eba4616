//! Stored policies with faults, as earlier releases may have written them.

use mortise_resource::{
    IdRef,
    authorizer::{Authorizer as _, Effect, Verb},
    data, pb,
};

use super::*;

fn stored(name: &str, data: &impl prost::Message) -> pb::Resource {
    let id = pb::Id { name: name.to_owned(), ..pb::Id::default() };
    let data = prost_types::Any { type_url: String::new(), value: data.encode_to_vec() };
    pb::Resource { id: Some(id), data: Some(data), ..pb::Resource::default() }
}

fn policy(name: &str, rules: &str, type_rules: Vec<data::TypeRule>) -> pb::Resource {
    stored(name, &data::Policy { rules: rules.to_owned(), type_rules, ..data::Policy::default() })
}

fn token(name: &str, policies: &[&str]) -> pb::Resource {
    let policies = policies.iter().map(|one| (*one).to_owned()).collect();
    stored(name, &data::Token { secret_sha256: hash_secret(name).to_vec(), policies, ..data::Token::default() })
}

/// An access with policies and tokens, each of which has its name as its secret.
fn access(policies: &[pb::Resource], tokens: &[(&str, &[&str])]) -> Access {
    let access = Access::new(Options::default());
    policies.iter().for_each(|policy| access.put_policy(policy));
    tokens.iter().for_each(|(name, policies)| access.put_token(&token(name, policies)));
    access
}

fn may_read(access: &Access, token: &str, name: &str) -> bool {
    access.identity_for_secret(token).unwrap().is_allowed("key:read", name)
}

#[test]
fn a_stored_policy_with_an_unknown_word_grants_nothing_and_is_named() {
    let misspelt = "key_prefix \"\" { policy = \"read\" }\nkey_prefx \"secret\" { policy = \"deny\" }";
    let odd = "key_prefix \"a\" { policy = \"read\" }\nkey_prefix \"ab\" { policy = \"deny\" }\nsong = \"read\"";
    let good = "key_prefix \"\" { policy = \"write\" }";
    let all = [policy("misspelt", misspelt, vec![]), policy("odd", odd, vec![]), policy("good", good, vec![])];
    let access = access(
        &all,
        &[
            ("one", &["misspelt"]),
            ("both", &["good", "misspelt"]),
            ("odd", &["odd"]),
            ("mixed", &["good", "odd"]),
            ("free", &["good"]),
            ("manager", &["misspelt", GLOBAL_MANAGEMENT]),
        ],
    );
    // A rule that may deny closes everything to its callers, and to no others.
    assert!(!may_read(&access, "one", "open") && !may_read(&access, "one", "secret"));
    assert!(!may_read(&access, "both", "open") && !may_read(&access, "both", "secret"));
    assert!(may_read(&access, "free", "secret") && may_read(&access, "manager", "secret"));
    assert!(!access.identity_for_secret("manager").unwrap().is_denied("key:read", "secret"));
    let both = access.identity_for_secret("both").unwrap();
    let of = IdRef { group: "demo", kind: "A", ..IdRef::default() };
    assert_eq!((both.effect(Verb::Read, of, Some("x")), both.is_denied("key:read", "open")), (Effect::Deny, true));
    // Without one, its own rules that allow are off, and those that deny hold.
    assert!(!may_read(&access, "odd", "a"));
    assert!(may_read(&access, "mixed", "a") && !may_read(&access, "mixed", "abc"));
    let faults = access.policy_faults();
    assert!(
        matches!(&*faults, [one, other] if one.starts_with("policy misspelt: rules: unknown area \"key_prefx\"")
        && other.starts_with("policy odd: rules: unknown area \"song\"")),
        "{faults:?}"
    );
    assert_eq!(both.policy_faults(), [faults[0].clone()]);
    // A plugin that asks about the area mends the policy, for as long as the process lives.
    let changes = access.changes();
    access.add_areas(["song"]);
    assert!(changes.has_changed().unwrap());
    assert!(may_read(&access, "odd", "a") && !may_read(&access, "odd", "abc") && !may_read(&access, "one", "open"));
    assert_eq!(access.policy_faults().len(), 1);
    access.put_policy(&policy("misspelt", &misspelt.replace("prefx", "prefix"), vec![]));
    assert!(may_read(&access, "one", "open") && !may_read(&access, "one", "secret"));
    assert!(access.policy_faults().is_empty());
}

#[test]
fn every_unusable_rule_fails_closed() {
    let rule = |types: &str, verb: &str, name: &str, deny: bool| data::TypeRule {
        types: vec![types.into()],
        verbs: vec![verb.into()],
        names: [name].into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        deny,
        ..data::TypeRule::default()
    };
    let fine = || rule("*", "read", "", false);
    let of = IdRef { group: "demo", group_version: "v1", kind: "A", ..IdRef::default() };
    for (rules, wrong) in [
        ("", rule("demo", "read", "", true)),
        ("", rule("*", "reed", "", true)),
        ("", rule("*", "read", "Secret", true)),
        ("key \"a\" { policy = \"dny\" }", fine()),
        ("key \"a {", fine()),
        ("operator \"x\" { policy = \"deny\" }", fine()),
    ] {
        let access = access(&[policy("p", rules, vec![fine(), wrong.clone()])], &[("t", &["p"])]);
        let effect = access.identity_for_secret("t").unwrap().effect(Verb::Read, of, Some("x"));
        assert_eq!(effect, Effect::Deny, "{rules} {wrong:?}");
        assert_eq!(access.policy_faults().len(), 1, "{rules} {wrong:?}");
    }
    let wrong = rule("*", "read", "Korn", false);
    let access = access(&[policy("p", "", vec![fine(), wrong.clone()])], &[("t", &["p"])]);
    assert_eq!(access.identity_for_secret("t").unwrap().effect(Verb::Read, of, Some("x")), Effect::Undecided);
    // The first fault is named, and each of them counts.
    access.put_policy(&policy("p", "", vec![wrong, rule("*", "reed", "", true)]));
    assert_eq!(access.identity_for_secret("t").unwrap().effect(Verb::Read, of, Some("x")), Effect::Deny);
    assert!(access.policy_faults()[0].contains("Korn"));
    let unreadable = pb::Resource {
        data: Some(prost_types::Any { value: vec![0xff; 3], ..prost_types::Any::default() }),
        ..policy("p", "", vec![])
    };
    access.put_policy(&unreadable);
    assert_eq!(access.identity_for_secret("t").unwrap().effect(Verb::Read, of, Some("x")), Effect::Deny);
    assert_eq!(access.policy_faults(), ["policy p: the stored policy cannot be read; write it again"]);
}

/// A write of one is refused; earlier releases took it.
#[test]
fn a_stored_secret_of_two_tokens_holds_for_neither() {
    let access = access(&[], &[("one", &[GLOBAL_MANAGEMENT])]);
    let same = data::Token { secret_sha256: hash_secret("one").to_vec(), ..data::Token::default() };
    assert!(access.takes_secret("two", &same) && !access.takes_secret("one", &same));
    access.put_token(&stored("two", &same));
    assert!(access.identity_for_secret("one").is_err() && !access.takes_secret("two", &same));
    access.remove_token("two");
    assert!(access.identity_for_secret("one").is_ok());
}

#[test]
fn settings_that_name_no_policy_are_known() {
    let policies = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let access = Access::new(Options {
        anonymous: policies(&["one", GLOBAL_MANAGEMENT]),
        dns: policies(&["two"]),
        certificates: vec![("laptop".into(), policies(&["one", "three"]))],
    });
    access.put_policy(&policy("two", "", vec![]));
    assert_eq!(access.missing_policies(), ["one", "three"]);
    assert_eq!(access.settings_with("one"), ["acl.anonymous_policies", "acl.certificates.laptop"]);
}
