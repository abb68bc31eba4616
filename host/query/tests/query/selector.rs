//! Label selectors.

use std::collections::BTreeMap;

use mortise_query::{Fact, Selector, Subject};
use mortise_resource::goten::{LabelSelector, LabelSelectorRequirement};

use crate::common::map;

fn requirement(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    LabelSelectorRequirement { key: key.into(), operator: operator.into(), values }
}

fn selector(labels: &[(&str, &str)], expressions: &[LabelSelectorRequirement]) -> LabelSelector {
    LabelSelector { match_labels: map(labels), match_expressions: expressions.to_vec() }
}

#[test]
fn all_requirements_hold() {
    let labels = map(&[("region", "eu"), ("empty", "")]);
    let rows = [
        (selector(&[], &[]), true),
        (selector(&[("region", "eu")], &[]), true),
        (selector(&[("region", "us")], &[]), false),
        (selector(&[("empty", "")], &[]), true),
        (selector(&[("absent", "")], &[]), false),
        (selector(&[], &[requirement("region", "In", &["us", "eu"])]), true),
        (selector(&[], &[requirement("absent", "In", &["us"])]), false),
        (selector(&[], &[requirement("region", "NotIn", &["us"])]), true),
        (selector(&[], &[requirement("region", "NotIn", &["eu"])]), false),
        (selector(&[], &[requirement("absent", "NotIn", &["us"])]), true),
        (selector(&[], &[requirement("empty", "Exists", &[])]), true),
        (selector(&[], &[requirement("absent", "Exists", &[])]), false),
        (selector(&[], &[requirement("absent", "DoesNotExist", &[])]), true),
        (selector(&[], &[requirement("empty", "DoesNotExist", &[])]), false),
        (selector(&[("region", "eu")], &[requirement("empty", "DoesNotExist", &[])]), false),
    ];
    for (text, expected) in rows {
        assert_eq!(Selector::new(&text).unwrap().matches(&labels), expected, "{text:?}");
    }
    assert!(Selector::new(&selector(&[], &[])).unwrap().matches(&BTreeMap::new()));
}

#[test]
fn contradictions_are_refused() {
    let rows = [
        (requirement("k", "In", &[]), r#"selector: the requirement of "k" uses In without values; name at least one"#),
        (
            requirement("k", "NotIn", &[]),
            r#"selector: the requirement of "k" uses NotIn without values; name at least one"#,
        ),
        (
            requirement("k", "Exists", &["v"]),
            r#"selector: the requirement of "k" uses Exists with values; leave them out"#,
        ),
        (
            requirement("k", "DoesNotExist", &["v"]),
            r#"selector: the requirement of "k" uses DoesNotExist with values; leave them out"#,
        ),
        (
            requirement("k", "in", &["v"]),
            r#"selector: the requirement of "k" has the unknown operator "in"; use In, NotIn, Exists or DoesNotExist"#,
        ),
        (requirement("", "Exists", &[]), "selector: a key of match_expressions is empty; name a label"),
    ];
    for (text, fault) in rows {
        assert_eq!(Selector::new(&selector(&[], &[text])).unwrap_err().to_string(), fault);
    }
    let many = vec![requirement("k", "Exists", &[]); 1_001];
    assert!(Selector::new(&selector(&[], &many)).unwrap_err().to_string().contains("at most 1000 are allowed"));
    let long = requirement("k", "In", &["v"; 1_001]);
    assert!(Selector::new(&selector(&[], &[long])).unwrap_err().to_string().contains("at most 1000 are allowed"));
}

#[test]
fn what_it_requires() {
    let labels = selector(
        &[("a", "1")],
        &[requirement("b", "In", &["2", "3"]), requirement("c", "Exists", &[]), requirement("d", "NotIn", &["4"])],
    );
    let fact =
        |subject, values: &[&str]| Fact { subject, values: values.iter().map(|value| (*value).to_owned()).collect() };
    let expected = [
        fact(Subject::Label("a".into()), &["1"]),
        fact(Subject::Label("b".into()), &["2", "3"]),
        fact(Subject::LabelPresence("c".into()), &[]),
    ];
    assert_eq!(Selector::new(&labels).unwrap().required(), expected);
}
