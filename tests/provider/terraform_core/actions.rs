//! Actions, as core of version 1.14 and later plans and invokes them.

use mortise_provider::{
    proto::tfplugin6::{self as pb, DynamicValue, invoke_action::event::Type as Step},
    value::{Type, Value},
};

use super::{Core, Faults, check, encode, or_faults};

impl Core {
    fn action_config(&self, action: &str, given: &[(&str, Value)]) -> Option<DynamicValue> {
        let schema = self.actions[action].schema.as_ref().unwrap();
        let Type::Object(parts) = check::type_of(schema.block.as_ref().unwrap()) else { panic!("no object") };
        assert!(given.iter().all(|(name, _)| parts.contains_key(*name)), "{given:?}");
        let value = |name: &String| {
            let found = given.iter().find(|(known, _)| known == name);
            (name.clone(), found.map_or(Value::Null, |(_, value)| value.clone()))
        };
        encode(&Value::Map(parts.keys().map(value).collect()))
    }

    /// Checks an action, and plans it.
    pub async fn plan_action(&mut self, action: &str, given: &[(&str, Value)]) -> Result<(), Faults> {
        let config = self.action_config(action, given);
        let request = pb::validate_action_config::Request { type_name: action.into(), config: config.clone() };
        let answer = self.client.validate_action_config(request).await.unwrap().into_inner();
        or_faults((), answer.diagnostics)?;
        let request = pb::plan_action::Request { action_type: action.into(), config, ..Default::default() };
        let answer = self.client.plan_action(request).await.unwrap().into_inner();
        or_faults((), answer.diagnostics).map(drop)
    }

    /// Invokes an action; returns its steps. The end comes once, and last.
    pub async fn invoke(&mut self, action: &str, given: &[(&str, Value)]) -> Result<Vec<String>, Faults> {
        let config = self.action_config(action, given);
        let request = pb::invoke_action::Request { action_type: action.into(), config, ..Default::default() };
        let mut events = self.client.invoke_action(request).await.unwrap().into_inner();
        let (mut steps, mut end) = (Vec::new(), None);
        while let Some(event) = events.message().await.unwrap() {
            assert!(end.is_none(), "an event after the end: {event:?}");
            match event.r#type.expect("an event without a type ends core") {
                Step::Progress(progress) => steps.push(progress.message),
                Step::Completed(completed) => end = Some(completed.diagnostics),
            }
        }
        or_faults(steps, end.expect("an end")).map(|(steps, _)| steps)
    }
}
