//! Controllers of a manifest, in checked form: the type that each reconciles, and the changes that trigger it.
//!
//! The checks need nothing but the manifest. Fields of other plugins' types are looked up once their messages are known
//! ([`DataPath`]); `grants` checks whether such types are granted, and the caller finds cycles between plugins, with
//! the same function and text ([`find_cycle`]).

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use mortise_resource::{manifest as wire, name, pb, types::Gvk};
use prost_reflect::MessageDescriptor;

use crate::manifest::{
    document::TypeDecl,
    error::ManifestError,
    exports::Exports,
    field_path::{DataPath, DataPathError},
    type_name::type_name,
};

/// Most controllers of one plugin.
const MAX_CONTROLLERS: usize = 16;

/// Most types that one controller watches.
const MAX_WATCHES: usize = 16;

/// Most indexes of one type in one controller.
const MAX_INDEXES: usize = 16;

/// Most resources that one controller reconciles at once.
const MAX_PARALLEL: u32 = 64;

/// Bounds of times in a manifest, milliseconds.
const MIN_RESYNC_MS: u64 = 1_000;
const MAX_RESYNC_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
const MAX_BACKOFF_MS: u64 = 24 * 60 * 60 * 1_000;

/// Name of the built-in index.
const ID_INDEX: &str = "id";

/// A controller of a plugin.
#[derive(Debug, Clone)]
pub struct ControllerDecl {
    /// Name, unique in the plugin.
    pub name: Arc<str>,
    /// Type whose resources it reconciles.
    pub manages: Gvk,
    /// Other types whose changes trigger reconciles of the managed type.
    pub watches: Vec<WatchDecl>,
    /// Indexes of the managed type in the cache.
    pub indexes: Vec<IndexDecl>,
    /// Servers that it runs on.
    pub placement: Placement,
    /// Time after a successful reconcile until the next one without a change.
    pub resync: Duration,
    /// Resources that are reconciled at once; at least one.
    pub parallel: usize,
    /// Whether `initialize` is called before each start.
    pub initializes: bool,
    /// First delay after an error.
    pub backoff_base: Duration,
    /// Longest delay after an error.
    pub backoff_max: Duration,
    /// Setting of the plugin that must be true for the controller to run; empty: it always runs.
    pub only_if: String,
}

/// Servers that a controller runs on, if there is more than one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// A single one of the servers.
    Singleton,
    /// Each server.
    EachServer,
}

/// A watched type.
#[derive(Debug, Clone)]
pub struct WatchDecl {
    /// The type.
    pub kind: Gvk,
    /// Mapping from a changed resource to resources of the managed type.
    pub mapper: Mapper,
    /// Indexes of this type in the cache.
    pub indexes: Vec<IndexDecl>,
}

/// Mapping from a changed resource to resources of the managed type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mapper {
    /// The owner, if it is of the managed type.
    Owner,
    /// The resource with the same name and tenancy.
    SameName,
    /// The resources that a field of the changed resource refers to.
    Reference(DataPath),
    /// The resources that this index by reference, of the managed type, holds under the changed resource's id.
    Index(Arc<str>),
    /// The resources that the plugin's `map` answers.
    Map,
}

/// An index of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexDecl {
    /// Name; unique for its type.
    pub name: Arc<str>,
    /// Source of its keys.
    pub by: IndexBy,
    /// Whether each value is prefixed with the resource's `partition/namespace/`.
    pub in_tenancy: bool,
}

impl IndexDecl {
    /// Values of a resource in this index, in the order of their source; empty for an index by owner or reference.
    /// `field` reads a field's values from encoded data.
    ///
    /// A value with a zero byte is left out: keys of the cache end with one.
    ///
    /// # Errors
    /// The error of `field`.
    pub fn values<E>(
        &self,
        resource: &pb::Resource,
        field: impl FnOnce(&DataPath, &[u8]) -> Result<Vec<String>, E>,
    ) -> Result<Vec<String>, E> {
        let id = resource.id.as_ref();
        let mut values = match (&self.by, &resource.data) {
            (IndexBy::Value(path), Some(data)) => field(path, &data.value)?,
            (IndexBy::Name, _) => id.map(|id| id.name.clone()).into_iter().collect(),
            (IndexBy::Metadata, _) => resource.metadata.iter().map(|(key, value)| format!("{key}={value}")).collect(),
            (IndexBy::Value(_) | IndexBy::Owner | IndexBy::Reference(_), _) => Vec::new(),
        };
        values.retain(|value| !value.contains('\0'));
        if self.in_tenancy {
            let tenancy = id.and_then(|id| id.tenancy.as_ref());
            let (partition, namespace) = tenancy.map_or(("", ""), |t| (&t.partition, &t.namespace));
            for value in &mut values {
                value.insert_str(0, &format!("{partition}/{namespace}/"));
            }
        }
        Ok(values)
    }
}

/// Source of an index's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexBy {
    /// The owner.
    Owner,
    /// The target of a reference field.
    Reference(DataPath),
    /// The value of a field.
    Value(DataPath),
    /// The resource's name.
    Name,
    /// Pairs of its metadata, each as `key=value`.
    Metadata,
}

/// Finds two controllers, given as pairs of managed and watched type, that would trigger each other for ever. Longer
/// cycles are not searched. Answers the fault, in Consul's words.
#[must_use]
pub fn find_cycle<'a>(pairs: impl IntoIterator<Item = (&'a Gvk, &'a Gvk)>) -> Option<String> {
    let pairs: HashSet<_> = pairs.into_iter().collect();
    let path = |gvk: &Gvk| format!("{}/{}/{}", gvk.group, gvk.group_version, gvk.kind).to_lowercase();
    let circles: BTreeSet<_> = pairs
        .iter()
        .filter(|(managed, watched)| pairs.contains(&(*watched, *managed)))
        .map(|(managed, watched)| {
            let (a, b) = (path(managed), path(watched));
            if a < b { (a, b) } else { (b, a) }
        })
        .collect();
    circles.first().map(|(a, b)| format!("circular dependency between {a:?} and {b:?}"))
}

/// Reads and checks the controllers of a manifest with these `types`.
pub(crate) fn read(
    wire: Vec<wire::Controller>,
    types: &[TypeDecl],
    exports: Exports,
) -> Result<Vec<ControllerDecl>, ManifestError> {
    if wire.len() > MAX_CONTROLLERS {
        return Err(too_many(MAX_CONTROLLERS, wire.len()).at("controllers"));
    }
    if !wire.is_empty() && !exports.controlling {
        return Err(ManifestError::new(
            "controllers are declared, but the component does not export mortise:plugin/controlling; export it, or take \
             them out of the manifest",
        ));
    }
    let mut names = HashSet::new();
    let mut all = Vec::with_capacity(wire.len());
    for declared in wire {
        let called = declared.name.clone();
        let in_controller = |fault: ManifestError| fault.at(format!("controller {called:?}"));
        let controller = Reader { types, exports }.read(declared).map_err(in_controller)?;
        if !names.insert(controller.name.clone()) {
            return Err(in_controller(ManifestError::new(DECLARED_TWICE)));
        }
        all.push(controller);
    }
    let pairs =
        all.iter().flat_map(|controller| controller.watches.iter().map(|watch| (&controller.manages, &watch.kind)));
    match find_cycle(pairs) {
        Some(fault) => {
            let fault = format!("{fault}; remove one of the two watches");
            Err(ManifestError::new(fault).at("controllers"))
        }
        None => Ok(all),
    }
}

/// Context for the checks of a controller.
struct Reader<'a> {
    types: &'a [TypeDecl],
    exports: Exports,
}

impl Reader<'_> {
    fn read(&self, wire: wire::Controller) -> Result<ControllerDecl, ManifestError> {
        if let Some(why) = name::fault(&wire.name) {
            return Err(ManifestError::new(why.replace("a resource name", "a controller's name")).at("name"));
        }
        let manages = read_type(wire.manages.as_ref()).map_err(|fault| fault.at("manages"))?;
        let indexes = self.indexes(&manages, &wire.indexes)?;
        if wire.watches.len() > MAX_WATCHES {
            return Err(too_many(MAX_WATCHES, wire.watches.len()).at("watches"));
        }
        let mut seen = HashSet::from([(manages.group.clone(), manages.kind.clone())]);
        let mut watches = Vec::with_capacity(wire.watches.len());
        for watch in &wire.watches {
            let gvk = read_type(watch.r#type.as_ref()).map_err(|fault| fault.at("watches"))?;
            let in_watch = |fault: ManifestError| fault.at(format!("watch of {gvk}"));
            // All versions of a kind are the same resources.
            if !seen.insert((gvk.group.clone(), gvk.kind.clone())) {
                let what = "is managed or watched already; remove the watch (the managed type is always watched)";
                return Err(in_watch(ManifestError::new(what)));
            }
            let mapper = self.mapper(&gvk, watch.mapper.as_ref(), &indexes).map_err(in_watch)?;
            let indexes = self.indexes(&gvk, &watch.indexes).map_err(in_watch)?;
            watches.push(WatchDecl { kind: gvk, mapper, indexes });
        }
        if wire.initializes && !self.exports.initializing {
            return Err(ManifestError::new(
                "initializes is set, but the component does not export mortise:plugin/initializing; export it, or take \
                 it out",
            ));
        }
        if wire.parallel > MAX_PARALLEL {
            return Err(too_many(MAX_PARALLEL as usize, wire.parallel as usize).at("parallel"));
        }
        let placement = match wire::Placement::try_from(wire.placement) {
            Ok(wire::Placement::Unspecified | wire::Placement::Singleton) => Placement::Singleton,
            Ok(wire::Placement::EachServer) => Placement::EachServer,
            Err(_) => {
                let fault = format!("this host does not know {}", wire.placement);
                return Err(ManifestError::new(fault).at("placement"));
            }
        };
        let or = |asked, default| if asked == 0 { default } else { asked };
        let resync = or(wire.resync_ms, 8 * 60 * 60 * 1_000);
        if !(MIN_RESYNC_MS..=MAX_RESYNC_MS).contains(&resync) {
            let fault = format!("must be {MIN_RESYNC_MS} to {MAX_RESYNC_MS}, or 0, got: {resync}");
            return Err(ManifestError::new(fault).at("resync_ms"));
        }
        let (base, max) = (or(wire.backoff_base_ms, 5), or(wire.backoff_max_ms, 1_000_000));
        if base > max || max > MAX_BACKOFF_MS {
            let fault = format!(
                "base must not be more than max, and max not more than {MAX_BACKOFF_MS} ms, got: {base} and {max}"
            );
            return Err(ManifestError::new(fault).at("backoff"));
        }
        Ok(ControllerDecl {
            name: wire.name.into(),
            manages,
            watches,
            indexes,
            placement,
            resync: Duration::from_millis(resync),
            parallel: or(wire.parallel.into(), 1) as usize,
            initializes: wire.initializes,
            backoff_base: Duration::from_millis(base),
            backoff_max: Duration::from_millis(max),
            only_if: wire.only_if,
        })
    }

    /// Message of a type, if it is one of the plugin's own.
    fn message(&self, gvk: &Gvk) -> Option<&MessageDescriptor> {
        self.types.iter().find(|decl| decl.gvk == *gvk).map(|decl| &decl.message)
    }

    fn mapper(
        &self,
        gvk: &Gvk,
        wire: Option<&wire::watch::Mapper>,
        indexes: &[IndexDecl],
    ) -> Result<Mapper, ManifestError> {
        use wire::watch::Mapper as Wire;
        let fault = match wire {
            Some(Wire::Owner(true)) => return Ok(Mapper::Owner),
            Some(Wire::SameName(true)) => return Ok(Mapper::SameName),
            Some(Wire::ReferenceField(path)) => return self.reference(gvk, path).map(Mapper::Reference),
            Some(Wire::Index(name)) => match indexes.iter().find(|index| *index.name == **name) {
                Some(IndexDecl { name, by: IndexBy::Reference(_), .. }) => return Ok(Mapper::Index(name.clone())),
                Some(_) => format!("index {name:?} is not by reference; name one that is").into(),
                None => format!("the controller has no index {name:?}; declare it in its indexes").into(),
            },
            Some(Wire::Map(true)) if self.exports.mapping => return Ok(Mapper::Map),
            Some(Wire::Map(true)) => Cow::from(
                "it is `map`, but the component does not export mortise:plugin/mapping; export it, or choose another \
                 mapper",
            ),
            Some(Wire::Owner(false) | Wire::SameName(false) | Wire::Map(false)) | None => {
                "one is required: owner, same_name, reference_field, index or map".into()
            }
        };
        Err(ManifestError::new(fault).at("mapper"))
    }

    fn indexes(&self, gvk: &Gvk, wire: &[wire::Index]) -> Result<Vec<IndexDecl>, ManifestError> {
        use wire::index::By as Wire;
        if wire.len() > MAX_INDEXES {
            return Err(too_many(MAX_INDEXES, wire.len()).at("indexes"));
        }
        let mut all: Vec<IndexDecl> = Vec::with_capacity(wire.len());
        for index in wire {
            let in_index = |fault: ManifestError| fault.at(format!("index {:?}", index.name));
            if !name::is_valid(&index.name) || index.name == ID_INDEX {
                let fault = "its name must be lower-case letters, digits and dashes, and not \"id\"";
                return Err(in_index(ManifestError::new(fault)));
            }
            if all.iter().any(|other| *other.name == *index.name) {
                return Err(in_index(ManifestError::new(DECLARED_TWICE)));
            }
            let by = match &index.by {
                Some(Wire::Owner(true)) => IndexBy::Owner,
                Some(Wire::ReferenceField(path)) => IndexBy::Reference(self.reference(gvk, path).map_err(in_index)?),
                Some(Wire::ValueField(path)) => IndexBy::Value(self.value(gvk, path).map_err(in_index)?),
                Some(Wire::ResourceName(true)) => IndexBy::Name,
                Some(Wire::Metadata(true)) => IndexBy::Metadata,
                Some(Wire::Owner(false) | Wire::ResourceName(false) | Wire::Metadata(false)) | None => {
                    let fault =
                        "its source is required: owner, reference_field, value_field, resource_name or metadata";
                    return Err(in_index(ManifestError::new(fault)));
                }
            };
            if index.in_tenancy && matches!(by, IndexBy::Owner | IndexBy::Reference(_)) {
                let fault = "in_tenancy is for value_field, resource_name and metadata; keys of owners and references have a \
                             tenancy, so take it out";
                return Err(in_index(ManifestError::new(fault)));
            }
            all.push(IndexDecl { name: index.name.as_str().into(), by, in_tenancy: index.in_tenancy });
        }
        Ok(all)
    }

    fn reference(&self, gvk: &Gvk, path: &str) -> Result<DataPath, ManifestError> {
        self.path(gvk, path, |path, message| path.references(message).map(drop))
            .map_err(|fault| ManifestError::caused_by(fault).at("reference_field"))
    }

    fn value(&self, gvk: &Gvk, path: &str) -> Result<DataPath, ManifestError> {
        self.path(gvk, path, |path, message| path.values(message).map(drop))
            .map_err(|fault| ManifestError::caused_by(fault).at("value_field"))
    }

    /// Reads a path, and checks it against the message if the type is the plugin's own.
    fn path(
        &self,
        gvk: &Gvk,
        path: &str,
        check: impl FnOnce(&DataPath, &MessageDescriptor) -> Result<(), DataPathError>,
    ) -> Result<DataPath, DataPathError> {
        let path = DataPath::new(path)?;
        self.message(gvk).map_or(Ok(()), |message| check(&path, message))?;
        Ok(path)
    }
}

/// Fault of a repeated name.
const DECLARED_TWICE: &str = "declared twice; each needs a name of its own";

fn too_many(most: usize, got: usize) -> ManifestError {
    ManifestError::new(format!("at most {most}, got: {got}"))
}

fn read_type(wire: Option<&wire::TypeName>) -> Result<Gvk, ManifestError> {
    let wire = wire.ok_or_else(|| ManifestError::new("a type is required"))?;
    let gvk = Gvk::new(&wire.group, &wire.group_version, &wire.kind);
    type_name(&gvk).map_err(|fault| fault.at(format!("type {gvk}")))?;
    Ok(gvk)
}

#[cfg(test)]
mod tests;
