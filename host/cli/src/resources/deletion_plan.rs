//! All effects of a deletion, as text.

use mortise_resource::{
    data::{DeleteStep, PlanDeleteRequest, PlanDeleteResponse, delete_step::Action},
    meta, pb,
};

use super::ids::{id_of, placed_title};
use crate::{CliError, Session};

/// Describes the effects of a deletion: on the resource, and in further lines on others. `done` says what would be done
/// to the resource.
pub(crate) async fn described(session: &Session, id: &pb::Id, done: &str) -> Result<String, CliError> {
    let request = PlanDeleteRequest { id: Some(id.clone()) };
    let call = async { session.ownership().plan_delete(request).await };
    let plan = session.call(placed_title(id), call).await?;
    Ok(text_of(&plan, id, done))
}

/// Describes the finalizers and resources for which a resource waits that is being deleted, and in further lines those
/// for which these wait. Without an answer of the server, the finalizers of the resource alone.
pub(crate) async fn held(session: &Session, going: &pb::Resource) -> String {
    let id = id_of(going);
    let request = PlanDeleteRequest { id: Some(id.clone()) };
    let call = async { session.ownership().plan_delete(request).await };
    let plan = session.call(placed_title(&id), call).await.unwrap_or_default();
    held_text(&plan, going)
}

fn held_text(plan: &PlanDeleteResponse, going: &pb::Resource) -> String {
    let uid = id_of(going).uid;
    let hangs = plan.steps.iter().filter(|step| step.action() == Action::Hang);
    let (own, others): (Vec<_>, Vec<_>) = hangs.partition(|step| step.id.as_ref().is_some_and(|id| id.uid == uid));
    let reasons: Vec<_> = own.into_iter().flat_map(reasons).collect();
    let mut text = match reasons.is_empty() {
        false => reasons.join("; "),
        true => {
            let finalizers: Vec<_> = meta::finalizers(&going.metadata).into_iter().collect();
            format!("waits for the finalizers {}", finalizers.join(" "))
        }
    };
    for step in others {
        text.push_str(&format!("\n  {} {}", step.id.as_ref().map(placed_title).unwrap_or_default(), line(step)));
    }
    text
}

fn text_of(plan: &PlanDeleteResponse, id: &pb::Id, done: &str) -> String {
    let mut text = if plan.is_blocked { format!("would not be {done} (dry run)") } else { format!("{done} (dry run)") };
    let is_itself = |step: &&DeleteStep| step.id.as_ref().is_some_and(|step_id| step_id.uid == id.uid);
    let says_more = |step: &&DeleteStep| matches!(step.action(), Action::Block | Action::Hang);
    for step in plan.steps.iter().filter(|step| !is_itself(step) || says_more(step)) {
        let name = step.id.as_ref().map(placed_title).unwrap_or_default();
        text.push_str(&format!("\n  {name} {}", line(step)));
    }
    if plan.is_cut {
        text.push_str(&format!("\n  and more: {}", plan.cut));
    }
    if plan.hidden > 0 {
        text.push_str(&format!("\n  and {} resources that you may not read", plan.hidden));
    }
    text
}

fn line(step: &DeleteStep) -> String {
    let action = match step.action() {
        Action::Delete => "deleted, too",
        Action::Mark => "marked for deletion",
        Action::Unset => "changed",
        Action::Block => "blocks",
        Action::DeleteLater => "deleted afterwards",
        Action::UnsetLater => "changed afterwards",
        Action::ReleaseLater => "loses an owner afterwards",
        Action::Hang => "hangs",
        Action::Unspecified => "unknown",
    };
    let reasons = reasons(step);
    if reasons.is_empty() { action.to_owned() } else { format!("{action}: {}", reasons.join("; ")) }
}

fn reasons(step: &DeleteStep) -> Vec<String> {
    let because = step.because.as_ref().map(placed_title).unwrap_or_default();
    let mut why = Vec::new();
    match (step.action(), step.field.as_str(), because.as_str()) {
        (Action::Block, "", "") => why.push("meta.lifecycle.block_deletion".to_owned()),
        (_, "", "") => {}
        (_, "", owner) => why.push(format!("owner {owner}")),
        (_, field, "") => why.push(format!("data.{field}")),
        (_, field, target) => why.push(format!("data.{field} refers to {target}")),
    }
    if !step.finalizers.is_empty() {
        why.push(format!("waits for the finalizers {}", step.finalizers.join(" ")));
    }
    if !step.held_by.is_empty() {
        let names: Vec<_> = step.held_by.iter().map(placed_title).collect();
        why.push(format!("waits for {}", names.join(", ")));
    }
    if !step.reason.is_empty() {
        why.push(step.reason.clone());
    }
    why
}

#[cfg(test)]
mod tests {
    use mortise_resource::{tenancy, types::Gvk};

    use super::*;

    fn id(name: &str) -> pb::Id {
        let tenancy = pb::Tenancy { partition: tenancy::DEFAULT.into(), namespace: tenancy::DEFAULT.into() };
        let kind = Gvk::new("graph", "v1", "Node").to_pb();
        pb::Id { uid: format!("uid-{name}"), name: name.into(), r#type: Some(kind), tenancy: Some(tenancy) }
    }

    fn step(action: Action, name: &str) -> DeleteStep {
        DeleteStep { action: action.into(), id: Some(id(name)), ..DeleteStep::default() }
    }

    #[test]
    fn what_is_being_deleted_says_what_it_waits_for() {
        let namespace = pb::Resource { id: Some(id("blue")), ..pb::Resource::default() };
        let own = DeleteStep { held_by: vec![id("a")], ..step(Action::Hang, "blue") };
        let other = DeleteStep { finalizers: vec!["one".into()], ..step(Action::Hang, "a") };
        let later = step(Action::DeleteLater, "b");
        let plan = PlanDeleteResponse { steps: vec![later, own, other], ..PlanDeleteResponse::default() };
        let a = placed_title(&id("a"));
        assert_eq!(held_text(&plan, &namespace), format!("waits for {a}\n  {a} hangs: waits for the finalizers one"));
        let none = PlanDeleteResponse::default();
        let metadata = [("finalizers".to_owned(), "one two".to_owned())].into();
        let held = pb::Resource { metadata, ..namespace };
        assert_eq!(held_text(&none, &held), "waits for the finalizers one two");
    }

    #[test]
    fn a_plan_has_what_hangs_and_where_it_is_cut() {
        let root = id("root");
        let hangs = DeleteStep {
            finalizers: vec!["one".into(), "two".into()],
            held_by: vec![id("b"), id("c")],
            reason: "a reason".into(),
            because: Some(root.clone()),
            ..step(Action::Hang, "a")
        };
        let itself = DeleteStep { held_by: vec![id("a")], ..step(Action::Hang, "root") };
        let mut plan = PlanDeleteResponse {
            steps: vec![step(Action::Mark, "root"), step(Action::DeleteLater, "b"), hangs, itself],
            ..PlanDeleteResponse::default()
        };
        let [a, b, c, r] = ["a", "b", "c", "root"].map(|name| placed_title(&id(name)));
        let whole = format!(
            "deleted (dry run)\n  {b} deleted afterwards\n  {a} hangs: owner {r}; waits for the finalizers one two; waits \
             for {b}, {c}; a reason\n  {r} hangs: waits for {a}"
        );
        assert_eq!(text_of(&plan, &root, "deleted"), whole);
        (plan.is_cut, plan.cut, plan.hidden) = (true, "the steps take more than 3 MiB".into(), 2);
        let cut =
            format!("{whole}\n  and more: the steps take more than 3 MiB\n  and 2 resources that you may not read");
        assert_eq!(text_of(&plan, &root, "deleted"), cut);
        plan.is_blocked = true;
        assert!(text_of(&plan, &root, "deleted").starts_with("would not be deleted (dry run)\n"));
    }
}
