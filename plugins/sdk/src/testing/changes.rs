//! Calls of the host besides writes and reconciles: plans, moves, imports, and functions.

use mortise_resource::pb;
use prost::Message;

use super::{
    World,
    failures::{decode, refusal},
    fields,
};
use crate::{Data, Diagnostics, Failure, FunctionFault, Kind, Plugin, Typed, Value, raw::NewResource};

/// Result of [`World::plan`].
#[derive(Debug, Clone, PartialEq)]
pub struct PlanAnswer<M> {
    /// The resource as controllers will finally make it.
    pub predicted: Typed<M>,
    /// Paths of the fields that require a replacement, such as `data.title`: those that the server does not change in
    /// place, then those of the plan hook. Empty if no resource is stored.
    pub replace: Vec<String>,
    /// Warnings of `validate`, then those of the plan hook; errors refuse the plan.
    pub warnings: Diagnostics,
}

/// Result of [`World::move_to`] and [`World::import`].
#[derive(Debug, Clone, PartialEq)]
pub struct AdoptedResource<M> {
    /// The resource, which was not written.
    pub resource: Typed<M>,
    /// Private bytes for it.
    pub kept: Option<Vec<u8>>,
}

impl World {
    /// Plans a write as for a client, with a server's order of the hooks: `mutate` and `validate` without the stored
    /// resource, then the plan hook; if nothing has to be replaced, `validate` once more with the stored resource, whose
    /// warnings count. Writes nothing.
    ///
    /// # Errors
    /// A hook's refusal.
    pub fn plan<M: Data>(&self, resource: &Typed<M>) -> Result<PlanAnswer<M>, Failure> {
        let resource: pb::Resource = decode(&resource.to_bytes()?)?;
        let stored = resource.id.as_ref().and_then(|id| self.store.borrow().read(id).cloned());
        self.with_lookups(|| {
            let (input, mut warnings) = self.admit(resource, None)?;
            let kept = stored.as_ref().and_then(|stored| self.private_bytes(stored.id.as_ref()?));
            let prior = stored.as_ref().map(Message::encode_to_vec);
            let input_bytes = input.encode_to_vec();
            let plan = self.plugin().plan(&input_bytes, prior.as_deref(), kept.as_deref());
            if plan.diagnostics.has_errors() {
                return Err(refusal(&plan.diagnostics));
            }
            let mut replace = Vec::new();
            if let Some(stored) = &stored {
                replace = self.fixed_by_host(stored, &input);
                replace.extend(plan.replace.iter().map(ToString::to_string));
                replace.dedup();
                if replace.is_empty() {
                    warnings = self.validate(&input, Some(stored))?;
                }
            }
            warnings.extend(plan.diagnostics);
            let predicted = Typed::stored(plan.predicted.as_deref().unwrap_or(&input_bytes))?;
            Ok(PlanAnswer { predicted, replace, warnings })
        })
    }

    /// Paths that the server does not change in place: the owner, and immutable fields.
    fn fixed_by_host(&self, stored: &pb::Resource, resource: &pb::Resource) -> Vec<String> {
        let mut owner = resource.owner.clone();
        if let (Some(given), Some(known)) = (&mut owner, &stored.owner)
            && given.uid.is_empty()
        {
            given.uid.clone_from(&known.uid);
        }
        let mut fixed = Vec::new();
        if owner != stored.owner {
            fixed.push("owner".to_owned());
        }
        let type_of = |one: &pb::Resource| one.id.as_ref().and_then(|id| id.r#type.clone());
        if let Some(of) = self.type_of(resource).filter(|_| type_of(stored) == type_of(resource)) {
            let [before, after] =
                [stored, resource].map(|one| one.data.as_ref().map_or(&[][..], |data| data.value.as_slice()));
            let changed = |field: &&String| fields::differ(&self.files, &of.message, field, before, after);
            fixed.extend(of.immutable_fields.iter().filter(changed).map(|field| format!("data.{field}")));
        }
        fixed
    }

    /// Moves a stored resource to another type, without writing it. Its data is of schema version 1.
    ///
    /// # Errors
    /// The resource does not exist, or the hook refuses.
    pub fn move_to<M: Data>(&self, source: &pb::Id, to: Kind<M>) -> Result<AdoptedResource<M>, Failure> {
        let gone = || Failure::new(Failure::NOT_FOUND, format!("there is no {:?}", source.name));
        let stored = self.store.borrow().read(source).cloned().ok_or_else(gone)?;
        let kept = stored.id.as_ref().and_then(|id| self.private_bytes(id));
        let moved = self.plugin().move_to(&stored.encode_to_vec(), 1, &to.to_pb(), kept.as_deref());
        adopted(moved)
    }

    /// Imports an external object, without writing it. The hook gets the granted things alone.
    ///
    /// # Errors
    /// The hook's refusal.
    pub fn import<M: Data>(
        &self,
        of: Kind<M>,
        within: &pb::Tenancy,
        external_id: &str,
    ) -> Result<AdoptedResource<M>, Failure> {
        self.importing.set(true);
        let imported = self.plugin().import(self, &of.to_pb(), within.clone(), external_id);
        self.importing.set(false);
        adopted(imported)
    }
}

/// Calls a plugin's function like the host, which checks arguments and result.
///
/// # Errors
/// The function's fault, or a value of another type.
pub fn call(plugin: &Plugin, name: &str, arguments: &[Value]) -> Result<Value, FunctionFault> {
    plugin.table(name)?.checked_call(name, arguments)
}

fn adopted<M: Data>(made: Result<NewResource, Diagnostics>) -> Result<AdoptedResource<M>, Failure> {
    let NewResource { resource, kept } = made.map_err(|said| refusal(&said))?;
    Ok(AdoptedResource { resource: Typed::stored(&resource)?, kept })
}
