//! Compares a plugin that is about to serve with what is stored of its types.
//!
//! A type keeps its scope, its schema version does not fall, none goes of which something is stored, and every stored
//! object decodes as the new message, once the plugin has brought it to its own schema version: a dry run of the
//! upgrade. The objects come one at a time through a watch, which holds a page of its snapshot, so memory is bounded.
//! The watch stays open until the swap ([`StoredComparison::settle`]), so that what is written meanwhile is compared, too.
//!
//! Time is linear in the number of stored objects: about eight microseconds each (half a kilobyte of data), and an
//! instance more for each that has to be upgraded.

use std::sync::Arc;

use futures::FutureExt as _;
use mortise_plugin_host::{Call, HookError, Plugin, TypeDecl, UpgradeReply};
use mortise_resource::{
    EncodedResource, EncodingError, Scope,
    authorizer::AllowAll,
    data,
    manifest::Scope as WireScope,
    pb,
    tenancy::WILDCARD,
    types::{self, Gvk},
};
use mortise_service::registry::{DataFault, Schema};
use mortise_store::{Backend, Query, StoreError, TypeKey, Watch, WatchEvent};

use crate::load::stage::{Failure, Stage};

/// How many stored objects are named in a failure.
const MAX_NAMED_OBJECTS: usize = 10;

/// Objects that are looked at before other tasks of the thread have their turn.
const YIELD_EVERY: u32 = 256;

/// How often the scan begins again because so much was written meanwhile that its watch fell behind.
pub(crate) const MAX_SCANS: u32 = 3;

/// A plugin under examination.
pub(crate) struct StoredComparison {
    backend: Arc<dyn Backend>,
    subject: ComparedPlugin,
    watches: Vec<Box<dyn Watch>>,
}

/// What stored objects are compared with.
struct ComparedPlugin {
    plugin: Arc<Plugin>,
    types: Vec<Checked>,
    /// Served before, and not by this plugin.
    lost: Vec<Gvk>,
}

struct Checked {
    decl: TypeDecl,
    schema: Schema,
}

impl StoredComparison {
    /// `before` are the types as they were served last, by this plugin or by one that is gone.
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

    /// The types that were served and are not any more.
    #[must_use]
    pub(crate) fn lost(&self) -> &[Gvk] {
        &self.subject.lost
    }

    /// What can be said without looking at a single object.
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
                        "type {}: its scope was {} and would be {}, and a type keeps its scope; give the type another \
                         kind, or delete what is stored of it and remove the plugin first",
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
                        "type {}: its schema version was {} and would be {}, and stored data cannot go back; load a \
                         plugin with schema version {} or more",
                        decl.gvk, known.schema_version, decl.schema_version, known.schema_version
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Looks at every stored object of the types that the plugin has and of those that it has lost.
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

    /// Looks at what was written since the scan. Answers whether that is all: if not, so much was written that it has
    /// to be scanned again.
    ///
    /// # Errors
    /// As [`StoredComparison::scan`].
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
            tracing::debug!(seen, "checked what is stored of a type");
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

/// Why a stored object cannot be served.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error("its data is a {0:?}, not a {1}")]
    Message(String, String),
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    #[error(transparent)]
    Data(#[from] DataFault),
    #[error("its data is of schema version {0} already")]
    Newer(u32),
    #[error(
        "its data is of schema version {since}, the type would have {wanted}, and the plugin does not export \
         mortise:plugin/upgrading; export it"
    )]
    NoUpgrade { since: u32, wanted: u32 },
    #[error("the plugin cannot upgrade it from schema version {since}: {why}")]
    Refused { since: u32, why: String },
    #[error(transparent)]
    Hook(#[from] HookError),
    #[error("upgraded from schema version {since} it is no {message}: {source}")]
    Upgraded { since: u32, message: String, source: DataFault },
}

impl Unfit {
    /// Whether the upgrade is at fault, not the data.
    fn is_of_upgrade(&self) -> bool {
        !matches!(self, Self::Message(..) | Self::Encoding(_) | Self::Data(_))
    }
}

/// Whether a stored object is one of the type as the plugin has it now, once its data is in the plugin's schema
/// version.
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

/// A stored object's data in the schema version of the plugin, made in an instance of its own.
async fn upgrade(plugin: &Arc<Plugin>, decl: &TypeDecl, since: u32, data: Vec<u8>) -> Result<Vec<u8>, Unfit> {
    if !plugin.upgrades() {
        return Err(Unfit::NoUpgrade { since, wanted: decl.schema_version.get() });
    }
    match Call::new(plugin.clone(), Arc::new(AllowAll)).upgrade(decl.gvk.to_pb(), since, data).await? {
        UpgradeReply::Data(data) => Ok(data),
        UpgradeReply::Refused(diagnostics) => {
            let words: Vec<_> = diagnostics.into_iter().map(|one| one.summary).collect();
            Err(Unfit::Refused { since, why: words.join("; ") })
        }
    }
}

/// Whether anything of a type is stored in exactly that version. A scan, which ends at the first one.
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

fn query_everywhere(type_key: TypeKey) -> Query {
    let any = || WILDCARD.to_owned();
    let tenancy = pb::Tenancy { partition: any(), namespace: any() };
    Query { type_key, tenancy, name_prefix: String::new() }
}

/// A scope as the manifest has it.
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
    Failure::new(Stage::Checking, "StoreFault", format!("looking at what is stored: {error}"))
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

/// More is written than can be compared.
pub(crate) fn store_busy(error: impl std::fmt::Display) -> Failure {
    let what = format!("what is stored changes faster than it can be checked: {error}; touch the file");
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
            "it does not provide types any more of which something is stored; provide them, or delete these first",
        )?;
        self.scope
            .failure("ScopeChanged", "stored objects are not where the types' scopes have them; delete these first")?;
        self.data.failure(
            "DataDoesNotDecode",
            "stored objects do not decode as the new messages; keep the messages compatible, or change these first",
        )?;
        self.upgrade.failure(
            "UpgradeFailed",
            "stored objects do not get into the types' schema versions; mend the upgrade, or change these first",
        )
    }
}
