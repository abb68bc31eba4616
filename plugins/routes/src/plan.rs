//! Decides the files of the Routes that share a hostname: pure, from the Routes and their present files.
//!
//! # Contract
//! - The older of two Routes for one path has it; the age is that of the uid, a ULID. The younger has no file.
//! - A Route that the rules refuse keeps its former part, read from its file: the Route passed under earlier rules. So
//!   does a Route whose new file the operator's check refused.
//! - The `server` block of a hostname is in the file of the oldest Route that has a file.
//! - Every text is checked. If one fails, the whole plan fails, and the hostname's files stay as they are.
//! - Files come in an order in which nginx may read the directory at any moment: no name of an upstream or variable is
//!   used before its block exists or after it is gone, a new `server` block exists before the old one goes (meanwhile
//!   nginx warns of two), and removals are last.
//!
//! # Cost
//! Quadratic in the number of Routes of the hostname: each text finds its step by a search.

use std::collections::{BTreeMap, BTreeSet};

use mortise_plugin::{Diagnostics, Typed, pb};

use crate::{
    check::{CheckError, check},
    file::{RouteConfig, RouteName, ServerBlock, has_server},
    lookup::has_variable,
    proto::edge::v1::{Route, Upstream},
    rules,
    settings::Nginx,
};

/// A Route and its upstreams.
pub(crate) struct Member {
    pub(crate) route: Typed<Route>,
    pub(crate) upstreams: Vec<Upstream>,
    /// The text of its present file.
    pub(crate) before: Option<String>,
    /// The fault for which the operator's check refused its new file.
    pub(crate) refused: Option<String>,
}

/// Action on a Route's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileAction {
    Put(String),
    Remove,
}

/// Result for a Route's status.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RouteResult {
    Written,
    /// Another Route has the path.
    Conflict(pb::Id),
    Invalid(String),
    /// The operator's check refused the new file.
    Refused(String),
}

/// Planned step for a Route.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    /// Index of the Route among the members.
    pub(crate) member: usize,
    pub(crate) action: FileAction,
    pub(crate) verdict: RouteResult,
}

/// A text that failed its check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the new text of {file} failed its check: {source}")]
pub(crate) struct PlanError {
    file: String,
    source: CheckError,
}

/// Plans the steps for a hostname's Routes, in the order of the contract.
///
/// # Errors
/// A text that failed its check.
pub(crate) fn plan(hostname: &str, nginx: &Nginx, members: &[Member]) -> Result<Vec<Step>, PlanError> {
    let mut age = (0..members.len()).zip(members).collect::<Vec<_>>();
    age.sort_by(|(_, a), (_, b)| a.route.id().uid.cmp(&b.route.id().uid));

    let mut taken = BTreeMap::new();
    let mut parts = Vec::new();
    let mut steps = Vec::new();
    for (number, member) in age {
        let id = member.route.id();
        let (part, fault) = contribution(hostname, nginx, member);
        let other = part.as_ref().and_then(|part| taken.get(&part.prefix)).cloned();
        let verdict = match (fault, &other) {
            (Some(fault), _) => fault,
            (None, Some(other)) => RouteResult::Conflict(pb::Id::clone(other)),
            (None, None) => RouteResult::Written,
        };
        if let Some(part) = part.filter(|_| other.is_none()) {
            taken.insert(part.prefix.clone(), id.clone());
            parts.push((number, part));
        }
        steps.push(Step { member: number, action: FileAction::Remove, verdict });
    }

    for (number, text) in texts(hostname, nginx, &parts)? {
        if let Some(step) = steps.iter_mut().find(|step| step.member == number) {
            step.action = FileAction::Put(text);
        }
    }
    let head = parts.first().map(|(number, _)| *number);
    let before = |step: &Step| members.get(step.member).and_then(|member| member.before.as_deref()).unwrap_or_default();
    steps.sort_by_key(|step| match &step.action {
        FileAction::Put(_) if Some(step.member) == head => 1,
        FileAction::Put(_) if has_server(before(step)) => 2,
        FileAction::Put(text) if has_variable(before(step)) && !has_variable(text) => 3,
        FileAction::Put(_) => 0,
        FileAction::Remove => 4,
    });
    Ok(steps)
}

/// A Route's part of its hostname, and the first fault of the Route.
fn contribution(hostname: &str, nginx: &Nginx, member: &Member) -> (Option<RouteConfig>, Option<RouteResult>) {
    let name = RouteName::of(member.route.id());
    let mut found = Diagnostics::new();
    rules::judge(&member.route.data, &mut found);
    let invalid = found.iter().next().map(|fault| RouteResult::Invalid(format!("{}: {}", fault.path, fault.summary)));
    let Some(fault) = invalid.or_else(|| member.refused.clone().map(RouteResult::Refused)) else {
        let config = RouteConfig::new(name, &member.route.data.path_prefix, &member.upstreams, nginx);
        return (Some(config), None);
    };
    let former = member.before.as_deref().and_then(|text| RouteConfig::recover(name, text));
    (former.and_then(|(of, part)| (of == hostname && part.is_valid()).then_some(part)), Some(fault))
}

/// Text of each part's file, checked.
fn texts(hostname: &str, nginx: &Nginx, parts: &[(usize, RouteConfig)]) -> Result<Vec<(usize, String)>, PlanError> {
    let all = parts.iter().map(|(_, part)| part).collect::<Vec<_>>();
    let known = all.iter().flat_map(|part| [part.name.upstream(), part.target()]).collect::<BTreeSet<_>>();
    let mut server = Some(ServerBlock { nginx, parts: &all });
    let mut texts = Vec::new();
    for (number, part) in parts {
        let text = part.render(hostname, server.take().as_ref());
        check(&text, &|name| known.contains(name)).map_err(|source| PlanError { file: part.name.file(), source })?;
        texts.push((*number, text));
    }
    Ok(texts)
}

#[cfg(test)]
mod tests;
