//! A connection of core: its configuration, the server of that configuration, and the server's types.
//!
//! Core opens a new connection for each phase of a command, and several cores may be connected to one process; so the
//! state of a run belongs to its connection. Each connection asks for the types once; connections with the same answer
//! share one schema ([`SchemaCache`]). Within a server's own process they ask again only after a change of the types.

use std::{
    borrow::Cow,
    collections::HashSet,
    sync::{
        Arc, Mutex as SharedMutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use mortise_resource::pb;
use tokio::sync::{Mutex, OnceCell};
use tonic::Status;

use super::{
    diagnostic::{error, server_faults},
    recent_plans::RecentPlans,
};
use crate::{
    client::{ConnectError, ConnectionSettings, Connector, ResourceClient},
    proto::tfplugin6::Diagnostic,
    schema::{FunctionSet, ProviderSchema, ResourceSchema, SchemaCache, Snapshot},
    state::{Defaults, has_unplaced_owner},
    value::Value,
};

/// A connection.
pub struct Session {
    connector: Arc<dyn Connector>,
    prefix: String,
    /// The schemas of all connections of the process.
    schemas: Arc<SchemaCache>,
    configured: Mutex<Option<Arc<Server>>>,
    /// The server of the environment, for calls before a configuration.
    unconfigured: OnceCell<Arc<Server>>,
    stopped: AtomicBool,
    /// The uids of the resources in core's states.
    managed: SharedMutex<HashSet<String>>,
    /// The plans that core made a moment ago.
    pub(super) recent_plans: RecentPlans,
    /// Answer to every call of a connection that is one too many.
    refusal: Option<Diagnostic>,
}

/// Most uids that a connection remembers; core's states of one configuration are far smaller.
const MAX_MANAGED_UIDS: usize = 1_000_000;

/// A server, and the default tenancy units of its resources.
pub(crate) struct Server {
    pub(crate) client: Arc<dyn ResourceClient>,
    pub(crate) defaults: Defaults,
    schema: OnceCell<Arc<ProviderSchema>>,
    functions: OnceCell<Arc<FunctionSet>>,
    own_place: OnceCell<pb::Tenancy>,
}

impl Server {
    pub(crate) fn new(client: Arc<dyn ResourceClient>, defaults: Defaults) -> Arc<Self> {
        let (schema, functions, own_place) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Arc::new(Self { client, defaults, schema, functions, own_place })
    }

    /// Reads a resource; `None` if no resource has this id and uid.
    pub(crate) async fn read(&self, id: pb::Id) -> Result<Option<pb::Resource>, Vec<Diagnostic>> {
        self.client.read(id).await.map_err(|status| self.faults("reading", &status))
    }

    /// The faults of a call, at the places that the server names.
    pub(crate) fn faults(&self, doing: &str, status: &Status) -> Vec<Diagnostic> {
        server_faults(doing, self.client.address(), status)
    }

    /// The defaults for the request of a configuration: with the token's own place if the owner depends on it.
    pub(crate) async fn defaults_for(
        &self,
        schema: &ResourceSchema,
        config: &Value,
    ) -> Result<Cow<'_, Defaults>, Vec<Diagnostic>> {
        if !has_unplaced_owner(schema, config, &self.defaults) {
            return Ok(Cow::Borrowed(&self.defaults));
        }
        let ask =
            || async { self.client.own_place().await.map_err(|status| self.faults("asking for the place", &status)) };
        let own = self.own_place.get_or_try_init(ask).await?;
        Ok(Cow::Owned(self.defaults.or_own(config, own)))
    }

    /// The types; fetched once, and not at all while those that the process knows are the server's.
    pub(crate) async fn schema(
        &self,
        connector: &dyn Connector,
        prefix: &str,
        known: &SchemaCache,
    ) -> Result<Arc<ProviderSchema>, Vec<Diagnostic>> {
        let ask = || async {
            let version = connector.types_version();
            if let Some(schema) = version.and_then(|version| known.of_version(version, prefix)) {
                return Ok(schema);
            }
            let types = self.client.types().await.map_err(|status| self.faults("asking for types", &status))?;
            // Types that changed during the calls are of no version.
            let version = version.filter(|version| connector.types_version() == Some(*version));
            Ok(known.schema(types, version, prefix))
        };
        self.schema.get_or_try_init(ask).await.cloned()
    }

    /// The functions of its plugins; fetched once.
    pub(crate) async fn functions(&self) -> Result<Arc<FunctionSet>, Vec<Diagnostic>> {
        let ask = || async {
            let functions = self.client.functions().await;
            let functions = functions.map_err(|status| self.faults("asking for functions", &status))?;
            Ok(Arc::new(FunctionSet::of(&functions)))
        };
        self.functions.get_or_try_init(ask).await.cloned()
    }
}

impl Session {
    /// A new connection. Names of resources begin with `prefix`.
    #[must_use]
    pub fn new(connector: Arc<dyn Connector>, prefix: &str, schemas: Arc<SchemaCache>) -> Self {
        Self {
            connector,
            prefix: prefix.to_owned(),
            schemas,
            configured: Mutex::new(None),
            unconfigured: OnceCell::new(),
            stopped: AtomicBool::new(false),
            managed: SharedMutex::default(),
            recent_plans: RecentPlans::default(),
            refusal: None,
        }
    }

    /// A new connection that only answers with an error.
    #[must_use]
    pub fn refused(connector: Arc<dyn Connector>, prefix: &str, summary: &str, detail: &str) -> Self {
        Self { refusal: Some(error(summary, detail)), ..Self::new(connector, prefix, Arc::default()) }
    }

    fn check_accepted(&self) -> Result<(), Vec<Diagnostic>> {
        self.refusal.as_ref().map_or(Ok(()), |refusal| Err(vec![refusal.clone()]))
    }

    /// Remembers that a state of core has the resource with this uid.
    pub(crate) fn add_managed(&self, uid: &str) {
        let mut managed = self.managed.lock().unwrap_or_else(PoisonError::into_inner);
        if managed.len() < MAX_MANAGED_UIDS {
            managed.insert(uid.to_owned());
        }
    }

    /// Whether core has sent a state with the resource of this uid. Core sends a state when it comes to its resource.
    pub(crate) fn is_managed(&self, uid: &str) -> bool {
        let managed = self.managed.lock().unwrap_or_else(PoisonError::into_inner);
        managed.contains(uid) || managed.len() >= MAX_MANAGED_UIDS
    }

    /// Takes the settings of the configuration.
    pub(crate) async fn configure(
        &self,
        settings: &ConnectionSettings,
        defaults: Defaults,
    ) -> Result<(), Vec<Diagnostic>> {
        self.check_accepted()?;
        let client = self.connector.connect(settings).await.map_err(|fault| vec![unreachable(&fault)])?;
        *self.configured.lock().await = Some(Server::new(client, defaults));
        self.recent_plans.clear();
        Ok(())
    }

    /// Whether core has configured the provider.
    pub(crate) async fn is_configured(&self) -> bool {
        self.configured.lock().await.is_some()
    }

    /// The configuration's server, or else the environment's.
    pub(crate) async fn server(&self) -> Result<Arc<Server>, Vec<Diagnostic>> {
        self.check_accepted()?;
        if let Some(server) = &*self.configured.lock().await {
            return Ok(server.clone());
        }
        let connect = || async {
            let client = self.connector.connect(&ConnectionSettings::default()).await;
            Ok(Server::new(client.map_err(|fault| vec![unreachable(&fault)])?, Defaults::default()))
        };
        self.unconfigured.get_or_try_init(connect).await.cloned()
    }

    /// The types of that server, or those of the export if no server can be reached.
    pub(crate) async fn schema(&self) -> Result<Arc<ProviderSchema>, Vec<Diagnostic>> {
        self.check_accepted()?;
        let asked = match self.server().await {
            Ok(server) => server.schema(&*self.connector, &self.prefix, &self.schemas).await,
            Err(faults) => Err(faults),
        };
        match asked {
            Ok(schema) => Ok(schema),
            Err(faults) => Ok(Arc::new(ProviderSchema::of(&self.read_export(faults)?.types, &self.prefix))),
        }
    }

    /// The functions of that server's plugins, or those of the export if no server can be reached.
    pub(crate) async fn functions(&self) -> Result<Arc<FunctionSet>, Vec<Diagnostic>> {
        self.check_accepted()?;
        let asked = match self.server().await {
            Ok(server) => server.functions().await,
            Err(faults) => Err(faults),
        };
        match asked {
            Ok(functions) => Ok(functions),
            Err(faults) => Ok(Arc::new(FunctionSet::of(&self.read_export(faults)?.functions))),
        }
    }

    /// The export for use without a server, or the faults that made it necessary.
    fn read_export(&self, mut faults: Vec<Diagnostic>) -> Result<Snapshot, Vec<Diagnostic>> {
        match self.connector.snapshot() {
            Ok(Some(snapshot)) => return Ok(snapshot),
            Ok(None) => {}
            Err(fault) => faults.push(error("the exported schemas cannot be read", fault.to_string())),
        }
        Err(faults)
    }

    /// Stops waits for conditions and finalizers.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// A type by the name of its resources.
pub(crate) fn resource<'s>(schema: &'s ProviderSchema, name: &str) -> Result<&'s ResourceSchema, Vec<Diagnostic>> {
    schema.resource(name).ok_or_else(|| {
        let left_out = schema.left_out.iter().map(|why| format!("\nLeft out: {why}")).collect::<String>();
        let detail =
            format!("`mortise types` lists the server's types. They may have changed during the run.{left_out}");
        vec![error(format!("the server has no type for {name}"), detail)]
    })
}

fn unreachable(fault: &ConnectError) -> Diagnostic {
    error(
        "no server can be reached",
        format!(
            "{fault}\n\nThe provider finds its server by MORTISE_GRPC_ADDR, by the current context of `mortise context`, or \
             by the socket of a server on this machine; `mortise provider export` saves schemas for use without a server."
        ),
    )
}
