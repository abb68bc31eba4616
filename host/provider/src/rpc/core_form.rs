//! Plans and applies of values that are only written: translates between core's form, which has no such value, and the
//! provider's own (`state::write_only`).

use super::{
    apply::apply,
    apply_result::ApplyResult,
    plan::{Before, Plan, plan},
    session::{Server, Session},
};
use crate::{
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    state::{Private, hidden, revealed_config, revealed_plan, revealed_prior, shown_path, without_hidden},
    value::Value,
};

/// Plans a creation or an update.
pub(super) async fn plan_change(
    schema: &ResourceSchema,
    session: &Session,
    server: &Server,
    before: Before<'_>,
    config: &Value,
) -> Result<Plan, Vec<Diagnostic>> {
    let prior = revealed_prior(schema, before.state, config);
    let before = Before { state: &prior, ..before };
    let revealed = revealed_config(schema, config);
    let plan = plan(schema, server, before, &revealed).await?;
    if let Some(recent) = plan.recent() {
        session.recent_plans.add(before.origin(schema, &revealed), recent);
    }
    Ok(Plan {
        state: hidden(schema, &plan.state, config),
        replace: plan.replace.into_iter().map(|path| shown_path(schema, path, config)).collect(),
        divergences: without_hidden(schema, plan.divergences, config),
        ..plan
    })
}

/// A planned change; values are null where core has none.
pub(super) struct Change<'a> {
    pub(super) prior: &'a Value,
    pub(super) planned: &'a Value,
    pub(super) config: &'a Value,
}

/// Result of an apply: the state that exists now with its private bytes, if it is another one than before.
pub(super) struct Applied {
    pub(super) made: Option<(Value, Vec<u8>)>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Applies a planned change.
pub(super) async fn apply_change(
    schema: &ResourceSchema,
    session: &Session,
    server: &Server,
    Change { prior, planned, config }: Change<'_>,
    private: &[u8],
) -> Applied {
    let before = revealed_prior(schema, prior, config);
    let revealed = revealed_plan(schema, planned, config);
    let given = revealed_config(schema, config);
    let applied = apply(schema, session, server, &before, &revealed, &given, private).await;
    let ApplyResult { state, divergences, diagnostics } = applied;
    let private = Private::write(&without_hidden(schema, divergences, planned), None);
    Applied { made: state.map(|state| (hidden(schema, &state, planned), private)), diagnostics }
}
