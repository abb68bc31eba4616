//! A core of Terraform from a provider's point of view: it speaks the protocol over a socket, and checks every answer
//! against core's rules.

mod actions;
mod check;
mod listing;
mod tls;

use std::{collections::BTreeMap, path::Path};

use mortise_provider::{
    proto::tfplugin6::{
        self as pb, ActionSchema, Diagnostic, DynamicValue, RawState, Schema, diagnostic::Severity,
        provider_client::ProviderClient,
    },
    value::{Type, Value, msgpack},
};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

pub use check::{check_applied, check_planned, check_same, proposed};
pub use listing::Listed;
pub use tls::{CORE_CERTIFICATE, OTHER_CERTIFICATE, connect_tls};

/// A connected core.
pub struct Core {
    pub client: ProviderClient<Channel>,
    pub schemas: BTreeMap<String, Schema>,
    pub data_sources: BTreeMap<String, Schema>,
    pub lists: BTreeMap<String, Schema>,
    pub actions: BTreeMap<String, ActionSchema>,
    pub provider: Schema,
}

/// An instance that core keeps.
#[derive(Debug, Clone)]
pub struct Instance {
    pub kind: String,
    pub state: Value,
    pub private: Vec<u8>,
}

/// A plan that passed core's rules.
#[derive(Debug, Clone)]
pub struct Planned {
    pub state: Value,
    pub private: Vec<u8>,
    pub replace: Vec<String>,
    pub warnings: Vec<Diagnostic>,
}

impl Planned {
    pub fn is_no_op(&self, prior: &Value) -> bool {
        self.replace.is_empty() && self.state == *prior
    }
}

pub type Faults = Vec<Diagnostic>;

/// The errors among diagnostics, or the value with its warnings if there are none.
fn or_faults<T>(value: T, diagnostics: Vec<Diagnostic>) -> Result<(T, Vec<Diagnostic>), Faults> {
    assert!(
        diagnostics.iter().all(|one| one.severity() != Severity::Invalid && !one.summary.is_empty()),
        "{diagnostics:?}"
    );
    assert!(diagnostics.iter().all(|one| !path_of(one).contains('"')), "a key of a map ends core: {diagnostics:?}");
    match diagnostics.iter().any(|one| one.severity() == Severity::Error) {
        true => Err(diagnostics),
        false => Ok((value, diagnostics)),
    }
}

/// A state as JSON of its file.
pub fn state_json(state: &Value) -> Vec<u8> {
    check::to_json(state).to_string().into_bytes()
}

pub fn encode(value: &Value) -> Option<DynamicValue> {
    Some(DynamicValue { msgpack: msgpack::encode(value), json: Vec::new() })
}

/// The path of a diagnostic, as text.
pub fn path_of(one: &Diagnostic) -> String {
    one.attribute.as_ref().map(path_text).unwrap_or_default()
}

fn path_text(path: &pb::AttributePath) -> String {
    use pb::attribute_path::step::Selector;
    let step = |step: &pb::attribute_path::Step| match step.selector.as_ref().unwrap() {
        Selector::AttributeName(name) => format!(".{name}"),
        Selector::ElementKeyString(key) => format!("[{key:?}]"),
        Selector::ElementKeyInt(index) => format!("[{index}]"),
    };
    path.steps.iter().map(step).collect::<String>().trim_start_matches('.').to_owned()
}

/// Connects to a socket in the clear.
pub async fn channel(socket: &Path) -> Channel {
    let socket = socket.to_owned();
    let connect = tower::service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(hyper_util::rt::TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector(connect).await.unwrap()
}

impl Core {
    /// Requests the schemas, and checks them against core's rules.
    pub async fn of(channel: Channel) -> Result<Self, Faults> {
        let mut client =
            ProviderClient::new(channel).max_decoding_message_size(1 << 30).max_encoding_message_size(1 << 30);
        let answer = client.get_provider_schema(pb::get_provider_schema::Request {}).await.unwrap().into_inner();
        let (answer, _) = or_faults(answer.clone(), answer.diagnostics)?;
        let capabilities = answer.server_capabilities.unwrap();
        assert!(capabilities.plan_destroy && capabilities.get_provider_schema_optional);
        let provider = answer.provider.unwrap();
        for (name, schema) in answer
            .resource_schemas
            .iter()
            .chain(&answer.data_source_schemas)
            .chain(&answer.list_resource_schemas)
            .chain([(&"provider".to_owned(), &provider)])
        {
            check::check_schema(name, schema);
        }
        let (schemas, data_sources) = (answer.resource_schemas, answer.data_source_schemas);
        let (lists, actions) = (answer.list_resource_schemas, answer.action_schemas);
        for (name, action) in &actions {
            check::check_schema(name, action.schema.as_ref().expect("a schema"));
        }
        Ok(Self { client, schemas, data_sources, lists, actions, provider })
    }

    pub async fn attach(socket: &Path) -> Self {
        Self::of(channel(socket).await).await.unwrap()
    }

    pub fn type_of(&self, kind: &str) -> Type {
        check::type_of(self.schemas[kind].block.as_ref().unwrap())
    }

    pub fn data_source_type(&self, kind: &str) -> Type {
        check::type_of(self.data_sources[kind].block.as_ref().unwrap())
    }

    pub fn decode(&self, kind: &str, value: Option<&DynamicValue>) -> Value {
        let value = value.expect("a value");
        msgpack::decode(&value.msgpack, &self.type_of(kind)).unwrap()
    }

    /// A configuration with these attributes; the others are null. `data` is filled up in the same way.
    pub fn config(&self, kind: &str, name: &str, data: &[(&str, Value)]) -> Value {
        let Type::Object(of) = self.type_of(kind) else { panic!("no object") };
        let nulls =
            |of: &BTreeMap<String, Type>| of.keys().map(|name| (name.clone(), Value::Null)).collect::<BTreeMap<_, _>>();
        let mut all = nulls(&of);
        all.insert("name".into(), Value::String(name.into()));
        let Type::Object(fields) = &of["data"] else { panic!("no block") };
        let mut block = nulls(fields);
        for (name, value) in data {
            assert!(block.insert((*name).into(), value.clone()).is_some(), "{name}");
        }
        all.insert("data".into(), Value::Map(block));
        Value::Map(all)
    }

    pub async fn configure(&mut self, settings: &[(&str, &str)]) -> Result<(), Faults> {
        let settings: Vec<_> = settings.iter().map(|(name, text)| (*name, Value::String((*text).into()))).collect();
        self.configure_with(&settings).await
    }

    pub async fn configure_with(&mut self, settings: &[(&str, Value)]) -> Result<(), Faults> {
        let config = self.validate_provider(settings).await?;
        let request = pb::configure_provider::Request { terraform_version: "1.11.4".into(), config };
        let answer = self.client.configure_provider(request).await.unwrap().into_inner();
        or_faults((), answer.diagnostics).map(drop)
    }

    /// Checks settings of the provider, without the server; returns their configuration.
    pub async fn validate_provider(&mut self, settings: &[(&str, Value)]) -> Result<Option<DynamicValue>, Faults> {
        let Type::Object(of) = check::type_of(self.provider.block.as_ref().unwrap()) else { panic!("no object") };
        let value = |name: &String| {
            let given = settings.iter().find(|(known, _)| known == name);
            (name.clone(), given.map_or(Value::Null, |(_, value)| value.clone()))
        };
        let config = encode(&Value::Map(of.keys().map(value).collect()));
        let request = pb::validate_provider_config::Request { config: config.clone() };
        let answer = self.client.validate_provider_config(request).await.unwrap().into_inner();
        or_faults((), answer.diagnostics).map(|_| config)
    }

    pub async fn validate(&mut self, kind: &str, config: &Value) -> Result<(), Faults> {
        self.validate_as(kind, config, true).await
    }

    /// Checks a configuration; `takes_write_only` is false for a core before 1.11.
    pub async fn validate_as(&mut self, kind: &str, config: &Value, takes_write_only: bool) -> Result<(), Faults> {
        let capabilities =
            pb::ClientCapabilities { write_only_attributes_allowed: takes_write_only, ..Default::default() };
        let request = pb::validate_resource_config::Request {
            type_name: kind.into(),
            config: encode(config),
            client_capabilities: takes_write_only.then_some(capabilities),
        };
        let answer = self.client.validate_resource_config(request).await.unwrap().into_inner();
        or_faults((), answer.diagnostics).map(drop)
    }

    /// Plans a creation or an update.
    pub async fn plan(&mut self, kind: &str, prior: Option<&Instance>, config: &Value) -> Result<Planned, Faults> {
        self.validate(kind, config).await?;
        let block = self.schemas[kind].block.clone().unwrap();
        let before = prior.map_or(Value::Null, |prior| prior.state.clone());
        let request = pb::plan_resource_change::Request {
            type_name: kind.into(),
            prior_state: encode(&before),
            proposed_new_state: encode(&proposed(&block, &before, config)),
            config: encode(config),
            prior_private: prior.map(|prior| prior.private.clone()).unwrap_or_default(),
            ..Default::default()
        };
        let answer = self.client.plan_resource_change(request).await.unwrap().into_inner();
        let (answer, warnings) = or_faults(answer.clone(), answer.diagnostics)?;
        assert!(!answer.legacy_type_system);
        let state = self.decode(kind, answer.planned_state.as_ref());
        check_planned(&block, &before, config, &state);
        let replace = match prior {
            Some(_) => answer.requires_replace.iter().map(path_text).collect(),
            None => Vec::new(),
        };
        Ok(Planned { state, private: answer.planned_private, replace, warnings })
    }

    /// Applies a plan. After a fault the error includes the resulting state.
    pub async fn apply(
        &mut self,
        kind: &str,
        prior: Option<&Instance>,
        config: &Value,
        planned: &Planned,
    ) -> Result<Instance, (Faults, Value)> {
        let before = prior.map_or(Value::Null, |prior| prior.state.clone());
        let request = pb::apply_resource_change::Request {
            type_name: kind.into(),
            prior_state: encode(&before),
            planned_state: encode(&planned.state),
            config: encode(config),
            planned_private: planned.private.clone(),
            ..Default::default()
        };
        let answer = self.client.apply_resource_change(request).await.unwrap().into_inner();
        assert!(!answer.legacy_type_system);
        let state = self.decode(kind, answer.new_state.as_ref());
        assert!(state.is_wholly_known(), "{state:?}");
        match or_faults((), answer.diagnostics) {
            Ok(_) => {
                assert!(!state.is_null(), "the object is gone");
                check_applied(&planned.state, &state);
                Ok(Instance { kind: kind.into(), state, private: answer.private })
            }
            Err(faults) => Err((faults, state)),
        }
    }

    /// Creates or updates: a plan, a second plan as core makes it, and the application; then a plan must change
    /// nothing.
    pub async fn make(&mut self, kind: &str, prior: Option<&Instance>, config: &Value) -> Result<Instance, Faults> {
        let first = self.plan(kind, prior, config).await?;
        let second = self.plan(kind, prior, config).await?;
        check_same(&first.state, &second.state);
        let made = self.apply(kind, prior, config, &second).await.map_err(|(faults, _)| faults)?;
        let made = self.refresh(&made).await.unwrap().expect("it is there");
        let again = self.plan(kind, Some(&made), config).await?;
        assert!(again.is_no_op(&made.state), "not settled:\n{:?}\n{:?}", made.state, again.state);
        Ok(made)
    }

    /// Updates a state as each command does first: an upgrade, and a read. `None` for a deleted resource.
    pub async fn refresh(&mut self, of: &Instance) -> Result<Option<Instance>, Faults> {
        self.refresh_with_warnings(of).await.map(|(found, _)| found)
    }

    /// Updates a state; returns the warnings, too.
    pub async fn refresh_with_warnings(&mut self, of: &Instance) -> Result<(Option<Instance>, Faults), Faults> {
        let raw = RawState { json: state_json(&of.state), ..RawState::default() };
        let version = self.schemas[&of.kind].version;
        let upgraded = self.upgrade(&of.kind, version, raw).await?;
        assert_eq!(upgraded, of.state, "an upgrade to the same version changes nothing");
        let request = pb::read_resource::Request {
            type_name: of.kind.clone(),
            current_state: encode(&upgraded),
            private: of.private.clone(),
            ..Default::default()
        };
        let answer = self.client.read_resource(request).await.unwrap().into_inner();
        let (answer, warnings) = or_faults(answer.clone(), answer.diagnostics)?;
        let state = self.decode(&of.kind, answer.new_state.as_ref());
        assert!(state.is_wholly_known());
        assert_eq!(answer.private, of.private, "what is not returned is lost");
        let found = (!state.is_null()).then(|| Instance { kind: of.kind.clone(), state, private: answer.private });
        Ok((found, warnings))
    }

    pub async fn upgrade(&mut self, kind: &str, version: i64, raw: RawState) -> Result<Value, Faults> {
        let request = pb::upgrade_resource_state::Request { type_name: kind.into(), version, raw_state: Some(raw) };
        let answer = self.client.upgrade_resource_state(request).await.unwrap().into_inner();
        let (answer, _) = or_faults(answer.clone(), answer.diagnostics)?;
        let state = self.decode(kind, answer.upgraded_state.as_ref());
        assert!(!state.is_null(), "the object is lost");
        Ok(state)
    }

    /// Imports by an id, and reads.
    pub async fn import(&mut self, kind: &str, id: &str) -> Result<Instance, Faults> {
        let request =
            pb::import_resource_state::Request { type_name: kind.into(), id: id.into(), ..Default::default() };
        let answer = self.client.import_resource_state(request).await.unwrap().into_inner();
        let (answer, _) = or_faults(answer.clone(), answer.diagnostics)?;
        let [imported] = answer.imported_resources.as_slice() else { panic!("{answer:?}") };
        assert_eq!(imported.type_name, kind);
        let state = self.decode(kind, imported.state.as_ref());
        let imported = Instance { kind: kind.into(), state, private: imported.private.clone() };
        self.refresh(&imported).await.map(|found| found.expect("it is there"))
    }

    /// Plans a deletion; returns the warnings, and the private bytes.
    pub async fn plan_destroy(&mut self, of: &Instance) -> Result<(Vec<Diagnostic>, Vec<u8>), Faults> {
        let request = pb::plan_resource_change::Request {
            type_name: of.kind.clone(),
            prior_state: encode(&of.state),
            proposed_new_state: encode(&Value::Null),
            config: encode(&Value::Null),
            prior_private: of.private.clone(),
            ..Default::default()
        };
        let answer = self.client.plan_resource_change(request).await.unwrap().into_inner();
        let (answer, warnings) = or_faults(answer.clone(), answer.diagnostics)?;
        assert!(self.decode(&of.kind, answer.planned_state.as_ref()).is_null());
        Ok((warnings, answer.planned_private))
    }

    /// Plans a deletion, and applies it. Faults come with the remaining state.
    pub async fn destroy(&mut self, of: &Instance) -> Result<(), (Faults, Value)> {
        let planned = self.plan_destroy(of).await;
        let (_, planned_private) = planned.map_err(|faults| (faults, of.state.clone()))?;
        let request = pb::apply_resource_change::Request {
            type_name: of.kind.clone(),
            prior_state: encode(&of.state),
            planned_state: encode(&Value::Null),
            config: encode(&Value::Null),
            planned_private,
            ..Default::default()
        };
        let answer = self.client.apply_resource_change(request).await.unwrap().into_inner();
        let state = self.decode(&of.kind, answer.new_state.as_ref());
        match or_faults((), answer.diagnostics) {
            Ok(_) => {
                assert!(state.is_null());
                Ok(())
            }
            Err(faults) => Err((faults, state)),
        }
    }

    fn data_config(&self, kind: &str, config: &[(&str, Value)]) -> Option<DynamicValue> {
        let Type::Object(names) = self.data_source_type(kind) else { panic!("no object") };
        let value = |name: &String| {
            let given = config.iter().find(|(known, _)| known == name);
            (name.clone(), given.map_or(Value::Null, |(_, value)| value.clone()))
        };
        encode(&Value::Map(names.keys().map(value).collect()))
    }

    /// Checks the configuration of a data source.
    pub async fn validate_data(&mut self, kind: &str, config: &[(&str, Value)]) -> Result<(), Faults> {
        let config = self.data_config(kind, config);
        let request = pb::validate_data_resource_config::Request { type_name: kind.into(), config };
        let answer = self.client.validate_data_resource_config(request).await.unwrap().into_inner();
        or_faults((), answer.diagnostics).map(drop)
    }

    /// Reads a data source.
    pub async fn data(&mut self, kind: &str, config: &[(&str, Value)]) -> Result<Value, Faults> {
        self.validate_data(kind, config).await?;
        let (of, config) = (self.data_source_type(kind), self.data_config(kind, config));
        let request = pb::read_data_source::Request { type_name: kind.into(), config, provider_meta: None };
        let answer = self.client.read_data_source(request).await.unwrap().into_inner();
        let (answer, _) = or_faults(answer.clone(), answer.diagnostics)?;
        let state = msgpack::decode(&answer.state.unwrap().msgpack, &of).unwrap();
        assert!(state.is_wholly_known());
        Ok(state)
    }
}
