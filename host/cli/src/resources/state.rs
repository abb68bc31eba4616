//! States of a resource that a command can wait for: a condition, or the value of a field.

use std::fmt;

use mortise_resource::pb::{self, condition::State};

use super::{catalog::Catalog, readiness::state as state_of, show};

/// State to wait for: `condition=Accepted`, `condition=Accepted=false`, `data.genre=GENRE_JAZZ`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WantedState {
    /// A controller reports the condition for the current generation.
    Condition { kind: String, state: State },
    /// The field has the value; without a value, any value.
    Field { path: String, value: Option<String> },
}

impl fmt::Display for WantedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Condition { kind, state } => {
                let state = match state {
                    State::True => "True",
                    State::False => "False",
                    State::Unknown => "Unknown",
                };
                write!(f, "{kind}={state}")
            }
            Self::Field { path, value: Some(value) } => write!(f, "{path}={value}"),
            Self::Field { path, value: None } => write!(f, "a value in {path}"),
        }
    }
}

/// Fault in a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StateError {
    #[error("{0:?} is not a condition; use condition=TYPE or condition=TYPE=true|false|unknown")]
    Condition(String),
    #[error("{0:?} is not a state; use delete, create, condition=TYPE, condition=TYPE=false or data.FIELD=VALUE")]
    State(String),
}

/// Parses `condition=TYPE` or `condition=TYPE=STATE`, for clap.
pub(crate) fn condition(text: &str) -> Result<WantedState, StateError> {
    let wrong = || StateError::Condition(text.to_owned());
    let rest = text.strip_prefix("condition=").ok_or_else(wrong)?;
    let (kind, state) = rest.split_once('=').unwrap_or((rest, "true"));
    let state = match state.to_ascii_lowercase().as_str() {
        "true" => State::True,
        "false" => State::False,
        "unknown" => State::Unknown,
        _ => return Err(wrong()),
    };
    if kind.is_empty() {
        return Err(wrong());
    }
    Ok(WantedState::Condition { kind: kind.to_owned(), state })
}

/// Parses a condition, `PATH=VALUE`, or kubectl's `jsonpath={.PATH}=VALUE`. A value may stand in quotes.
pub(crate) fn state(text: &str) -> Result<WantedState, StateError> {
    let wrong = || StateError::State(text.to_owned());
    if text.starts_with("condition=") {
        return condition(text);
    }
    let (path, value) = match text.strip_prefix("jsonpath=") {
        Some(template) => match template.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((path, "")) => (path, None),
            Some((path, rest)) => (path, Some(rest.strip_prefix('=').ok_or_else(wrong)?)),
            None => template.split_once('=').map_or((template, None), |(path, value)| (path, Some(value))),
        },
        None => text.split_once('=').map(|(path, value)| (path, Some(value))).ok_or_else(wrong)?,
    };
    let path = path.strip_prefix('$').unwrap_or(path).trim_start_matches('.');
    if path.is_empty() || path.contains(char::is_whitespace) {
        return Err(wrong());
    }
    let bare = |value: &str| value.trim_matches(['"', '\'']).to_owned();
    Ok(WantedState::Field { path: path.to_owned(), value: value.map(bare) })
}

impl WantedState {
    /// Returns whether the resource is in the state.
    pub(crate) fn holds(&self, resource: &pb::Resource, catalog: &Catalog) -> bool {
        match self {
            Self::Condition { kind, state } => has_condition(resource, kind, *state),
            Self::Field { path, value } => {
                let found = field(resource, path, catalog);
                value.as_ref().map_or(!found.is_empty(), |value| found == *value)
            }
        }
    }

    /// Describes the state that the resource has instead.
    pub(crate) fn instead(&self, resource: &pb::Resource, catalog: &Catalog) -> String {
        let kind = match self {
            Self::Condition { kind, .. } => kind,
            Self::Field { path, .. } => {
                let found = field(resource, path, catalog);
                return if found.is_empty() { format!("{path} has no value") } else { format!("{path}={found}") };
            }
        };
        let found = resource.status.values().flat_map(|status| &status.conditions).find(|c| c.r#type == *kind);
        match found {
            None => format!("no controller has reported {kind}"),
            Some(condition) => {
                let (_, state) = state_of(condition);
                let because = [condition.reason.as_str(), condition.message.as_str()];
                let because: Vec<_> = because.into_iter().filter(|text| !text.is_empty()).collect();
                let because = if because.is_empty() { String::new() } else { format!(" ({})", because.join(": ")) };
                format!("{kind}={state}{because}")
            }
        }
    }
}

/// Whether a controller reports the condition for the current generation of the resource.
fn has_condition(resource: &pb::Resource, kind: &str, state: State) -> bool {
    let current = resource.status.values().filter(|status| status.observed_generation == resource.generation);
    current.flat_map(|status| &status.conditions).any(|c| c.r#type == kind && c.state() == state)
}

fn field(resource: &pb::Resource, path: &str, catalog: &Catalog) -> String {
    show::field(&show::json(resource, catalog), path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_that_can_be_waited_for() {
        let is = |kind: &str, state| Ok(WantedState::Condition { kind: kind.into(), state });
        assert_eq!(condition("condition=Ready"), is("Ready", State::True));
        assert_eq!(condition("condition=Ready=False"), is("Ready", State::False));
        assert_eq!(condition("condition=Ready=unknown"), is("Ready", State::Unknown));
        for text in ["Ready", "condition=", "condition==true", "condition=Ready=maybe", "delete"] {
            assert!(condition(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_field_is_a_path_in_the_form_of_this_tool_or_of_kubectl() {
        let is = |path: &str, value: Option<&str>| {
            Ok(WantedState::Field { path: path.into(), value: value.map(str::to_owned) })
        };
        assert_eq!(state("data.genre=GENRE_JAZZ"), is("data.genre", Some("GENRE_JAZZ")));
        assert_eq!(state(".data.name=\"A=B\""), is("data.name", Some("A=B")));
        assert_eq!(state("jsonpath={.data.genre}=X"), is("data.genre", Some("X")));
        assert_eq!(state("jsonpath={.data.genre}"), is("data.genre", None));
        assert_eq!(state("jsonpath=.data.genre=X"), is("data.genre", Some("X")));
        for text in ["", "=", "teleport", "jsonpath=", "jsonpath={}=x", "a b=c"] {
            assert!(state(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_condition_counts_for_the_current_generation_alone() {
        let ready = pb::Condition { r#type: "Ready".into(), state: State::True.into(), ..pb::Condition::default() };
        let status = |generation: &str| pb::Status {
            observed_generation: generation.into(),
            conditions: vec![ready.clone()],
            updated_at: None,
        };
        let mut resource = pb::Resource { generation: "b".into(), ..pb::Resource::default() };
        resource.status.insert("c".into(), status("a"));
        assert!(!has_condition(&resource, "Ready", State::True));
        resource.status.insert("d".into(), status("b"));
        assert!(has_condition(&resource, "Ready", State::True));
    }
}
