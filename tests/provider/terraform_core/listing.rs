//! Lists of existing resources, as core of version 1.14 and later asks for them.

use std::collections::BTreeMap;

use mortise_provider::{
    proto::tfplugin6::{self as pb, Diagnostic, DynamicValue, diagnostic::Severity},
    value::{Type, Value, msgpack},
};

use super::{Core, Faults, check, encode, or_faults};

/// A resource that a list found.
#[derive(Debug)]
pub struct Listed {
    pub identity: Value,
    pub name: String,
    /// The whole resource, if the list was asked for it.
    pub state: Option<Value>,
    pub warnings: Vec<Diagnostic>,
}

impl Core {
    fn condition(&self, kind: &str, given: &[(&str, Value)]) -> Option<DynamicValue> {
        let Type::Object(parts) = check::type_of(self.lists[kind].block.as_ref().unwrap()) else { panic!("no object") };
        assert!(given.iter().all(|(name, _)| parts.contains_key(*name)), "{given:?}");
        let value = |name: &String| {
            let found = given.iter().find(|(known, _)| known == name);
            (name.clone(), found.map_or(Value::Null, |(_, value)| value.clone()))
        };
        encode(&Value::Map(parts.keys().map(value).collect()))
    }

    /// Checks the condition of a list.
    pub async fn validate_list(&mut self, kind: &str, given: &[(&str, Value)]) -> Result<(), Faults> {
        let config = self.condition(kind, given);
        let request =
            pb::validate_list_resource_config::Request { type_name: kind.into(), config, ..Default::default() };
        let answer = self.client.validate_list_resource_config(request).await.unwrap().into_inner();
        or_faults((), answer.diagnostics).map(drop)
    }

    /// Lists, and checks that no more resources come than the limit. Without a condition the block `config` is left out.
    pub async fn list(
        &mut self,
        kind: &str,
        given: Option<&[(&str, Value)]>,
        is_whole: bool,
        limit: i64,
    ) -> Result<Vec<Listed>, Faults> {
        let identities = pb::get_resource_identity_schemas::Request {};
        let identities = self.client.get_resource_identity_schemas(identities).await.unwrap().into_inner();
        let parts = identities.identity_schemas[kind].identity_attributes.iter();
        let identity_type = Type::Object(parts.map(|one| (one.name.clone(), Type::String)).collect::<BTreeMap<_, _>>());
        let config = given.map_or_else(|| encode(&Value::Null), |given| self.condition(kind, given));
        let request =
            pb::list_resource::Request { type_name: kind.into(), config, include_resource_object: is_whole, limit };
        let mut events = self.client.list_resource(request).await.unwrap().into_inner();
        let mut found = Vec::new();
        while let Some(event) = events.message().await.unwrap() {
            let has_warning = event.diagnostic.iter().any(|one| one.severity() == Severity::Warning);
            let (event, warnings) = or_faults(event.clone(), event.diagnostic)?;
            let Some(identity) = event.identity.and_then(|identity| identity.identity_data) else {
                assert!(has_warning, "core refuses an event without an identity");
                continue;
            };
            let identity = msgpack::decode(&identity.msgpack, &identity_type).unwrap();
            let whole = event.resource_object.map(|whole| self.decode(kind, Some(&whole)));
            assert!(identity.is_wholly_known() && whole.iter().all(Value::is_wholly_known));
            found.push(Listed { identity, name: event.display_name, state: whole, warnings });
            assert!(found.len() <= usize::try_from(limit).unwrap(), "core wants {limit}");
        }
        Ok(found)
    }
}
