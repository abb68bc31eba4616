//! Facts that a filter requires of every match.
//!
//! All facts of a list hold together: AND has the facts of all its parts, OR those about subjects that every branch has
//! a fact about. NOT has none, except that NOT NOT has those of its test, and a label that is NOT NULL is present.

use prost_reflect::{FieldDescriptor, MapKey};

use super::{
    evaluate::{Node, Test},
    literal::Literal,
    syntax::Comparison,
};
use crate::{
    Fact, Path, Subject,
    fact::common_facts,
    name::NamePattern,
    path::{Root, Step},
    value_type::Shape,
};

pub(super) fn required_facts(node: &Node) -> Vec<Fact> {
    match node {
        Node::All(parts) => parts.iter().flat_map(required_facts).collect(),
        Node::Any(parts) => common_facts(parts.iter().map(required_facts)),
        Node::Name(patterns) => name_facts(patterns),
        Node::Not(inner) => match inner.as_ref() {
            Node::Test { path, test: Test::IsNull } => presence_facts(path),
            Node::Not(inner) => required_facts(inner),
            _ => Vec::new(),
        },
        Node::Test { path, test } => facts_of_test(path, test),
        Node::Constant(_) => Vec::new(),
    }
}

fn name_facts(patterns: &[NamePattern]) -> Vec<Fact> {
    common_facts(patterns.iter().map(|pattern| {
        let part = |subject, value: &Option<String>| value.clone().map(|value| Fact::new(subject, [value]));
        let parts = [
            part(Subject::Name, &pattern.name),
            part(Subject::Namespace, &pattern.namespace),
            part(Subject::Partition, &pattern.partition),
        ];
        parts.into_iter().flatten().collect()
    }))
}

/// The facts of a test for presence (not NULL).
fn presence_facts(path: &Path) -> Vec<Fact> {
    match subject(path) {
        Some(Subject::Label(key)) => vec![Fact::new(Subject::LabelPresence(key), [])],
        _ => Vec::new(),
    }
}

fn facts_of_test(path: &Path, test: &Test) -> Vec<Fact> {
    if let (Test::HasEntry { all, entries }, true) = (test, is_labels(path)) {
        return label_facts(*all, entries);
    }
    if let Test::ContainsWhere(node) = test {
        return element_facts(path, node);
    }
    let Some(subject) = subject(path) else { return Vec::new() };
    let fact = |literals: &[Literal]| {
        let values: Option<Vec<String>> = literals.iter().map(text).collect();
        values.map(|values| Fact::new(subject.clone(), values))
    };
    match (test, &path.shape) {
        (Test::Compare(Comparison::Equal, literal), Shape::One(_)) => {
            fact(std::slice::from_ref(literal)).into_iter().collect()
        }
        (Test::In(literals), Shape::One(_)) => fact(literals.as_slice()).into_iter().collect(),
        (Test::Contains { all: false, values }, Shape::List(_)) => fact(values.as_slice()).into_iter().collect(),
        (Test::Contains { all: true, values }, Shape::List(_)) => {
            values.as_slice().iter().filter_map(|value| fact(std::slice::from_ref(value))).collect()
        }
        _ => Vec::new(),
    }
}

/// The facts of conditions on one message of a list: what the message must have, the list has.
fn element_facts(path: &Path, node: &Node) -> Vec<Fact> {
    let within = required_facts(node).into_iter().filter_map(|Fact { subject, values }| match subject {
        Subject::Field(field) => Some(Fact { subject: Subject::Field(format!("{path}.{field}")), values }),
        _ => None,
    });
    within.collect()
}

/// The facts of entries `key:value` of the labels. An entry with several colons gives none, since it can be read in
/// several ways.
fn label_facts(all: bool, entries: &[String]) -> Vec<Fact> {
    let facts = entries.iter().map(|entry| match entry.split_once(':') {
        Some((key, value)) if !value.is_empty() && !value.contains(':') => {
            vec![Fact::new(Subject::Label(key.to_owned()), [value.to_owned()])]
        }
        _ => Vec::new(),
    });
    if all { facts.flatten().collect() } else { common_facts(facts) }
}

fn is_labels(path: &Path) -> bool {
    path.root == Root::Resource && path.to_string() == "meta.labels"
}

/// The value as an index holds it; `None` for values that equal an absent field.
fn text(literal: &Literal) -> Option<String> {
    match literal {
        Literal::Scalar(scalar) => scalar.index_text(),
        Literal::Message(_) => None,
    }
}

/// The subject of a path, if an index may hold it.
pub(super) fn subject(path: &Path) -> Option<Subject> {
    let field = |step: &Step, name: &str| matches!(step, Step::Field(field) if field.name() == name);
    match (path.root, path.steps.as_slice()) {
        (Root::Resource, [meta, labels, Step::Key(MapKey::String(key))])
            if field(meta, "meta") && field(labels, "labels") =>
        {
            Some(Subject::Label(key.clone()))
        }
        (Root::Resource, [id, name]) if field(id, "id") && field(name, "name") => Some(Subject::Name),
        (Root::Resource, [id, uid]) if field(id, "id") && field(uid, "uid") => Some(Subject::Uid),
        (Root::Resource, [id, tenancy, unit]) if field(id, "id") && field(tenancy, "tenancy") => match unit {
            Step::Field(unit) => tenancy_unit(unit),
            Step::Key(_) => None,
        },
        // An index holds no absent values. If an absent field counts as a value that the index can hold, the index alone
        // cannot answer: the field is not looked up.
        (Root::Data | Root::Resource | Root::Element, [_, ..])
            if path.zero.as_ref().is_none_or(|zero| zero.index_text().is_none()) =>
        {
            Some(Subject::Field(path.to_string()))
        }
        _ => None,
    }
}

fn tenancy_unit(unit: &FieldDescriptor) -> Option<Subject> {
    match unit.name() {
        "partition" => Some(Subject::Partition),
        "namespace" => Some(Subject::Namespace),
        _ => None,
    }
}
