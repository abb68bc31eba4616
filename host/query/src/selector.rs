//! Label selectors.

use std::collections::{BTreeMap, BTreeSet};

use mortise_resource::goten;

use crate::{Fact, QueryError, Subject, error::shown, limits};

/// A checked label selector. All of its requirements have to hold; without any, everything matches. The caller handles
/// a request without a selector.
#[derive(Debug, Clone)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone)]
enum Operator {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Checks a selector.
    ///
    /// # Errors
    /// An operator is unknown, has values that it must not have, or lacks values that it needs; a key is empty; or a
    /// count exceeds [`limits`].
    pub fn new(selector: &goten::LabelSelector) -> Result<Self, QueryError> {
        let count = selector.match_labels.len() + selector.match_expressions.len();
        if count > limits::REQUIREMENTS {
            let fault = format!("it has {count} requirements; at most {} are allowed", limits::REQUIREMENTS);
            return Err(QueryError::Selector(fault));
        }
        let equal = selector.match_labels.iter().map(|(key, value)| {
            let operator = Operator::In(BTreeSet::from([value.clone()]));
            Requirement::new(key, "match_labels", operator)
        });
        let others = selector.match_expressions.iter().map(Requirement::parse);
        Ok(Self { requirements: equal.chain(others).collect::<Result<_, _>>()? })
    }

    /// Whether labels match. `NotIn` and `DoesNotExist` hold without the label; `In` needs it, even for an empty value.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.operator {
                Operator::In(values) => value.is_some_and(|value| values.contains(value)),
                Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }

    /// The facts that hold for all labels that match. Each holds by itself.
    #[must_use]
    pub fn required(&self) -> Vec<Fact> {
        let fact = |requirement: &Requirement| match &requirement.operator {
            Operator::In(values) => Some(Fact::new(Subject::Label(requirement.key.clone()), values.iter().cloned())),
            Operator::Exists => Some(Fact::new(Subject::LabelPresence(requirement.key.clone()), [])),
            Operator::NotIn(_) | Operator::DoesNotExist => None,
        };
        self.requirements.iter().filter_map(fact).collect()
    }
}

impl Requirement {
    fn new(key: &str, place: &str, operator: Operator) -> Result<Self, QueryError> {
        match key {
            "" => Err(QueryError::Selector(format!("a key of {place} is empty; name a label"))),
            key => Ok(Self { key: key.to_owned(), operator }),
        }
    }

    fn parse(requirement: &goten::LabelSelectorRequirement) -> Result<Self, QueryError> {
        let goten::LabelSelectorRequirement { key, operator, values } = requirement;
        let fault = |fault: &str| Err(QueryError::Selector(format!("the requirement of {:?} {fault}", shown(key))));
        if values.len() > limits::REQUIREMENT_VALUES {
            return fault(&format!("has {} values; at most {} are allowed", values.len(), limits::REQUIREMENT_VALUES));
        }
        let set = || values.iter().cloned().collect();
        let operator = match (operator.as_str(), values.is_empty()) {
            ("In", false) => Operator::In(set()),
            ("NotIn", false) => Operator::NotIn(set()),
            ("Exists", true) => Operator::Exists,
            ("DoesNotExist", true) => Operator::DoesNotExist,
            ("In" | "NotIn", true) => return fault(&format!("uses {operator} without values; name at least one")),
            ("Exists" | "DoesNotExist", false) => {
                return fault(&format!("uses {operator} with values; leave them out"));
            }
            _ => {
                let operator = shown(operator);
                return fault(&format!("has the unknown operator {operator:?}; use In, NotIn, Exists or DoesNotExist"));
            }
        };
        Self::new(key, "match_expressions", operator)
    }
}
