//! Requests for configurations.

use std::collections::BTreeMap;

use mortise_resource::{Scope, meta, pb, tenancy};

use super::ControllerKeys;
use crate::{
    mapping::to_data,
    schema::ResourceSchema,
    value::{Step, Value, ValueError},
};

/// Default tenancy units of resources, from the provider's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Defaults {
    /// The partition; `None` leaves it to the server.
    pub partition: Option<String>,
    /// The namespace; `None` leaves it to the server.
    pub namespace: Option<String>,
    /// The labels of every resource whose configuration has none of the key.
    pub labels: BTreeMap<String, String>,
    /// The keys that controllers own.
    pub controller_keys: ControllerKeys,
}

impl Defaults {
    /// The defaults with the token's own place where they leave a unit out. Its namespace belongs to its partition, and
    /// is not used in another one.
    #[must_use]
    pub fn or_own(&self, config: &Value, own: &pb::Tenancy) -> Self {
        let or_default = |unit: &str| if unit.is_empty() { tenancy::DEFAULT.to_owned() } else { unit.to_owned() };
        let (partition, namespace) = (or_default(&own.partition), or_default(&own.namespace));
        let wanted = tenancy_of(Scope::Partition, config, self).partition;
        let is_own = wanted.is_empty() || wanted == partition;
        let namespace = if is_own { namespace } else { tenancy::DEFAULT.to_owned() };
        Self {
            partition: Some(self.partition.clone().unwrap_or(partition)),
            namespace: Some(self.namespace.clone().unwrap_or(namespace)),
            labels: self.labels.clone(),
            controller_keys: self.controller_keys.clone(),
        }
    }
}

/// Makes the resource that a configuration describes; all parts that are sent must be known.
///
/// # Errors
/// The faults of the configuration, by path.
pub fn request(schema: &ResourceSchema, config: &Value, defaults: &Defaults) -> Result<pb::Resource, Vec<ValueError>> {
    let mut faults = Vec::new();
    let metadata = metadata(config.get("metadata"), &mut faults);
    let data = to_data(&schema.data, config.get("data")).map_err(|found| {
        faults.extend(found.into_iter().map(|fault| fault.within(Step::Attribute("data".to_owned()))));
    });
    match (data, faults.is_empty()) {
        (Ok(data), true) => Ok(pb::Resource {
            id: Some(resource_id(schema, config, defaults)),
            owner: owner(schema, config, defaults),
            metadata,
            data: Some(data),
            ..pb::Resource::default()
        }),
        _ => Err(faults),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The id that a configuration or a state names, without a uid.
#[must_use]
pub fn resource_id(schema: &ResourceSchema, config: &Value, defaults: &Defaults) -> pb::Id {
    pb::Id {
        name: text(config.get("name")),
        r#type: Some(schema.kind.clone()),
        tenancy: Some(tenancy_of(schema.scope, config, defaults)),
        uid: String::new(),
    }
}

/// The id of the resource of a state, with its uid.
#[must_use]
pub fn known_id(schema: &ResourceSchema, state: &Value) -> pb::Id {
    pb::Id { uid: text(state.get("uid")), ..resource_id(schema, state, &Defaults::default()) }
}

/// The tenancy units that a configuration names, or else the provider's defaults.
#[must_use]
pub fn tenancy_of(scope: Scope, config: &Value, defaults: &Defaults) -> pb::Tenancy {
    let or = |name: &str, default: &Option<String>| match config.get(name).as_str() {
        Some(unit) if !unit.is_empty() => unit.to_owned(),
        _ => default.clone().unwrap_or_default(),
    };
    let partition = || or("partition", &defaults.partition);
    match scope {
        Scope::Cluster | Scope::Undefined => pb::Tenancy::default(),
        Scope::Partition => pb::Tenancy { partition: partition(), namespace: String::new() },
        Scope::Namespace => pb::Tenancy { partition: partition(), namespace: or("namespace", &defaults.namespace) },
    }
}

fn metadata(config: &Value, faults: &mut Vec<ValueError>) -> meta::Metadata {
    let Value::Map(entries) = config else { return meta::Metadata::new() };
    let mut metadata = meta::Metadata::new();
    for (key, value) in entries {
        let path = vec![Step::Attribute("metadata".to_owned()), Step::Key(key.clone())];
        match value {
            _ if key == meta::FINALIZERS || key == meta::DELETION_TIMESTAMP => {
                faults.push(ValueError {
                    path,
                    what: format!("the server sets {key}; remove it from the configuration"),
                });
            }
            Value::String(text) => drop(metadata.insert(key.clone(), text.clone())),
            _ => faults.push(ValueError { path, what: "null cannot be an element".to_owned() }),
        }
    }
    metadata
}

/// The units of an owner's place that are the resource's own: those that the owner's type has, and that its
/// configuration leaves out.
#[must_use]
pub fn owner_units(schema: &ResourceSchema, owner: &Value) -> Vec<&'static str> {
    let units: &[&str] = match schema.scope_of(&text(owner.get("group")), &text(owner.get("kind"))) {
        Some(Scope::Namespace) => &["partition", "namespace"],
        Some(Scope::Partition) => &["partition"],
        Some(Scope::Cluster | Scope::Undefined) | None => &[],
    };
    units.iter().filter(|unit| text(owner.get(unit)).is_empty()).copied().collect()
}

/// Whether the owner is in the place of the resource, and that is for the server to decide. The server completes the
/// place of a resource, but not that of its owner.
#[must_use]
pub fn has_unplaced_owner(schema: &ResourceSchema, config: &Value, defaults: &Defaults) -> bool {
    let own = tenancy_of(schema.scope, config, defaults);
    owner_units(schema, config.get("owner")).iter().any(|unit| match *unit {
        "partition" => own.partition.is_empty(),
        _ => own.namespace.is_empty(),
    })
}

fn owner(schema: &ResourceSchema, config: &Value, defaults: &Defaults) -> Option<pb::Id> {
    let value = config.get("owner");
    let Value::Map(_) = value else { return None };
    let part = |name: &str| text(value.get(name));
    let own = tenancy_of(schema.scope, config, defaults);
    let units = owner_units(schema, value);
    let unit = |name: &str, own: String| match (units.contains(&name), own.is_empty()) {
        (false, _) => part(name),
        (true, true) => tenancy::DEFAULT.to_owned(),
        (true, false) => own,
    };
    Some(pb::Id {
        name: part("name"),
        uid: part("uid"),
        r#type: Some(pb::Type { group: part("group"), group_version: part("group_version"), kind: part("kind") }),
        tenancy: Some(pb::Tenancy {
            partition: unit("partition", own.partition),
            namespace: unit("namespace", own.namespace),
        }),
    })
}
