//! Converts the declarations of a manifest into definitions for the controller runtime.
//!
//! Fields of watched types are found with the descriptors that the types have at that moment: the type may belong to
//! another plugin, and come, change or go while the controller runs.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use mortise_controller::{self as runtime, Backoff, By, Definition, Index, IndexKey, ReconcileError};
use mortise_plugin_host::{
    self as guest, ControllerDecl, DataPath, DataPathError, IndexBy, IndexDecl, Mapper, Placement, References,
    Values as FieldValues,
};
use mortise_resource::{Scope, pb, types::Gvk};
use mortise_service::registry::{Registry, ResourceType};
use parking_lot::Mutex;
use prost_reflect::MessageDescriptor;

use super::guest::Controller;

/// The name of a plugin's controller in the runtime.
pub(crate) fn whole_name(plugin: &str, controller: &str) -> Arc<str> {
    format!("{plugin}/{controller}").into()
}

/// The definition for the runtime. After its reconcile breaks down, a resource waits as a hook does in quarantine.
pub(crate) fn definition(
    plugin: &str,
    decl: &ControllerDecl,
    controller: Arc<Controller>,
    registry: &Arc<ArcSwap<Registry>>,
    (quarantine_base, quarantine_max): (Duration, Duration),
) -> Definition {
    let placement = match decl.placement {
        Placement::Singleton => runtime::Placement::Singleton,
        Placement::EachServer => runtime::Placement::EachServer,
    };
    let index = |gvk: &Gvk, decl: &IndexDecl| Index::new(decl.name.clone(), by(gvk, decl, registry));
    let managed = decl.manages.to_pb();
    let mut made = Definition::new(whole_name(plugin, &decl.name), managed.clone(), controller.clone())
        .placement(placement)
        .parallel(decl.parallel)
        .resync(Some(decl.resync))
        .backoff(Backoff::new(decl.backoff_base, decl.backoff_max))
        .quarantine_backoff(Backoff::new(quarantine_base, quarantine_max));
    for declared in &decl.indexes {
        made = made.index(index(&decl.manages, declared));
    }
    for watch in &decl.watches {
        let indexes = watch.indexes.iter().map(|decl| index(&watch.kind, decl)).collect();
        let mapper = match &watch.mapper {
            Mapper::Owner => runtime::Mapper::Owner,
            Mapper::SameName => runtime::Mapper::SameName,
            Mapper::Reference(path) => runtime::Mapper::References(references(&watch.kind, path, registry)),
            Mapper::Index(name) => runtime::Mapper::Index {
                kind: managed.clone(),
                index: name.to_string(),
                keys: Arc::new(|changed| Ok(changed.id.iter().map(IndexKey::target).collect())),
            },
            Mapper::Map => runtime::Mapper::Custom(controller.clone()),
        };
        made = made.watch(watch.kind.to_pb(), mapper, indexes);
    }
    made
}

/// The keys of an index of a type.
fn by(gvk: &Gvk, decl: &IndexDecl, registry: &Arc<ArcSwap<Registry>>) -> By {
    let keys = |values: Vec<String>| values.iter().map(|value| IndexKey::text(value)).collect();
    let decl = decl.clone();
    match &decl.by {
        IndexBy::Owner => By::Owner,
        IndexBy::Reference(path) => By::References(references(gvk, path, registry)),
        IndexBy::Value(path) => {
            let path = path.clone();
            let found = Resolved::new(gvk, registry, move |message| path.values(message));
            By::Keys(Arc::new(move |resource| {
                decl.values(resource, |_, data| found.with(|field: &FieldValues| field.read(data))).map(keys)
            }))
        }
        IndexBy::Name | IndexBy::Metadata => {
            By::Keys(Arc::new(move |resource| decl.values(resource, |_, _| Ok(Vec::new())).map(keys)))
        }
    }
}

/// The references in a field of a type. Parts of the tenancy that a reference leaves out are completed, as in `plugin
/// test`.
fn references(gvk: &Gvk, path: &DataPath, registry: &Arc<ArcSwap<Registry>>) -> runtime::References {
    let path = path.clone();
    let found = Resolved::new(gvk, registry, move |message| path.references(message));
    let registry = registry.clone();
    Arc::new(move |resource: &pb::Resource| {
        let (Some(data), Some(holder)) = (&resource.data, &resource.id) else { return Ok(Vec::new()) };
        let registry = registry.load();
        let complete = |mut reference: pb::Reference| {
            let target = reference.r#type.as_ref().and_then(|resource_type| registry.resolve(resource_type).ok());
            let scope = target.map_or(Scope::Undefined, |target| target.scope);
            reference.tenancy = scope.referent(&reference, holder).tenancy;
            reference
        };
        Ok(found.with(|field: &References| field.read(&data.value))?.into_iter().map(complete).collect())
    })
}

/// A function that finds a part of a message by its descriptor.
type Find<T> = Box<dyn Fn(&MessageDescriptor) -> Result<T, DataPathError> + Send + Sync>;

/// A part of a type's message; found again when the type is registered again.
struct Resolved<T> {
    kind: Gvk,
    registry: Arc<ArcSwap<Registry>>,
    find: Find<T>,
    found: Mutex<Option<(Arc<ResourceType>, Arc<T>)>>,
}

impl<T> Resolved<T> {
    fn new(
        gvk: &Gvk,
        registry: &Arc<ArcSwap<Registry>>,
        find: impl Fn(&MessageDescriptor) -> Result<T, DataPathError> + Send + Sync + 'static,
    ) -> Self {
        Self { kind: gvk.clone(), registry: registry.clone(), find: Box::new(find), found: Mutex::default() }
    }

    /// Calls `act` with the part.
    fn with<R>(&self, act: impl FnOnce(&T) -> Result<R, DataPathError>) -> Result<R, ReconcileError> {
        let type_fault = |fault: DataPathError| ReconcileError::because(format!("type {}: {fault}", self.kind), fault);
        let registry = self.registry.load();
        let kind = registry
            .resolve(&self.kind.to_pb())
            .map_err(|e| ReconcileError::because(format!("type {}: {e}", self.kind), e))?;
        let mut found = self.found.lock();
        let resolved = match &*found {
            Some((known, resolved)) if Arc::ptr_eq(known, kind) => resolved.clone(),
            _ => {
                let resolved = Arc::new((self.find)(kind.schema.message()).map_err(type_fault)?);
                found.insert((kind.clone(), resolved)).1.clone()
            }
        };
        drop(found);
        act(&resolved).map_err(type_fault)
    }
}

/// The pairs of managed and watched types that a plugin adds.
pub(crate) fn pairs(plugin: &guest::Plugin) -> impl Iterator<Item = (&Gvk, &Gvk)> {
    let controllers = plugin.manifest().controllers.iter();
    controllers.flat_map(|decl| decl.watches.iter().map(|watch| (&decl.manages, &watch.kind)))
}
