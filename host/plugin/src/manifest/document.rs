//! A plugin's manifest, read and checked. Its bytes are not trusted: a bad manifest is refused, and does no other harm.

use std::{
    collections::{BTreeMap, HashSet},
    num::NonZeroU32,
    sync::Arc,
};

use mortise_query::{IndexPath, Mask, Schema};
use mortise_resource::{
    Scope, manifest as wire, name, pb,
    redaction::{Redaction, Secrets},
    types::Gvk,
};
use prost::Message as _;
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};

use crate::{
    grants::requests::GrantRequests,
    manifest::{
        controllers::{self, ControllerDecl},
        descriptors,
        error::ManifestError,
        exports::Exports,
        field_path::{DataPath, resolve},
        functions::{self, FunctionDecl},
        permission::Permissions,
        references::ReferenceDecls,
        scope::ScopeOptions,
        type_name::type_name,
    },
};

/// A plugin's manifest, in checked form.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Name of the plugin.
    pub name: Arc<str>,
    /// Version of the plugin.
    pub version: Arc<str>,
    /// Types; at least one.
    pub types: Vec<TypeDecl>,
    /// Every message of the plugin, and the well-known ones.
    pub pool: DescriptorPool,
    /// Fields marked with `debug_redact`; `None` if the data of no type has one.
    pub redaction: Option<Redaction>,
    /// Limits that the plugin sets for itself.
    pub limits: wire::Limits,
    /// Controllers; most plugins have none.
    pub controllers: Vec<ControllerDecl>,
    /// Requests for grants; `None`: the plugin requests nothing by name, and gets everything that is granted.
    pub requests: Option<GrantRequests>,
    /// Functions, by name.
    pub functions: BTreeMap<String, FunctionDecl>,
    /// Areas of its own in permissions that its hooks ask about.
    pub areas: Vec<String>,
    /// Whether the plugin declares its hooks pure, so that an instance may serve several requests.
    pub reuses_instances: bool,
}

/// A resource type of a plugin.
#[derive(Debug, Clone)]
pub struct TypeDecl {
    /// Name of the type.
    pub gvk: Gvk,
    /// Scope; never [`Scope::Undefined`].
    pub scope: Scope,
    /// Message in `data`.
    pub message: MessageDescriptor,
    /// Version of the meaning of stored data.
    pub schema_version: NonZeroU32,
    /// Hooks that are called for it.
    pub hooks: Hooks,
    /// Permissions that replace authorize hooks.
    pub permissions: Permissions,
    /// Fields that an update may not change.
    pub immutable: Vec<Vec<FieldDescriptor>>,
    /// Columns for tables.
    pub columns: Vec<wire::PrinterColumn>,
    /// Short names for command lines.
    pub short_names: Vec<String>,
    /// Types whose resources can be moved to this type.
    pub moved_from: Vec<Gvk>,
    /// Options for counting, showing and finding resources.
    pub query: QueryDecl,
    /// Fields of the data that refer to other resources.
    pub references: ReferenceDecls,
    /// Regions of its resources.
    pub regions: RegionDecl,
    /// Whether owners of owner references may be in other namespaces and partitions.
    pub owners_anywhere: bool,
}

/// Region options of a type.
#[derive(Debug, Clone, Default)]
pub struct RegionDecl {
    /// Field that names the region, which cannot be changed; empty if there is no such field.
    pub field: Vec<FieldDescriptor>,
    /// Regions that may have replicas.
    pub syncing: wire::RegionSyncing,
}

/// Options for counting, showing and finding resources of a type.
#[derive(Debug, Clone, Default)]
pub struct QueryDecl {
    /// Fields whose changes raise the generation; if empty, all fields do.
    pub spec: Vec<Vec<FieldDescriptor>>,
    /// Paths that the view BASIC shows.
    pub basic_view: Vec<String>,
    /// Paths that the view DETAIL shows.
    pub detail_view: Vec<String>,
    /// Paths that have an index.
    pub indexed: Vec<IndexPath>,
}

/// Hooks that are called for a type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hooks {
    /// `mutating.mutate`.
    pub mutate: bool,
    /// `validating.validate`.
    pub validate: bool,
    /// `authorizing.read`.
    pub authorize_read: bool,
    /// `authorizing.write`.
    pub authorize_write: bool,
    /// `authorizing.list`.
    pub authorize_list: bool,
    /// `planning.plan`.
    pub plan: bool,
    /// `importing.import`.
    pub import: bool,
}

/// Capabilities that a plugin may name in its manifest.
const CAPABILITIES: [&str; 17] = [
    "authorizer",
    "cache",
    "cache-pages",
    "clock",
    "config",
    "files",
    "http",
    "kv",
    "log",
    "lookup",
    "private-bytes",
    "probes",
    "queries",
    "resources",
    "run",
    "secrets",
    "tcp",
];

/// Longest version, bytes.
const MAX_VERSION: usize = 64;

/// Most types of one plugin.
const MAX_TYPES: usize = 256;

/// Most areas of one plugin.
const MAX_AREAS: usize = 32;

/// Most source types of moves to one type.
const MAX_MOVED_FROM: usize = 16;

/// Most indexed fields of one type.
const MAX_INDEXED: usize = 8;

impl Manifest {
    /// Reads and checks a manifest.
    pub(crate) fn read(bytes: &[u8], exports: Exports) -> Result<Self, ManifestError> {
        let wire = wire::Manifest::decode(bytes).map_err(|source| {
            ManifestError::caused_by(source).at("describe did not return a mortise.plugin.v1.Manifest")
        })?;
        if let Some(why) = name::fault(&wire.name) {
            return Err(fault(why.replace("a resource name", "a plugin's name")).at("name"));
        }
        if wire.version.len() > MAX_VERSION || semver::Version::parse(&wire.version).is_err() {
            let fault = fault(format!("must be a semantic version such as \"1.2.3\", got: {:?}", wire.version));
            return Err(fault.at("version"));
        }
        if let Some(unknown) = wire.capabilities.iter().find(|c| !CAPABILITIES.contains(&c.as_str())) {
            return Err(fault(format!(
                "capabilities: this host does not know {unknown:?}; it knows {}",
                CAPABILITIES.join(", ")
            )));
        }
        if wire.types.is_empty() || wire.types.len() > MAX_TYPES {
            return Err(fault(format!("types: must be 1 to {MAX_TYPES}, got: {}", wire.types.len())));
        }

        let pool = descriptors::pool(&wire.descriptors.unwrap_or_default()).map_err(|fault| fault.at("descriptors"))?;
        let scopes = ScopeOptions::read(&pool);
        let mut seen = HashSet::new();
        let mut types = Vec::with_capacity(wire.types.len());
        for declared in wire.types {
            let decl = TypeDecl::read(declared, (&pool, &scopes), exports)?;
            if !seen.insert(decl.gvk.clone()) {
                return Err(fault(format!("type {}: declared twice; declare it once", decl.gvk)));
            }
            types.push(decl);
        }
        let controllers = controllers::read(wire.controllers, &types, exports)?;
        let functions = functions::read(wire.functions, exports)?;
        let requests = wire.requests.map(GrantRequests::read).transpose();
        let requests = requests.map_err(|source| ManifestError::caused_by(source).at("requests"))?;
        if wire.areas.len() > MAX_AREAS {
            return Err(fault(format!("areas: at most {MAX_AREAS}, got: {}", wire.areas.len())));
        }
        let is_area = |area: &String| {
            let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
            (1..=64).contains(&area.len())
                && area.starts_with(|letter: char| letter.is_ascii_lowercase())
                && area.bytes().all(is_part)
                && !area.ends_with("_prefix")
        };
        if let Some(odd) = wire.areas.iter().find(|area| !is_area(area)) {
            let what = "use 1 to 64 lower-case letters, digits, `-` and `_`, a letter first, and no `_prefix`";
            return Err(fault(format!("areas: {odd:?} is not an area; {what}")));
        }
        let redaction =
            Redaction::from_pool(&pool).filter(|redaction| types.iter().any(|decl| redaction.is_within(&decl.message)));
        Ok(Self {
            requests,
            name: wire.name.into(),
            version: wire.version.into(),
            types,
            redaction,
            pool,
            limits: wire.limits.unwrap_or_default(),
            controllers,
            functions,
            areas: wire.areas,
            // A value that this host does not know asks for less than a fresh instance, so a fresh one is right.
            reuses_instances: wire.instances == i32::from(wire::Instances::Reuse),
        })
    }

    /// Adds the contents of a resource's redacted fields to `secrets`, if its type is the plugin's.
    pub fn note_secrets(&self, resource: &pb::Resource, secrets: &mut Secrets) {
        let resource_type = resource.id.as_ref().and_then(|id| id.r#type.as_ref());
        if let (Some(resource_type), Some(data)) = (resource_type, &resource.data) {
            self.note_secrets_of_data(resource_type, &data.value, secrets);
        }
    }

    /// Adds the contents of redacted fields in a type's encoded data to `secrets`.
    pub(crate) fn note_secrets_of_data(&self, resource_type: &pb::Type, data: &[u8], secrets: &mut Secrets) {
        let Some(redaction) = &self.redaction else { return };
        if let Some(decl) = self.types.iter().find(|decl| decl.gvk.matches(resource_type))
            && redaction.is_within(&decl.message)
        {
            secrets.note(redaction, &decl.message, data);
        }
    }
}

impl TypeDecl {
    fn read(
        wire: wire::ResourceType,
        (pool, scopes): (&DescriptorPool, &ScopeOptions),
        exports: Exports,
    ) -> Result<Self, ManifestError> {
        let gvk = Gvk::new(wire.group, wire.group_version, wire.kind);
        let in_type = |fault: ManifestError| fault.at(format!("type {gvk}"));
        type_name(&gvk).map_err(in_type)?;
        let message = pool.get_message_by_name(&wire.message).ok_or_else(|| {
            let message = &wire.message;
            in_type(fault(format!(
                "message {message:?} is not in the manifest's descriptors; add the file that defines it"
            )))
        })?;
        let scope = scopes.scope(wire.scope, &message).map_err(in_type)?;
        let hooks = read_hooks(&wire.hooks.unwrap_or_default(), exports).map_err(in_type)?;
        let permissions = Permissions::read(&wire.permissions.unwrap_or_default()).map_err(in_type)?;
        for (question, hook, permission) in [
            ("read", hooks.authorize_read, &permissions.read),
            ("write", hooks.authorize_write, &permissions.write),
            ("list", hooks.authorize_list, &permissions.list),
        ] {
            if hook && permission.is_some() {
                return Err(in_type(fault(format!(
                    "{question} has both a hook and a permission; keep one of the two"
                ))));
            }
        }
        let fields = |what: &'static str, paths: &[String]| -> Result<Vec<Vec<FieldDescriptor>>, ManifestError> {
            let resolve = |path: &String| {
                let found = DataPath::new(path).and_then(|path| resolve(&message, &path));
                found.map_err(|source| in_type(ManifestError::caused_by(source).at(what)))
            };
            paths.iter().map(resolve).collect()
        };
        let mut immutable = fields("immutable_fields", &wire.immutable_fields)?;
        let regions = RegionDecl::read(&wire.regions.unwrap_or_default(), &message).map_err(in_type)?;
        if !regions.field.is_empty() && !immutable.contains(&regions.field) {
            immutable.push(regions.field.clone());
        }
        let query = wire.query.unwrap_or_default();
        let schema = Schema::new(Some(message.clone()));
        let view = |what: &'static str, paths: Vec<String>| match Mask::parse(&paths, &schema) {
            Ok(_) => Ok(paths),
            Err(source) => Err(in_type(ManifestError::caused_by(source).at(what))),
        };
        let query = QueryDecl {
            spec: fields("query.spec_fields", &query.spec_fields)?,
            basic_view: view("query.basic_view", query.basic_view)?,
            detail_view: view("query.detail_view", query.detail_view)?,
            indexed: indexed(&query.indexed_fields, &schema)
                .map_err(|fault| in_type(fault.at("query.indexed_fields")))?,
        };
        let bad_short = wire.short_names.iter().find(|s| !name::is_valid(s));
        if let Some(short) = bad_short {
            let fault = fault(format!("must be lower-case letters, digits and dashes, got: {short:?}"));
            return Err(in_type(fault.at("short_names")));
        }
        let moved_from = read_moved_from(wire.moved_from, &gvk, exports).map_err(in_type)?;
        let references = ReferenceDecls::read(pool, &message).map_err(in_type)?;
        Ok(Self {
            scope,
            message,
            schema_version: NonZeroU32::new(wire.schema_version).unwrap_or(NonZeroU32::MIN),
            hooks,
            permissions,
            immutable,
            columns: wire.printer_columns,
            short_names: wire.short_names,
            moved_from,
            query,
            references,
            regions,
            owners_anywhere: wire.owners_anywhere,
            gvk,
        })
    }
}

impl RegionDecl {
    fn read(wire: &wire::RegionOptions, message: &MessageDescriptor) -> Result<Self, ManifestError> {
        let syncing = wire::RegionSyncing::try_from(wire.syncing)
            .map_err(|_| fault(format!("this host does not know {}", wire.syncing)).at("regions.syncing"))?;
        let field = match wire.field.as_str() {
            "" => Vec::new(),
            path => DataPath::new(path)
                .and_then(|path| resolve(message, &path))
                .map_err(|source| ManifestError::caused_by(source).at("regions.field"))?,
        };
        match field.last() {
            Some(last) if last.is_list() || last.is_map() || last.kind() != Kind::String => {
                Err(fault(format!("{:?} is not a string; name a field of type string", wire.field)).at("regions.field"))
            }
            _ => Ok(Self { field, syncing }),
        }
    }
}

fn fault(what: String) -> ManifestError {
    ManifestError::new(what)
}

fn read_hooks(wire: &wire::Hooks, exports: Exports) -> Result<Hooks, ManifestError> {
    let authorizes = wire.authorize_read || wire.authorize_write || wire.authorize_list;
    for (named, exported, interface) in [
        (wire.mutate, exports.mutating, "mutating"),
        (wire.validate, exports.validating, "validating"),
        (authorizes, exports.authorizing, "authorizing"),
        (wire.plan, exports.planning, "planning"),
        (wire.import, exports.importing, "importing"),
    ] {
        if named && !exported {
            return Err(fault(format!(
                "hooks name {interface}, but the component does not export mortise:plugin/{interface}; export it, or \
                 take the hook out of the manifest"
            )));
        }
    }
    Ok(Hooks {
        mutate: wire.mutate,
        validate: wire.validate,
        authorize_read: wire.authorize_read,
        authorize_write: wire.authorize_write,
        authorize_list: wire.authorize_list,
        plan: wire.plan,
        import: wire.import,
    })
}

fn indexed(paths: &[String], schema: &Schema) -> Result<Vec<IndexPath>, ManifestError> {
    if paths.len() > MAX_INDEXED {
        return Err(fault(format!("at most {MAX_INDEXED} fields, got: {}", paths.len())));
    }
    let mut indexed: Vec<IndexPath> = Vec::with_capacity(paths.len());
    for path in paths {
        let index_path = IndexPath::parse(path, schema).map_err(ManifestError::caused_by)?;
        if indexed.iter().any(|other| other.name() == index_path.name()) {
            return Err(fault(format!("{} is named twice; name each field once", index_path.name())));
        }
        indexed.push(index_path);
    }
    Ok(indexed)
}

fn read_moved_from(wire: Vec<wire::TypeName>, owner: &Gvk, exports: Exports) -> Result<Vec<Gvk>, ManifestError> {
    let in_moved_from = |fault: ManifestError| fault.at("moved_from");
    if !wire.is_empty() && !exports.moving {
        let what = "the component does not export mortise:plugin/moving; export it, or take the types out";
        return Err(in_moved_from(ManifestError::new(what)));
    }
    if wire.len() > MAX_MOVED_FROM {
        return Err(in_moved_from(fault(format!("at most {MAX_MOVED_FROM} types, got: {}", wire.len()))));
    }
    let mut from: Vec<Gvk> = Vec::with_capacity(wire.len());
    for wire::TypeName { group, group_version, kind } in wire {
        let gvk = Gvk::new(group, group_version, kind);
        type_name(&gvk).map_err(in_moved_from)?;
        if (&gvk.group, &gvk.kind) == (&owner.group, &owner.kind) || from.contains(&gvk) {
            return Err(in_moved_from(fault(format!(
                "{gvk} is the type itself, or named twice; name other types, once each"
            ))));
        }
        from.push(gvk);
    }
    Ok(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_a_hook_or_a_permission() {
        let files = mortise_resource::descriptors::FileDescriptorSet::decode(mortise_resource::DESCRIPTORS).unwrap();
        let pool = descriptors::pool(&files).unwrap();
        let exports = Exports { authorizing: true, ..Exports::default() };
        let key = wire::Permission { permission: "key:read".into(), on: "{name}".into() };
        let declare = |hooks, permissions| {
            let declared = wire::ResourceType {
                group: "demo".into(),
                group_version: "v1".into(),
                kind: "Thing".into(),
                scope: wire::Scope::Cluster.into(),
                message: "hashicorp.consul.resource.Tombstone".into(),
                hooks: Some(hooks),
                permissions: Some(permissions),
                ..wire::ResourceType::default()
            };
            TypeDecl::read(declared, (&pool, &ScopeOptions::read(&pool)), exports).map_err(|e| e.to_string())
        };
        let writes = wire::Hooks { authorize_write: true, ..wire::Hooks::default() };
        let read = wire::Permissions { read: Some(key.clone()), ..wire::Permissions::default() };
        let decl = declare(writes, read).unwrap();
        assert!(decl.permissions.read.is_some() && decl.hooks.authorize_write);
        let write = wire::Permissions { write: Some(key), ..wire::Permissions::default() };
        let refused = declare(writes, write).unwrap_err();
        assert!(refused.contains("type demo.v1.Thing: write has both a hook and a permission"), "{refused}");
    }
}
