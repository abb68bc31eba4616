//! Types without their message as a parameter.

use mortise_resource::{manifest, pb};

use crate::{Context, Decision, Diagnostics, envelope::Envelope, hook_input::HookInput, raw, spec::Spec};

pub(crate) type NewResourceResult = Result<raw::NewResource, Diagnostics>;

/// A [`crate::ResourceType`] of any message: an entry of a [`crate::Plugin`]'s table.
#[doc(hidden)]
pub trait AnyResourceType: Sync {
    fn spec(&self) -> &Spec;
    fn hooks(&self) -> manifest::Hooks;
    fn mutate(&self, input: &[u8], resource: &mut HookInput) -> Result<Option<Vec<u8>>, Diagnostics>;
    fn validate(&self, resource: &mut HookInput, prior: Option<Envelope>) -> Diagnostics;
    fn read(&self, id: &pb::Id, stored: Option<Envelope>) -> Decision;
    fn write(&self, resource: &mut HookInput) -> Decision;
    fn upgrade(&self, since: u32, data: &[u8]) -> Result<Vec<u8>, Diagnostics>;
    fn plan(&self, input: &[u8], resource: &mut HookInput, prior: Option<Envelope>, kept: Option<&[u8]>) -> raw::Plan;
    /// `None` without the hook, here and below.
    fn move_to(&self, source: &[u8], since: u32, kept: Option<&[u8]>) -> Option<NewResourceResult>;
    fn import(&self, ctx: &Context<'_>, external_id: &str, within: pb::Tenancy) -> Option<NewResourceResult>;
}
