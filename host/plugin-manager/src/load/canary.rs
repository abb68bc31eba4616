//! Compares a plugin with the stored resources of its types before it serves.
//!
//! A type keeps its scope, its schema version does not fall, no type with stored resources goes, and every stored
//! object decodes as the new message after the plugin has upgraded it to its own schema version: a dry run of the
//! upgrade. The objects come one at a time through a watch, which holds a page of its snapshot, so memory is bounded.
//! The watch stays open until the swap ([`StoredComparison::settle`]), so that writes meanwhile are compared, too.
//!
//! Time is linear in the number of stored objects: about eight microseconds each (half a kilobyte of data), and an
//! instance more for each object to upgrade.

use std::sync::Arc;

use futures::FutureExt as _;
use mortise_plugin_host::{Call, HookError, Plugin, TypeDecl, UpgradeReply};
use mortise_resource::{
    EncodedResource, EncodingError, FieldFault, Scope,
    authorizer::AllowAll,
    data,
    manifest::Scope as WireScope,
    pb,
    tenancy::WILDCARD,
    types::{self, Gvk},
};
use mortise_service::registry::Schema;
use mortise_store::{Backend, Query, StoreError, TypeKey, Watch, WatchEvent};

use crate::load::stage::{Failure, Stage};

/// Most stored objects that a failure names.
const MAX_NAMED_OBJECTS: usize = 10;

/// Objects to check before other tasks of the thread have their turn.
const YIELD_EVERY: u32 = 256;

/// Most scans, if the watch keeps falling behind because of many writes.
pub(crate) const MAX_SCANS: u32 = 3;

/// A plugin under examination.
pub(crate) struct StoredComparison {
    backend: Arc<dyn Backend>,
    subject: ComparedPlugin,
    watches: Vec<Box<dyn Watch>>,
}

/// The plugin and the types that stored objects are compared with.
struct ComparedPlugin {
    plugin: Arc<Plugin>,
    types: Vec<Checked>,
    /// Types that were served before, but not by this plugin.
    lost: Vec<Gvk>,
}

struct Checked {
    decl: TypeDecl,
    schema: Schema,
}

impl StoredComparison {
    /// Makes a comparison. `before` are the types as last served, by this plugin or by one that is gone.
    #[must_use]
    pub(crate) fn new(backend: Arc<dyn Backend>, plugin: Arc<Plugin>, before: &[data::PluginType]) -> Self {
        let checked = |decl: &TypeDecl| Checked {
            schema: Schema::new(decl.message.clone(), decl.immutable.clone(), decl.query.spec.clone()),
            decl: decl.clone(),
        };
        let types: Vec<_> = plugin.manifest().types.iter().map(checked).collect();
        let known = before.iter().filter_map(|t| t.r#type.as_ref()).map(Gvk::from);
        let lost = known.filter(|gvk| !types.iter().any(|t| t.decl.gvk == *gvk)).collect();
        Self { backend, subject: ComparedPlugin { plugin, types, lost }, watches: Vec::new() }
    }

    /// The types that were served and no longer are.
    #[must_use]
    pub(crate) fn lost_types(&self) -> &[Gvk] {
        &self.subject.lost
    }

    /// Checks the types without reading a stored object.
    ///
    /// # Errors
    /// `ScopeChanged`, `SchemaVersionLower`.
    pub(crate) fn compare(&self, before: &[data::PluginType]) -> Result<(), Failure> {
        for known in before {
            let Some(decl) = known.r#type.as_ref().and_then(|t| self.subject.decl(t)) else { continue };
            if known.scope() != wire_scope(decl.scope) {
                return Err(Failure::new(
                    Stage::Checking,
                    "ScopeChanged",
                    format!(
                        "type {}: its scope would change from {} to {}, but a type keeps its scope; give the type \
                         another kind, or delete its stored resources and remove the plugin first",
                        decl.gvk,
                        known.scope().as_str_name(),
                        wire_scope(decl.scope).as_str_name()
                    ),
                ));
            }
            if decl.schema_version.get() < known.schema_version {
                return Err(Failure::new(
                    Stage::Checking,
                    "SchemaVersionLower",
                    format!(
                        "type {}: its schema version would fall from {} to {}, but stored data cannot be downgraded; \
                         load a plugin with schema version {} or more",
                        decl.gvk, known.schema_version, decl.schema_version, known.schema_version
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Checks every stored object of the plugin's types and of the types that it has lost.
    ///
    /// # Errors
    /// `TypeLost`, `ScopeChanged`, `DataDoesNotDecode`, `UpgradeFailed`, each with the first objects by name;
    /// `StoreBusy`, `StoreFault`.
    pub(crate) async fn scan(&mut self) -> Result<(), Failure> {
        for _ in 1..MAX_SCANS {
            match self.try_scan().await {
                Err(ScanError::Store(StoreError::WatchLagged { .. } | StoreError::ScanAborted { .. })) => {}
                other => return other.map_err(Failure::from),
            }
        }
        self.try_scan().await.map_err(Failure::from)
    }

    /// Checks the writes since the scan. Returns false if there were so many that another scan is needed.
    ///
    /// # Errors
    /// The errors of [`StoredComparison::scan`].
    pub(crate) async fn settle(&mut self) -> Result<bool, Failure> {
        let mut faults = Faults::default();
        for watch in &mut self.watches {
            while let Some(event) = watch.next().now_or_never() {
                match event {
                    Ok(WatchEvent::Upsert(resource)) => self.subject.check(&resource, &mut faults).await,
                    Ok(_) => {}
                    Err(StoreError::WatchLagged { .. }) => return Ok(false),
                    Err(e) => return Err(store_fault(&e)),
                }
            }
        }
        faults.into_result()?;
        Ok(true)
    }

    async fn try_scan(&mut self) -> Result<(), ScanError> {
        self.watches.clear();
        let mut keys: Vec<TypeKey> =
            self.subject.types.iter().map(|t| &t.decl.gvk).chain(&self.subject.lost).map(key).collect();
        keys.sort();
        keys.dedup();
        let mut faults = Faults::default();
        for type_key in keys {
            let mut watch =
                self.backend.watch_list(&query_everywhere(type_key), None).await.map_err(ScanError::Store)?;
            let mut seen = 0_u32;
            loop {
                match watch.next().await.map_err(ScanError::Store)? {
                    WatchEvent::Upsert(resource) => self.subject.check(&resource, &mut faults).await,
                    WatchEvent::Delete(_) => {}
                    WatchEvent::EndOfSnapshot => break,
                }
                seen = seen.wrapping_add(1);
                if seen.is_multiple_of(YIELD_EVERY) {
                    if faults.is_full() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
            tracing::debug!(seen, "checked the stored resources of a type");
            self.watches.push(watch);
        }
        faults.into_result().map_err(ScanError::Failed)
    }
}

impl ComparedPlugin {
    async fn check(&self, resource: &EncodedResource, faults: &mut Faults) {
        let id = resource.id();
        let described = || types::describe(&resource.decode_id().ok().flatten().unwrap_or_default());
        let Some(checked) = self.types.iter().find(|known| resource.has_type(&known.decl.gvk)) else {
            if self.lost.iter().any(|gvk| resource.has_type(gvk)) {
                faults.lost.add(described);
            }
            return;
        };
        let fits = match checked.decl.scope {
            Scope::Cluster => id.partition.is_empty() && id.namespace.is_empty(),
            Scope::Partition => !id.partition.is_empty() && id.namespace.is_empty(),
            Scope::Namespace => !id.partition.is_empty() && !id.namespace.is_empty(),
            Scope::Undefined => true,
        };
        if !fits {
            faults.scope.add(described);
        }
        match check_object(&self.plugin, checked, resource).await {
            Ok(()) => {}
            Err(unfit) => {
                let list = if unfit.is_of_upgrade() { &mut faults.upgrade } else { &mut faults.data };
                list.add(|| format!("{}: {unfit}", described()));
            }
        }
    }

    fn decl(&self, t: &pb::Type) -> Option<&TypeDecl> {
        self.types.iter().map(|known| &known.decl).find(|decl| decl.gvk.matches(t))
    }
}

/// Reasons why a stored object cannot be served.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error("its data is a {0:?}, not a {1}")]
    Message(String, String),
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    #[error(transparent)]
    Data(#[from] FieldFault),
    #[error("its data already has schema version {0}")]
    Newer(u32),
    #[error(
        "its data has schema version {since}, the type would have {wanted}, but the plugin does not export \
         mortise:plugin/upgrading; export it"
    )]
    NoUpgrade { since: u32, wanted: u32 },
    #[error("the plugin cannot upgrade it from schema version {since}: {why}")]
    Refused { since: u32, why: String },
    #[error(transparent)]
    Hook(#[from] HookError),
    #[error("after its upgrade from schema version {since} it cannot be decoded as {message}: {source}")]
    Upgraded { since: u32, message: String, source: FieldFault },
}

impl Unfit {
    /// Whether the upgrade is at fault, not the data.
    fn is_of_upgrade(&self) -> bool {
        !matches!(self, Self::Message(..) | Self::Encoding(_) | Self::Data(_))
    }
}

/// Checks that a stored object fits the plugin's version of the type, after an upgrade to its schema version if needed.
async fn check_object(plugin: &Arc<Plugin>, checked: &Checked, resource: &EncodedResource) -> Result<(), Unfit> {
    let (wanted, since) = (checked.decl.schema_version.get(), resource.schema_version());
    if since > wanted {
        return Err(Unfit::Newer(since));
    }
    let Some(any) = resource.decode()?.data else { return Ok(()) };
    let message = || checked.schema.message().full_name().to_owned();
    if !checked.schema.accepts_url(&any.type_url) {
        return Err(Unfit::Message(any.type_url.clone(), message()));
    }
    if since == wanted {
        return Ok(checked.schema.check(&any.value)?);
    }
    let upgraded = upgrade(plugin, &checked.decl, since, any.value.clone()).await?;
    checked.schema.check(&upgraded).map_err(|source| Unfit::Upgraded { since, message: message(), source })
}

/// Upgrades a stored object's data to the schema version of the plugin, in a separate instance.
async fn upgrade(plugin: &Arc<Plugin>, decl: &TypeDecl, since: u32, data: Vec<u8>) -> Result<Vec<u8>, Unfit> {
    if !plugin.upgrades() {
        return Err(Unfit::NoUpgrade { since, wanted: decl.schema_version.get() });
    }
    match Call::new(plugin.clone(), Arc::new(AllowAll)).upgrade(decl.gvk.to_pb(), since, data).await? {
        UpgradeReply::Data(data) => Ok(data),
        UpgradeReply::Refused(diagnostics) => {
            let words: Vec<_> = diagnostics.into_iter().map(|diagnostic| diagnostic.summary).collect();
            Err(Unfit::Refused { since, why: words.join("; ") })
        }
    }
}

/// Whether a resource of a type is stored in exactly that version. Scans up to the first one.
///
/// # Errors
/// Faults of the store.
pub(crate) async fn any_stored(backend: &Arc<dyn Backend>, gvk: &Gvk) -> Result<bool, StoreError> {
    if !backend.types().await?.contains(&key(gvk)) {
        return Ok(false);
    }
    let mut stored = backend.scan(&query_everywhere(key(gvk))).await?;
    while let Some(page) = stored.next().await? {
        if page.iter().any(|resource| resource.has_type(gvk)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn key(gvk: &Gvk) -> TypeKey {
    TypeKey { group: gvk.group.clone(), kind: gvk.kind.clone() }
}

pub(crate) fn query_everywhere(type_key: TypeKey) -> Query {
    let any = || WILDCARD.to_owned();
    let tenancy = pb::Tenancy { partition: any(), namespace: any() };
    Query { type_key, tenancy, name_prefix: String::new() }
}

/// A scope in the manifest's form.
#[must_use]
pub(crate) fn wire_scope(scope: Scope) -> WireScope {
    match scope {
        Scope::Cluster => WireScope::Cluster,
        Scope::Partition => WireScope::Partition,
        Scope::Namespace => WireScope::Namespace,
        Scope::Undefined => WireScope::Unspecified,
    }
}

fn store_fault(error: &StoreError) -> Failure {
    Failure::new(Stage::Checking, "StoreFault", format!("stored resources cannot be read: {error}"))
}

enum ScanError {
    Store(StoreError),
    Failed(Failure),
}

impl From<ScanError> for Failure {
    fn from(error: ScanError) -> Self {
        match error {
            ScanError::Store(e @ (StoreError::WatchLagged { .. } | StoreError::ScanAborted { .. })) => store_busy(e),
            ScanError::Store(e) => store_fault(&e),
            ScanError::Failed(failure) => failure,
        }
    }
}

/// The failure for writes that are faster than the comparison.
pub(crate) fn store_busy(error: impl std::fmt::Display) -> Failure {
    let what = format!("stored resources change faster than they can be checked: {error}; touch the file to try again");
    Failure::new(Stage::Checking, "StoreBusy", what)
}

/// The first objects with one kind of fault.
#[derive(Default)]
struct FirstFaults {
    named: Vec<String>,
    more: bool,
}

impl FirstFaults {
    fn add(&mut self, what: impl FnOnce() -> String) {
        if self.named.len() < MAX_NAMED_OBJECTS {
            self.named.push(what());
        } else {
            self.more = true;
        }
    }

    fn failure(&self, reason: &'static str, what: &str) -> Result<(), Failure> {
        if self.named.is_empty() {
            return Ok(());
        }
        let more = if self.more { "; and more" } else { "" };
        let text = format!("{what}: {}{more}", self.named.join("; "));
        Err(Failure::new(Stage::Checking, reason, text))
    }
}

#[derive(Default)]
struct Faults {
    lost: FirstFaults,
    scope: FirstFaults,
    data: FirstFaults,
    upgrade: FirstFaults,
}

impl Faults {
    fn is_full(&self) -> bool {
        self.lost.more || self.scope.more || self.data.more || self.upgrade.more
    }

    fn into_result(self) -> Result<(), Failure> {
        self.lost.failure(
            "TypeLost",
            "it no longer provides types that have stored resources; provide them, or delete these first",
        )?;
        self.scope.failure(
            "ScopeChanged",
            "stored objects have a tenancy that does not fit the types' scopes; delete these first",
        )?;
        self.data.failure(
            "DataDoesNotDecode",
            "stored objects cannot be decoded as the new messages; keep the messages compatible, or change these first",
        )?;
        self.upgrade.failure(
            "UpgradeFailed",
            "stored objects cannot be upgraded to the types' schema versions; fix the upgrade, or change these first",
        )
    }
}
