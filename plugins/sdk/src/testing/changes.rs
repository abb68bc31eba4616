//! Calls of the host besides writes and reconciles: plans, moves, imports, and functions.

use mortise_resource::pb;
use prost::Message;

use super::World;
use crate::{Data, Diagnostics, Failure, FunctionFault, Kind, Plugin, Typed, Value, raw::NewResource};

/// Result of [`World::plan`].
#[derive(Debug, Clone, PartialEq)]
pub struct PlanAnswer<M> {
    /// The resource as controllers will finally make it.
    pub predicted: Typed<M>,
    /// Paths of the fields that require a replacement, such as `data.title`; empty if no resource is stored.
    pub replace: Vec<String>,
    /// Warnings; errors refuse the plan.
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
    /// Plans a write as for a client: calls `mutate` and `validate`, then the plan hook. Writes nothing.
    ///
    /// # Errors
    /// A hook's refusal.
    pub fn plan<M: Data>(&self, resource: &Typed<M>) -> Result<PlanAnswer<M>, Failure> {
        let input = self.hooks(super::failures::decode(&resource.to_bytes()?)?)?.encode_to_vec();
        let stored = self.store.borrow().read(resource.id()).cloned();
        let kept = stored.as_ref().and_then(|stored| self.private_bytes(stored.id.as_ref()?));
        let stored = stored.map(|stored| stored.encode_to_vec());
        let plan = self.plugin().plan(&input, stored.as_deref(), kept.as_deref());
        if plan.diagnostics.has_errors() {
            return Err(refused(&plan.diagnostics));
        }
        let replace = plan.replace.iter().filter(|_| stored.is_some()).map(ToString::to_string).collect();
        let predicted = Typed::stored(plan.predicted.as_deref().unwrap_or(&input))?;
        Ok(PlanAnswer { predicted, replace, warnings: plan.diagnostics })
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

fn refused(said: &Diagnostics) -> Failure {
    Failure::new(Failure::INVALID, said.summaries())
}

fn adopted<M: Data>(made: Result<NewResource, Diagnostics>) -> Result<AdoptedResource<M>, Failure> {
    let NewResource { resource, kept } = made.map_err(|said| refused(&said))?;
    Ok(AdoptedResource { resource: Typed::stored(&resource)?, kept })
}
