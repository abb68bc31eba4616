//! What the host asks beside writes and reconciles: plans, moves, imports, and functions.

use mortise_resource::pb;
use prost::Message;

use super::World;
use crate::{Data, Diagnostics, Failure, FunctionFault, Kind, Plugin, Typed, Value, raw::NewResource};

/// What [`World::plan`] says of a write.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanAnswer<M> {
    /// The resource as controllers will have made it in the end.
    pub predicted: Typed<M>,
    /// Paths of the fields that demand a replacement, such as `data.title`; empty when nothing is stored.
    pub replace: Vec<String>,
    /// What else was said: no errors, which refuse the plan.
    pub warnings: Diagnostics,
}

/// What [`World::move_to`] and [`World::import`] would store.
#[derive(Debug, Clone, PartialEq)]
pub struct AdoptedResource<M> {
    /// The resource, which was not written.
    pub resource: Typed<M>,
    /// What the plugin is to keep for it.
    pub kept: Option<Vec<u8>>,
}

impl World {
    /// Plans a write as a client would: `mutate` and `validate`, then the plan hook. Nothing is written.
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

    /// What a stored resource would be in another type. Its data is of schema version 1. Nothing is written.
    ///
    /// # Errors
    /// That it is not there, or the hook's refusal.
    pub fn move_to<M: Data>(&self, source: &pb::Id, to: Kind<M>) -> Result<AdoptedResource<M>, Failure> {
        let gone = || Failure::new(Failure::NOT_FOUND, format!("there is no {:?}", source.name));
        let stored = self.store.borrow().read(source).cloned().ok_or_else(gone)?;
        let kept = stored.id.as_ref().and_then(|id| self.private_bytes(id));
        let moved = self.plugin().move_to(&stored.encode_to_vec(), 1, &to.to_pb(), kept.as_deref());
        adopted(moved)
    }

    /// Something outside as a resource. The hook has what was granted, and nothing else. Nothing is written.
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

/// Calls a plugin's function as the host does, which checks arguments and result.
///
/// # Errors
/// The function's, or that something is of another type.
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
