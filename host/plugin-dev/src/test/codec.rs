//! Resources in the form of cases and recordings: that of `mortise apply`, typed by the plugin's descriptors.

use mortise_plugin_host::{Manifest, TypeDecl};
use mortise_resource::{Scope, pb, tenancy::DEFAULT, types::Gvk};
use mortise_text::{Diagnostics, Format, Indent, Source, TypeTable, Types as _};
use serde_json::{Value, json};

use super::error::CaseError;

/// Types that cases may name.
#[derive(Default)]
pub(crate) struct Codec {
    types: TypeTable,
    kinds: Vec<Gvk>,
}

impl Codec {
    /// Adds the types of a plugin.
    pub(crate) fn add(&mut self, manifest: &Manifest) {
        for TypeDecl { gvk, message, scope, short_names, .. } in &manifest.types {
            self.types.add_message(gvk.clone(), message.clone(), Some(*scope), short_names.clone());
            self.kinds.push(gvk.clone());
        }
    }

    /// Reads a resource. A missing tenancy is `default`, as far as the type has any.
    ///
    /// # Errors
    /// The faults of the resource, one a line; `what` names it.
    pub(crate) fn read(&self, what: &str, value: &Value) -> Result<pb::Resource, CaseError> {
        let text = value.to_string();
        let source = Source { name: what, text: &text };
        let wrong = |source: Diagnostics| CaseError::Resource { field: what.to_owned(), source };
        let mut documents = mortise_text::parse(source, Some(Format::Json), &self.types).map_err(wrong)?;
        let (Some(mut document), true) = (documents.pop(), documents.is_empty()) else {
            return Err(format!("{what}: it must be one resource: a map with type, name and data").into());
        };
        document.place_in("default", "default", &self.types);
        let status = document.status(&self.types).map_err(wrong)?;
        let mut resource = document.resource;
        if let (Some(owner), Some(id)) = (&mut resource.owner, &resource.id) {
            let scope = owner
                .r#type
                .as_ref()
                .and_then(|resource_type| self.types.scope(resource_type))
                .unwrap_or(Scope::Undefined);
            owner.tenancy.get_or_insert_with(|| id.tenancy.clone().unwrap_or_default());
            if let Some(tenancy) = &mut owner.tenancy {
                scope.fill(tenancy);
            }
        }
        resource.status = status;
        Ok(resource)
    }

    /// Finds the type for a name in a case: `group.version.Kind`, a kind, or a short name.
    ///
    /// # Errors
    /// No type matches, or more than one.
    pub(crate) fn named(&self, name: &str) -> Result<Gvk, CaseError> {
        match self.types.named(name).as_slice() {
            [single] => Ok(single.into()),
            [] => {
                let known = self.kinds.iter().map(Gvk::to_string).collect::<Vec<_>>().join(", ");
                let text = "--with FILE.wasm adds those of another plugin";
                Err(format!("there is no type {name:?}, only {known}; {text}").into())
            }
            _ => Err(format!("{name:?} means more than one type; write group.version.Kind").into()),
        }
    }

    /// Returns the message of a type.
    pub(crate) fn message(&self, gvk: &Gvk) -> Option<prost_reflect::MessageDescriptor> {
        self.types.message(&gvk.to_pb())
    }

    pub(crate) fn scope(&self, gvk: &Gvk) -> Scope {
        self.types.scope(&gvk.to_pb()).unwrap_or(Scope::Undefined)
    }

    /// Tenancy of a resource of a type; a part that the case leaves out is `default`, as far as the type has it.
    pub(crate) fn tenancy(&self, gvk: &Gvk, partition: Option<&String>, namespace: Option<&String>) -> pb::Tenancy {
        let unit = |given: Option<&String>| given.cloned().unwrap_or_default();
        let mut tenancy = pb::Tenancy { partition: unit(partition), namespace: unit(namespace) };
        match self.scope(gvk) {
            // The scope of a foreign type is unknown.
            Scope::Undefined => pb::Tenancy { partition: DEFAULT.into(), namespace: DEFAULT.into() },
            scope => {
                scope.fill(&mut tenancy);
                tenancy
            }
        }
    }

    /// Renders a resource as YAML.
    pub(crate) fn yaml(&self, resource: &pb::Resource) -> String {
        mortise_text::to_yaml(resource, &self.types)
    }

    /// Renders a resource as JSON.
    pub(crate) fn json(&self, resource: &pb::Resource) -> Value {
        serde_json::from_str(&mortise_text::to_json(resource, &self.types, Indent::Compact)).unwrap_or_default()
    }

    /// Renders a status as JSON.
    pub(crate) fn status(&self, status: &pb::Status) -> Value {
        let status = std::collections::BTreeMap::from([("k".to_owned(), status.clone())]);
        let mut json = self.json(&pb::Resource { status, ..pb::Resource::default() });
        json.pointer_mut("/status/k").map(Value::take).unwrap_or_default()
    }
}

/// Renders an id as JSON, without its empty parts.
pub(crate) fn id_json(id: &pb::Id) -> Value {
    let tenancy = id.tenancy.clone().unwrap_or_default();
    let mut json = json!({"type": type_name(id.r#type.as_ref()), "name": id.name});
    for (key, value) in [("partition", tenancy.partition), ("namespace", tenancy.namespace), ("uid", id.uid.clone())] {
        if let (false, Some(json)) = (value.is_empty(), json.as_object_mut()) {
            json.insert(key.into(), value.into());
        }
    }
    json
}

/// `group.version.Kind`.
pub(crate) fn type_name(resource_type: Option<&pb::Type>) -> String {
    resource_type.map(mortise_resource::types::gvk).unwrap_or_default()
}

/// `group.version.Kind/name`.
pub(crate) fn short(id: &pb::Id) -> String {
    format!("{}/{}", type_name(id.r#type.as_ref()), id.name)
}
