//! Values of compose files with their places, and how a service takes over the values of another one.

use std::{collections::BTreeMap, sync::Arc};

use mortise_text::{PlainNode, PlainValue};

use super::variables::{VariableError, Variables};
use crate::commands::catalog::plan::{LoadPlan, Place};

/// Keys of a service that are read; all others concern the containers alone.
const SERVICE_KEYS: [&str; 12] = [
    "container_name",
    "deploy",
    "expose",
    "extends",
    "healthcheck",
    "hostname",
    "labels",
    "network_mode",
    "networks",
    "ports",
    "profiles",
    "scale",
];

/// A value, its place, and its variables filled in.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: NodeValue,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum NodeValue {
    Null,
    /// A text, or a number or truth value as text.
    Scalar(String),
    List(Vec<Node>),
    Map(BTreeMap<String, Node>),
}

/// Variable that cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}: {1}")]
pub(in crate::commands::catalog) struct FillError(Place, VariableError);

impl Node {
    /// Fills the variables of a value in. Unset variables are remarked in the plan.
    pub(super) fn fill(
        node: PlainNode,
        file: &Arc<str>,
        path: String,
        variables: &Variables<'_>,
        plan: &mut LoadPlan,
    ) -> Result<Self, FillError> {
        let place = Place { path, ..Place::line(file, node.line) };
        let value = match node.value {
            PlainValue::Null => NodeValue::Null,
            PlainValue::Bool(value) => NodeValue::Scalar(value.to_string()),
            PlainValue::Number(number) => NodeValue::Scalar(number.to_string()),
            PlainValue::Text(text) => {
                let filled = variables.fill_in(&text).map_err(|error| FillError(place.clone(), error))?;
                for name in filled.unset {
                    plan.skip(place.clone(), format!("the variable {name} is not set; an empty text takes its place"));
                }
                NodeValue::Scalar(filled.text)
            }
            PlainValue::List(items) => {
                let items = items
                    .into_iter()
                    .zip(0_usize..)
                    .map(|(item, index)| Self::fill(item, file, format!("{}[{index}]", place.path), variables, plan));
                NodeValue::List(items.collect::<Result<_, _>>()?)
            }
            PlainValue::Map(entries) => {
                let entries = entries.into_iter().map(|(key, item)| {
                    let path = if place.path.is_empty() { key.clone() } else { format!("{}.{key}", place.path) };
                    Ok((key, Self::fill(item, file, path, variables, plan)?))
                });
                NodeValue::Map(entries.collect::<Result<_, _>>()?)
            }
        };
        Ok(Self { place, value })
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.map()?.get(key).filter(|node| node.value != NodeValue::Null)
    }

    pub(super) fn map(&self) -> Option<&BTreeMap<String, Self>> {
        if let NodeValue::Map(entries) = &self.value { Some(entries) } else { None }
    }

    pub(super) fn scalar(&self) -> Option<&str> {
        if let NodeValue::Scalar(text) = &self.value { Some(text) } else { None }
    }

    /// The items of a list; a single text is a list of itself.
    pub(super) fn items(&self) -> &[Self] {
        match &self.value {
            NodeValue::List(items) => items,
            NodeValue::Scalar(_) => std::slice::from_ref(self),
            NodeValue::Null | NodeValue::Map(_) => &[],
        }
    }

    /// The text under a key.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.scalar()
    }

    /// Pairs, written as a map or as a list of `key=value`.
    pub(super) fn pairs(&self) -> BTreeMap<String, String> {
        match &self.value {
            NodeValue::Map(entries) => {
                let pair = |(key, node): (&String, &Self)| (key.clone(), node.scalar().unwrap_or_default().to_owned());
                entries.iter().map(pair).collect()
            }
            _ => self.items().iter().filter_map(Self::scalar).map(pair).collect(),
        }
    }

    /// Number of values, itself included.
    pub(super) fn size(&self) -> usize {
        match &self.value {
            NodeValue::Null | NodeValue::Scalar(_) => 1,
            NodeValue::List(items) => 1 + items.iter().map(Self::size).sum::<usize>(),
            NodeValue::Map(entries) => 1 + entries.values().map(Self::size).sum::<usize>(),
        }
    }

    /// Puts the values of another node over this one, as compose does: maps entry by entry, ports and other lists after
    /// each other, labels by their keys, and everything else replaced.
    pub(super) fn overlay(self, key: &str, own: Self) -> Self {
        let (place, base) = (own.place, self.value);
        let value = match (base, own.value) {
            (base, NodeValue::Null) => base,
            (NodeValue::Map(base), NodeValue::Map(own)) => NodeValue::Map(merged(base, own)),
            (NodeValue::List(mut items), NodeValue::List(own))
                if matches!(key, "ports" | "expose" | "profiles" | "networks") =>
            {
                items.extend(own);
                NodeValue::List(items)
            }
            (base, own) if key == "labels" => {
                let base = Self { place: place.clone(), value: base };
                let own = Self { place: place.clone(), value: own };
                let mut pairs = base.pairs();
                pairs.extend(own.pairs());
                let node = |text| Self { place: place.clone(), value: NodeValue::Scalar(text) };
                NodeValue::Map(pairs.into_iter().map(|(key, text)| (key, node(text))).collect())
            }
            (_, own) => own,
        };
        Self { place, value }
    }
}

fn pair(text: &str) -> (String, String) {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    (key.to_owned(), value.to_owned())
}

fn merged(mut base: BTreeMap<String, Node>, own: BTreeMap<String, Node>) -> BTreeMap<String, Node> {
    for (key, node) in own {
        let node = match base.remove(&key) {
            Some(base) => base.overlay(&key, node),
            None => node,
        };
        base.insert(key, node);
    }
    base
}

/// Leaves out the entries of a service that are not read.
pub(super) fn keep_read(node: &mut PlainNode) {
    if let PlainValue::Map(entries) = &mut node.value {
        entries.retain(|key, _| SERVICE_KEYS.contains(&key.as_str()));
    }
}
