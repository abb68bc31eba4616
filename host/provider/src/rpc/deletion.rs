//! Deletions: the warnings of a plan about them, and the deletion itself with its wait.

use std::fmt::Write as _;

use mortise_resource::{
    data::{DeleteStep, PlanDeleteResponse, delete_step::Action},
    meta, pb,
    types::describe,
};
use tonic::Code;

use super::{
    apply_result::ApplyResult,
    diagnostic::{error, warning},
    session::{Server, Session},
    wait::{Change, PollDelays, limit},
};
use crate::{proto::tfplugin6::Diagnostic, schema::ResourceSchema, state::known_id, value::Value};

/// Most resources that a diagnostic names.
const MAX_NAMED: usize = 20;

/// Remedy of a deletion that a protected resource refuses.
const PROTECTION_REMEDY: &str = "`mortise protect --off TYPE NAME` allows the deletion.";

/// Warnings of a planned deletion: the resources that go or change with it, those that refuse it, and finalizers that
/// hold up an earlier deletion.
pub(crate) async fn warnings(
    schema: &ResourceSchema,
    server: &Server,
    prior: &Value,
) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let Some(found) = server.read(known_id(schema, prior)).await? else { return Ok(Vec::new()) };
    let mut warnings = Vec::new();
    // Controllers remove their finalizers after the mark; those of an unmarked resource are no obstacle yet.
    if meta::is_marked(&found.metadata) {
        warnings.push(being_deleted(&found));
    }
    let id = found.id.unwrap_or_default();
    match server.client.plan_delete(id.clone()).await {
        Ok(plan) => warnings.extend(effects(&id, &plan)),
        // A server of an earlier version.
        Err(status) if status.code() == Code::Unimplemented => {}
        Err(status) => {
            warnings.push(warning(format!("the effect on other resources is not known: {}", status.message())));
        }
    }
    Ok(warnings)
}

/// A warning that a resource is marked for deletion.
pub(super) fn being_deleted(marked: &pb::Resource) -> Diagnostic {
    let held =
        finalizers(marked).map(|held| format!("The deletion waits for finalizers: {held}. ")).unwrap_or_default();
    let detail = format!("{held}Until it is gone it cannot change; then a plan creates it again.");
    Diagnostic { detail, ..warning("the resource is being deleted") }
}

/// The finalizers of a resource, joined; `None` without any.
fn finalizers(of: &pb::Resource) -> Option<String> {
    let all = meta::finalizers(&of.metadata).into_iter().collect::<Vec<_>>().join(", ");
    (!all.is_empty()).then_some(all)
}

/// The explanation of a deletion that did not end in time.
fn not_yet_gone(marked: &pb::Resource) -> String {
    let waits = match finalizers(marked) {
        Some(held) => format!("goes when controllers have removed these finalizers: {held}"),
        None => "the server has yet to remove it".to_owned(),
    };
    format!(
        "It is marked for deletion, and {waits}. A longer `timeouts.delete` gives it more time; a destroy can be repeated."
    )
}

/// The effects of a deletion on other resources.
fn effects(id: &pb::Id, plan: &PlanDeleteResponse) -> Vec<Diagnostic> {
    let is_itself = |step: &DeleteStep| step.id.as_ref().is_some_and(|other| other.uid == id.uid);
    let of = |actions: &[Action], itself: bool| -> Vec<&DeleteStep> {
        plan.steps.iter().filter(|step| actions.contains(&step.action()) && (itself || !is_itself(step))).collect()
    };
    let mut found = Vec::new();
    let mut show = |summary: String, steps: &[&DeleteStep], remedy: &str| {
        let mut detail = String::new();
        for step in steps.iter().take(MAX_NAMED) {
            let named = step.id.as_ref().map_or_else(|| "a resource that you may not read".to_owned(), describe);
            let field = if step.field.is_empty() { String::new() } else { format!(": data.{}", step.field) };
            // Writes to memory do not fail.
            let _ = writeln!(detail, "{named}{field}{}", waits_for(step));
        }
        if steps.len() > MAX_NAMED {
            detail.push_str("and more\n");
        }
        if plan.is_cut {
            let _ = writeln!(detail, "and more: {}", plan.cut);
        }
        detail.push_str(remedy);
        found.push(Diagnostic { detail, ..warning(summary) });
    };
    let gone = of(&[Action::Delete, Action::Mark, Action::DeleteLater], false);
    if !gone.is_empty() {
        let count = gone.len();
        show(format!("the deletion of {:?} deletes {count} other {}", id.name, resources(count)), &gone, "");
    }
    let changed = of(&[Action::Unset, Action::UnsetLater, Action::ReleaseLater], false);
    if !changed.is_empty() {
        let count = changed.len();
        show(format!("the deletion of {:?} changes {count} other {}", id.name, resources(count)), &changed, "");
    }
    if plan.hidden > 0 {
        let hidden = usize::try_from(plan.hidden).unwrap_or(usize::MAX);
        let summary =
            format!("the deletion of {:?} affects {hidden} {} that the token may not read", id.name, resources(hidden));
        show(summary, &[], "They may go with it, change, or refuse it.");
    }
    // Controllers may free the resource itself in time.
    let waiting = of(&[Action::Hang], false);
    if !waiting.is_empty() {
        show(format!("the deletion of {:?} waits for something", id.name), &waiting, "");
    }
    let blocks = of(&[Action::Block], true);
    if plan.is_blocked {
        let is_protected = blocks.iter().any(|step| step.field.is_empty());
        let remedy = if is_protected { PROTECTION_REMEDY } else { "" };
        show(format!("the deletion of {:?} will be refused", id.name), &blocks, remedy);
    }
    if plan.is_cut && found.is_empty() {
        let summary = format!("the deletion of {:?} has more effects than its plan shows", id.name);
        found.push(Diagnostic { detail: format!("and more: {}", plan.cut), ..warning(summary) });
    }
    found
}

/// The obstacles of a resource whose deletion waits; empty for other steps.
fn waits_for(step: &DeleteStep) -> String {
    let held_by = step.held_by.iter().map(describe);
    let obstacles = step.finalizers.iter().map(|name| format!("finalizer {name}")).chain(held_by);
    let obstacles: Vec<_> = obstacles.chain((!step.reason.is_empty()).then(|| step.reason.clone())).collect();
    match step.action() {
        Action::Hang => format!(" waits: {}", obstacles.join(", ")),
        _ => String::new(),
    }
}

fn resources(count: usize) -> &'static str {
    if count == 1 { "resource" } else { "resources" }
}

/// Deletes the resource of a state, and waits until it is gone.
pub(super) async fn delete(schema: &ResourceSchema, session: &Session, server: &Server, prior: &Value) -> ApplyResult {
    let id = known_id(schema, prior);
    if let Err(status) = server.client.delete(id.clone()).await {
        let mut faults = server.faults("deleting", &status);
        if let (true, Some(fault)) = (status.message().contains("block_deletion"), faults.first_mut()) {
            PROTECTION_REMEDY.clone_into(&mut fault.detail);
        }
        return ApplyResult::refused(faults);
    }
    let mut delays = PollDelays::for_at_most(limit(prior, Change::Delete));
    loop {
        let found = match server.client.read(id.clone()).await {
            Ok(None) => return ApplyResult { state: Some(Value::Null), ..ApplyResult::default() },
            Ok(Some(found)) => found,
            Err(status) => return ApplyResult::refused(server.faults("deleting", &status)),
        };
        if !delays.next(session).await {
            return ApplyResult::refused(vec![error("the resource is not deleted yet", not_yet_gone(&found))]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> pb::Id {
        pb::Id { uid: format!("uid-{name}"), name: name.into(), ..pb::Id::default() }
    }

    fn step(action: Action, name: &str) -> DeleteStep {
        DeleteStep { action: action.into(), id: Some(id(name)), ..DeleteStep::default() }
    }

    #[test]
    fn a_plan_has_what_hangs_and_where_it_is_cut() {
        let [a, b, root] = ["a", "b", "root"].map(|name| describe(&id(name)));
        let hangs = DeleteStep {
            finalizers: vec!["one".into()],
            held_by: vec![id("b")],
            reason: "a reason".into(),
            ..step(Action::Hang, "a")
        };
        let itself = DeleteStep { held_by: vec![id("a")], ..step(Action::Hang, "root") };
        let steps = vec![step(Action::Mark, "root"), step(Action::DeleteLater, "b"), hangs, itself];
        let mut plan = PlanDeleteResponse { steps, ..PlanDeleteResponse::default() };
        let shown = |plan: &PlanDeleteResponse| -> Vec<(String, String)> {
            effects(&id("root"), plan).into_iter().map(|one| (one.summary, one.detail)).collect()
        };
        let pair = |summary: &str, detail: String| (summary.to_owned(), detail);
        let (deletes, waits) =
            ("the deletion of \"root\" deletes 1 other resource", "the deletion of \"root\" waits for something");
        let hangs = format!("{a} waits: finalizer one, {b}, a reason\n");
        assert_eq!(
            shown(&plan),
            [pair(deletes, format!("{b}\n")), pair(waits, hangs.clone())],
            "{root} may go in time"
        );
        (plan.is_cut, plan.cut) = (true, "the steps take more than 3 MiB".into());
        let more = "and more: the steps take more than 3 MiB\n";
        assert_eq!(shown(&plan), [pair(deletes, format!("{b}\n{more}")), pair(waits, format!("{hangs}{more}"))]);
        // Nothing is known of others, not even that nothing happens to them.
        plan.steps = vec![step(Action::Delete, "root")];
        let summary = "the deletion of \"root\" has more effects than its plan shows";
        assert_eq!(shown(&plan), [pair(summary, more.trim_end().to_owned())]);
        plan.is_cut = false;
        assert_eq!(shown(&plan), []);
    }

    #[test]
    fn a_deletion_that_lasts_names_finalizers_only_if_there_are_some() {
        let of = |finalizers: &[(&str, &str)]| pb::Resource {
            metadata: finalizers.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..pb::Resource::default()
        };
        let held = of(&[(meta::FINALIZERS, "one two")]);
        assert!(not_yet_gone(&held).contains("these finalizers: one, two. A longer"), "{}", not_yet_gone(&held));
        let free = of(&[]);
        for text in [not_yet_gone(&free), being_deleted(&free).detail] {
            assert!(!text.contains("finalizers"), "{text}");
        }
    }
}
