//! Readiness and references of a resource, for tables.

use std::collections::BTreeSet;

use mortise_resource::pb;

use crate::{Cell, Style};

/// Renders every condition as `Type=State`, coloured by the worst.
pub(crate) fn conditions(resource: &pb::Resource) -> Cell {
    let mut worst = Style::Plain;
    let mut all = Vec::new();
    for condition in resource.status.values().flat_map(|status| &status.conditions) {
        let (style, state) = state(condition);
        worst = match (worst, style) {
            (Style::Bad, _) | (_, Style::Bad) => Style::Bad,
            (Style::Warn, _) | (_, Style::Warn) => Style::Warn,
            _ => Style::Good,
        };
        all.push(format!("{}={state}", condition.r#type));
    }
    Cell::styled(worst, all.join(","))
}

/// A condition's state, and its colour.
pub(crate) fn state(condition: &pb::Condition) -> (Style, &'static str) {
    match condition.state() {
        pb::condition::State::True => (Style::Good, "True"),
        pb::condition::State::False => (Style::Bad, "False"),
        pb::condition::State::Unknown => (Style::Warn, "Unknown"),
    }
}

/// Renders the readiness by all conditions: `yes`, `no` with the false ones, or `waiting` with the unknown ones and for
/// controllers that have not seen the current generation. Empty without conditions.
pub(crate) fn readiness(resource: &pb::Resource) -> Cell {
    let (mut bad, mut unknown, mut count) = (BTreeSet::new(), BTreeSet::<&str>::new(), 0);
    for status in resource.status.values() {
        for condition in &status.conditions {
            count += 1;
            match condition.state() {
                pb::condition::State::False => bad.insert(condition.r#type.as_str()),
                _ if status.observed_generation != resource.generation => unknown.insert(condition.r#type.as_str()),
                pb::condition::State::Unknown => unknown.insert(condition.r#type.as_str()),
                pb::condition::State::True => false,
            };
        }
    }
    let with = |word: &str, of: BTreeSet<&str>| format!("{word}: {}", of.into_iter().collect::<Vec<_>>().join(","));
    match (bad.is_empty(), unknown.is_empty()) {
        (false, _) => Cell::styled(Style::Bad, with("no", bad)),
        (true, false) => Cell::styled(Style::Warn, with("waiting", unknown)),
        (true, true) if count > 0 => Cell::styled(Style::Good, "yes"),
        (true, true) => "".into(),
    }
}

/// Renders the owner and the resources that fields and owner references refer to, each once.
pub(crate) fn references(resource: &pb::Resource) -> String {
    let short = |kind: &str, name: &str| format!("{}/{name}", kind.to_lowercase());
    let kind = |id: &pb::Id| id.r#type.as_ref().map(|ty| ty.kind.clone()).unwrap_or_default();
    let owner = resource.owner.as_ref().map(|id| short(&kind(id), &id.name));
    let records = resource.references.iter().map(|record| short(&record.kind, &record.name));
    let mut all: Vec<String> = Vec::new();
    for reference in owner.into_iter().chain(records) {
        if !all.contains(&reference) {
            all.push(reference);
        }
    }
    all.join(",")
}

#[cfg(test)]
mod tests {
    use mortise_resource::{data::ReferenceRecord, pb::condition::State};

    use super::*;

    fn with(generation: &str, conditions: &[(&str, State)]) -> pb::Resource {
        let condition = |(kind, state): &(&str, State)| pb::Condition {
            r#type: (*kind).to_owned(),
            state: (*state).into(),
            ..pb::Condition::default()
        };
        let status = pb::Status {
            observed_generation: "1".into(),
            conditions: conditions.iter().map(condition).collect(),
            ..pb::Status::default()
        };
        let status = [("x".to_owned(), status)].into();
        pb::Resource { generation: generation.into(), status, ..pb::Resource::default() }
    }

    #[test]
    fn readiness_is_that_of_all_conditions_of_this_generation() {
        for (generation, conditions, text, style) in [
            ("1", &[][..], "", Style::Plain),
            ("1", &[("Up", State::True), ("Fit", State::True)], "yes", Style::Good),
            ("1", &[("Up", State::True), ("Fit", State::False), ("Far", State::Unknown)], "no: Fit", Style::Bad),
            ("1", &[("Up", State::Unknown), ("Fit", State::True)], "waiting: Up", Style::Warn),
            ("2", &[("Up", State::True)], "waiting: Up", Style::Warn),
            ("2", &[("Up", State::False)], "no: Up", Style::Bad),
        ] {
            let cell = readiness(&with(generation, conditions));
            assert_eq!((cell.text(), cell.style()), (text, style), "{conditions:?}");
        }
    }

    #[test]
    fn references_are_named_once_the_owner_first() {
        let ty = pb::Type { group: "demo".into(), group_version: "v2".into(), kind: "Artist".into() };
        let owner = pb::Id { name: "korn".into(), r#type: Some(ty), ..pb::Id::default() };
        let record =
            |kind: &str, name: &str| ReferenceRecord { kind: kind.into(), name: name.into(), ..Default::default() };
        let references_of = vec![record("Label", "epic"), record("Label", "epic"), record("Artist", "abba")];
        let resource = pb::Resource { owner: Some(owner), references: references_of, ..pb::Resource::default() };
        assert_eq!(references(&resource), "artist/korn,label/epic,artist/abba");
    }
}
