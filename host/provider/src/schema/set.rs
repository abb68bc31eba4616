//! All types of a server as resources and data sources, and the schema of the provider itself.

use std::{collections::BTreeMap, sync::Arc};

use mortise_resource::{pb, types::gvk};

use super::{
    actions::Action,
    attribute::type_of,
    description::TypeDescription,
    envelope,
    resource::{ResourceSchema, TypeError, block, resource_name, scope_of},
};
use crate::{proto::tfplugin6::Schema, value::Type};

/// Description of short-lived tokens.
pub(crate) const TOKEN_DESCRIPTION: &str =
    "A token for a run: made when core opens it, renewed while core uses it, and deleted when core closes it.";

/// The types of a server.
#[derive(Debug)]
pub struct ProviderSchema {
    prefix: String,
    resources: BTreeMap<String, ResourceSchema>,
    /// Reasons for types that were left out.
    pub left_out: Vec<TypeError>,
}

impl ProviderSchema {
    /// Builds the schema from the server's types. A kind with several versions gets the newest; the host's own
    /// tombstones are left out, since they are not for configurations.
    #[must_use]
    pub fn of(types: &[TypeDescription], prefix: &str) -> Self {
        let mut newest: BTreeMap<(&str, &str), &TypeDescription> = BTreeMap::new();
        for decl in types {
            let Some(kind) = decl.info.r#type.as_ref().filter(|kind| kind.group != "internal") else { continue };
            let known = newest.entry((kind.group.as_str(), kind.kind.as_str())).or_insert(decl);
            if version(decl) > version(known) {
                *known = decl;
            }
        }
        let scope = |description: &TypeDescription| {
            let kind = description.info.r#type.clone()?;
            Some(((kind.group, kind.kind), scope_of(&description.info)))
        };
        let scopes = Arc::new(types.iter().filter_map(scope).collect());
        let mut all = Self { prefix: prefix.to_owned(), resources: BTreeMap::new(), left_out: Vec::new() };
        for into_value in newest.into_values() {
            match ResourceSchema::of(&into_value.info, &into_value.descriptors, prefix, Arc::clone(&scopes)) {
                Ok(schema) => all.add(schema),
                Err(error) => all.left_out.push(error),
            }
        }
        all
    }

    fn add(&mut self, schema: ResourceSchema) {
        match self.resources.get(&schema.name) {
            Some(known) => self.left_out.push(TypeError::Clash {
                one: gvk(&known.kind),
                other: gvk(&schema.kind),
                name: schema.name,
            }),
            None => drop(self.resources.insert(schema.name.clone(), schema)),
        }
    }

    /// The schema of a name.
    #[must_use]
    pub fn resource(&self, name: &str) -> Option<&ResourceSchema> {
        self.resources.get(name)
    }

    /// All schemas.
    pub fn resources(&self) -> impl Iterator<Item = &ResourceSchema> {
        self.resources.values()
    }

    /// The name of a type's resources, even if the server does not have the type.
    #[must_use]
    pub fn name_of(&self, kind: &pb::Type) -> String {
        resource_name(&self.prefix, kind)
    }

    /// The name of the data source that lists resources.
    #[must_use]
    pub fn list_name(&self) -> String {
        list_name(&self.prefix)
    }

    /// The name of the ephemeral resource for tokens. No type has it: their names have a group and a kind.
    #[must_use]
    pub fn token_name(&self) -> String {
        format!("{}_token", self.prefix)
    }

    /// The actions, by name.
    pub fn actions(&self) -> impl Iterator<Item = (String, Action)> {
        Action::ALL.into_iter().map(|action| (format!("{}_{}", self.prefix, action.short_name()), action))
    }

    /// The action of a name.
    #[must_use]
    pub fn action(&self, name: &str) -> Option<Action> {
        self.actions().find(|(known, _)| known == name).map(|(_, action)| action)
    }

    /// The schema of the data source that lists resources, in core's form. It hides the data of resources if a type has
    /// fields with `debug_redact`: one schema serves the lists of all types.
    #[must_use]
    pub fn list_to_proto(&self) -> Schema {
        let has_secrets = self.resources.values().any(|resource| resource.data.has_secrets());
        Schema { version: 0, block: Some(block(&envelope::list(has_secrets), "Resources of a type.")) }
    }
}

/// The name of the data source that lists resources.
#[must_use]
pub fn list_name(prefix: &str) -> String {
    format!("{prefix}_resources")
}

/// The type of a short-lived token.
#[must_use]
pub fn token_type() -> Type {
    type_of(&envelope::token())
}

/// The schema of a short-lived token in core's form.
#[must_use]
pub fn token_to_proto() -> Schema {
    Schema { version: 0, block: Some(block(&envelope::token(), TOKEN_DESCRIPTION)) }
}

/// The type of the provider's configuration.
#[must_use]
pub fn provider_type() -> Type {
    type_of(&envelope::provider())
}

/// The provider's schema in core's form.
#[must_use]
pub fn provider_to_proto() -> Schema {
    Schema { version: 0, block: Some(block(&envelope::provider(), "A Mortise server.")) }
}

/// The type of the configuration of the data source that lists resources.
#[must_use]
pub fn list_type() -> Type {
    type_of(&envelope::list(false))
}

fn version(description: &TypeDescription) -> Option<(bool, u64, &str, u64)> {
    description.info.r#type.as_ref().map(|kind| rank(&kind.group_version))
}

/// Orders versions as Kubernetes does: `v1alpha1`, `v1beta2`, `v1`, `v2`.
fn rank(version: &str) -> (bool, u64, &str, u64) {
    let rest = version.strip_prefix('v').unwrap_or(version);
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(end);
    let stage = rest.trim_end_matches(|letter: char| letter.is_ascii_digit());
    (stage.is_empty(), number(major), stage, number(rest.get(stage.len()..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_order() {
        let mut versions = ["v2beta1", "v1", "v10", "v1alpha1", "v2", "v1beta10", "v1beta2"];
        versions.sort_by_key(|version| rank(version));
        assert_eq!(versions, ["v1alpha1", "v1beta2", "v1beta10", "v2beta1", "v1", "v2", "v10"]);
    }
}
