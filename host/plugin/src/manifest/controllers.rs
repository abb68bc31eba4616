//! The controllers that a manifest declares, in checked form: who reconciles what, and which changes concern it.
//!
//! Checked is all that can be known from one plugin. Fields of types of others are looked up when their messages are at
//! hand ([`DataPath`]); whether such types are granted is `grants`' business, and cycles between plugins are the caller's,
//! with the same words ([`circular`]).

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use mortise_resource::{manifest as wire, name, types::Gvk};
use prost_reflect::MessageDescriptor;

use crate::manifest::{
    document::{TypeDecl, type_name_fault},
    exports::Exports,
    field_path::DataPath,
};

/// Most controllers of one plugin.
const MAX_CONTROLLERS: usize = 16;

/// Most types that one controller watches.
const MAX_WATCHES: usize = 16;

/// Most indexes of one type in one controller.
const MAX_INDEXES: usize = 16;

/// Most resources that one controller reconciles at once.
const MAX_PARALLEL: u32 = 64;

/// Bounds of times that a manifest may ask for, milliseconds.
const SHORTEST_RESYNC: u64 = 1_000;
const LONGEST_RESYNC: u64 = 30 * 24 * 60 * 60 * 1_000;
const LONGEST_BACKOFF: u64 = 24 * 60 * 60 * 1_000;

/// The name of the index that is always there.
const BY_ID: &str = "id";

/// One controller of a plugin.
#[derive(Debug, Clone)]
pub struct ControllerDecl {
    /// Its name, unique in the plugin.
    pub name: Arc<str>,
    /// The type whose resources it reconciles.
    pub manages: Gvk,
    /// Other types whose changes concern resources of the managed one.
    pub watches: Vec<WatchDecl>,
    /// Ways to find resources of the managed type in the cache.
    pub indexes: Vec<IndexDecl>,
    /// Where it runs.
    pub placement: Placement,
    /// How long a resource whose reconcile ended well is left alone.
    pub resync: Duration,
    /// Resources that are reconciled at once; at least one.
    pub parallel: usize,
    /// Whether `initialize` is called before each start.
    pub initializes: bool,
    /// The first delay after an error.
    pub backoff_base: Duration,
    /// The longest delay after an error.
    pub backoff_max: Duration,
    /// A setting of the plugin's that has to be true for it to run; empty: it runs always.
    pub only_if: String,
}

/// Where a controller runs when there is more than one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// On one of them.
    Singleton,
    /// On each of them.
    EachServer,
}

/// A type that is watched.
#[derive(Debug, Clone)]
pub struct WatchDecl {
    /// The type.
    pub of: Gvk,
    /// How a change of one of its resources leads to resources of the managed type.
    pub mapper: Mapper,
    /// Ways to find resources of this type in the cache.
    pub indexes: Vec<IndexDecl>,
}

/// How a change leads to resources of the managed type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mapper {
    /// To the owner, if it is of the managed type.
    Owner,
    /// To the one with the same name and tenancy.
    SameName,
    /// To those that a field of the changed resource refers to.
    Reference(DataPath),
    /// To those that this index of the managed type, by reference, has under the changed resource's id.
    Index(Arc<str>),
    /// To those that the plugin's `map` answers.
    Map,
}

/// A way to find resources in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexDecl {
    /// Its name; unique for its type.
    pub name: Arc<str>,
    /// What it is by.
    pub by: IndexBy,
}

/// What an index is by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexBy {
    /// The owner.
    Owner,
    /// What a field refers to.
    Reference(DataPath),
    /// The value of a field.
    Value(DataPath),
}

/// Whether any two of these controllers, given as pairs of managed and watched type, feed each other: each would start the
/// other for ever. Longer circles are not looked for. Answers the fault, in Consul's words.
#[must_use]
pub fn circular<'a>(pairs: impl IntoIterator<Item = (&'a Gvk, &'a Gvk)>) -> Option<String> {
    let pairs: HashSet<_> = pairs.into_iter().collect();
    let path = |of: &Gvk| format!("{}/{}/{}", of.group, of.group_version, of.kind).to_lowercase();
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

/// Reads and checks the controllers of a manifest, whose types are `types`.
pub(crate) fn read(
    wire: Vec<wire::Controller>,
    types: &[TypeDecl],
    exports: Exports,
) -> Result<Vec<ControllerDecl>, String> {
    if wire.len() > MAX_CONTROLLERS {
        return Err(format!("controllers: at most {MAX_CONTROLLERS}, got: {}", wire.len()));
    }
    if !wire.is_empty() && !exports.controlling {
        return Err("controllers are declared, but the component does not export mortise:plugin/controlling; export \
                    it, or take them out of the manifest"
            .into());
    }
    let mut names = HashSet::new();
    let mut all = Vec::with_capacity(wire.len());
    for declared in wire {
        let called = declared.name.clone();
        let one = Reader { types, exports }.read(declared).map_err(|what| format!("controller {called:?}: {what}"))?;
        if !names.insert(one.name.clone()) {
            return Err(format!("controller {called:?}: declared twice; each needs a name of its own"));
        }
        all.push(one);
    }
    let pairs = all.iter().flat_map(|one| one.watches.iter().map(|watch| (&one.manages, &watch.of)));
    match circular(pairs) {
        Some(fault) => Err(format!("controllers: {fault}; let one of them not watch the other's type")),
        None => Ok(all),
    }
}

/// What a controller is checked against.
struct Reader<'a> {
    types: &'a [TypeDecl],
    exports: Exports,
}

impl Reader<'_> {
    fn read(&self, wire: wire::Controller) -> Result<ControllerDecl, String> {
        if let Some(why) = name::fault(&wire.name) {
            return Err(format!("name: {}", why.replace("a resource name", "a controller's name")));
        }
        let manages = read_type(wire.manages.as_ref()).map_err(|what| format!("manages: {what}"))?;
        let indexes = self.indexes(&manages, &wire.indexes)?;
        if wire.watches.len() > MAX_WATCHES {
            return Err(format!("watches: at most {MAX_WATCHES}, got: {}", wire.watches.len()));
        }
        let mut seen = HashSet::from([(manages.group.clone(), manages.kind.clone())]);
        let mut watches = Vec::with_capacity(wire.watches.len());
        for watch in &wire.watches {
            let of = read_type(watch.r#type.as_ref()).map_err(|what| format!("watches: {what}"))?;
            let at = |what| format!("watch of {of}: {what}");
            // All versions of a kind are one set of resources.
            if !seen.insert((of.group.clone(), of.kind.clone())) {
                let what = "is managed or watched already; the managed type is watched by itself, others once";
                return Err(at(what.into()));
            }
            let mapper = self.mapper(&of, watch.mapper.as_ref(), &indexes).map_err(at)?;
            let indexes = self.indexes(&of, &watch.indexes).map_err(at)?;
            watches.push(WatchDecl { of, mapper, indexes });
        }
        if wire.initializes && !self.exports.initializing {
            return Err(
                "initializes is set, but the component does not export mortise:plugin/initializing; export it, \
                        or take it out"
                    .into(),
            );
        }
        if wire.parallel > MAX_PARALLEL {
            return Err(format!("parallel: at most {MAX_PARALLEL}, got: {}", wire.parallel));
        }
        let placement = match wire::Placement::try_from(wire.placement) {
            Ok(wire::Placement::Unspecified | wire::Placement::Singleton) => Placement::Singleton,
            Ok(wire::Placement::EachServer) => Placement::EachServer,
            Err(_) => return Err(format!("placement: this host does not know {}", wire.placement)),
        };
        let or = |asked, default| if asked == 0 { default } else { asked };
        let resync = or(wire.resync_ms, 8 * 60 * 60 * 1_000);
        if !(SHORTEST_RESYNC..=LONGEST_RESYNC).contains(&resync) {
            return Err(format!("resync_ms: must be {SHORTEST_RESYNC} to {LONGEST_RESYNC}, or 0, got: {resync}"));
        }
        let (base, max) = (or(wire.backoff_base_ms, 5), or(wire.backoff_max_ms, 1_000_000));
        if base > max || max > LONGEST_BACKOFF {
            return Err(format!(
                "backoff: base must not be more than max, and max not more than {LONGEST_BACKOFF} ms, got: {base} and \
                 {max}"
            ));
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

    /// The message of a type, if it is one of the plugin's own.
    fn message(&self, of: &Gvk) -> Option<&MessageDescriptor> {
        self.types.iter().find(|decl| decl.gvk == *of).map(|decl| &decl.message)
    }

    fn mapper(&self, of: &Gvk, wire: Option<&wire::watch::Mapper>, indexes: &[IndexDecl]) -> Result<Mapper, String> {
        use wire::watch::Mapper as Wire;
        match wire {
            Some(Wire::Owner(true)) => Ok(Mapper::Owner),
            Some(Wire::SameName(true)) => Ok(Mapper::SameName),
            Some(Wire::ReferenceField(path)) => self.reference(of, path).map(Mapper::Reference),
            Some(Wire::Index(name)) => match indexes.iter().find(|index| *index.name == **name) {
                Some(IndexDecl { name, by: IndexBy::Reference(_) }) => Ok(Mapper::Index(name.clone())),
                Some(_) => Err(format!("mapper: index {name:?} is not by reference; only such can be looked into")),
                None => Err(format!("mapper: the controller has no index {name:?}; declare it in its indexes")),
            },
            Some(Wire::Map(true)) if self.exports.mapping => Ok(Mapper::Map),
            Some(Wire::Map(true)) => Err("mapper: it is `map`, but the component does not export \
                                          mortise:plugin/mapping; export it, or choose another mapper"
                .into()),
            Some(Wire::Owner(false) | Wire::SameName(false) | Wire::Map(false)) | None => {
                Err("mapper: one is required: owner, same_name, reference_field, index or map".into())
            }
        }
    }

    fn indexes(&self, of: &Gvk, wire: &[wire::Index]) -> Result<Vec<IndexDecl>, String> {
        use wire::index::By as Wire;
        if wire.len() > MAX_INDEXES {
            return Err(format!("indexes: at most {MAX_INDEXES}, got: {}", wire.len()));
        }
        let mut all: Vec<IndexDecl> = Vec::with_capacity(wire.len());
        for index in wire {
            let at = |what| format!("index {:?}: {what}", index.name);
            if !name::is_valid(&index.name) || index.name == BY_ID {
                return Err(at("its name must be lower-case letters, digits and dashes, and not \"id\"".into()));
            }
            if all.iter().any(|other| *other.name == *index.name) {
                return Err(at("declared twice; each needs a name of its own".into()));
            }
            let by = match &index.by {
                Some(Wire::Owner(true)) => IndexBy::Owner,
                Some(Wire::ReferenceField(path)) => IndexBy::Reference(self.reference(of, path).map_err(at)?),
                Some(Wire::ValueField(path)) => IndexBy::Value(self.value(of, path).map_err(at)?),
                Some(Wire::Owner(false)) | None => {
                    return Err(at("what it is by is required: owner, reference_field or value_field".into()));
                }
            };
            all.push(IndexDecl { name: index.name.as_str().into(), by });
        }
        Ok(all)
    }

    fn reference(&self, of: &Gvk, path: &str) -> Result<DataPath, String> {
        let path = DataPath::new(path).map_err(|what| format!("reference_field: {what}"))?;
        if let Some(message) = self.message(of) {
            path.references(message).map_err(|what| format!("reference_field: {what}"))?;
        }
        Ok(path)
    }

    fn value(&self, of: &Gvk, path: &str) -> Result<DataPath, String> {
        let path = DataPath::new(path).map_err(|what| format!("value_field: {what}"))?;
        if let Some(message) = self.message(of) {
            path.values(message).map_err(|what| format!("value_field: {what}"))?;
        }
        Ok(path)
    }
}

fn read_type(wire: Option<&wire::TypeName>) -> Result<Gvk, String> {
    let wire = wire.ok_or("a type is required")?;
    let gvk = Gvk::new(&wire.group, &wire.group_version, &wire.kind);
    match type_name_fault(&gvk) {
        Some(what) => Err(format!("type {gvk}: {what}")),
        None => Ok(gvk),
    }
}

#[cfg(test)]
mod tests;
