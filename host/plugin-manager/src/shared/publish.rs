//! Plans of commands: what has succeeded on this server, for the others.

use mortise_resource::{Code, Error};
use mortise_store::StoreError;

use super::{Plan, PlannedComponent, Shared, Wanted};
use crate::{core::Core, files::folder, state::ManagerState};

/// Command of an operator, as far as it matters to the other servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// It chose a component.
    Component,
    /// It changed the state alone.
    State,
}

impl Core {
    /// Keeps a component where a plan can name it, before anything changes here.
    ///
    /// # Errors
    /// `Unavailable`: the shared store does not take it.
    pub(crate) async fn upload(&self, content: &[u8]) -> Result<(), Error> {
        let Some(shared) = &self.options.shared else { return Ok(()) };
        let uploaded = shared.plans.upload(&folder::digest(content), content).await;
        uploaded.map_err(|e| {
            unavailable(format!("the component cannot be stored for the other servers: {e}; nothing is changed"))
        })
    }

    /// Makes the plan of a command that has succeeded here.
    ///
    /// # Errors
    /// `Unavailable`: the command is done here, and the other servers do not know.
    pub(crate) async fn publish(&self, plugin: &str, command: Command) -> Result<(), Error> {
        let Some(shared) = &self.options.shared else { return Ok(()) };
        self.store_plan(shared, plugin, command).await.map_err(|e| {
            unavailable(format!(
                "plugin {plugin:?} is changed on this server, but not on the others: {e}; repeat the command"
            ))
        })
    }

    async fn store_plan(&self, shared: &Shared, plugin: &str, command: Command) -> Result<(), StoreError> {
        let earlier = shared.plans.list().await?.into_iter().find(|stored| stored.plan.plugin == plugin);
        let (mut plan, components) = {
            let state = self.lock().await;
            (state.plan_of(plugin), state.components.clone())
        };
        let is_planned = earlier.as_ref().is_some_and(|stored| stored.plan.component.is_some());
        match plan.wanted {
            // The component of a plugin that is gone here is known from its plan alone.
            Wanted::Removed if plan.component.is_none() => {
                plan.component = earlier.and_then(|stored| stored.plan.component);
            }
            Wanted::Removed => {}
            // A component that no command ever chose stays where it is.
            _ if command == Command::State && !is_planned => plan.component = None,
            _ => {}
        }
        let mut content = None;
        if let Some(PlannedComponent { digest, signature }) =
            plan.component.as_mut().filter(|_| plan.wanted != Wanted::Removed)
        {
            let (plugin, digest) = (plugin.to_owned(), digest.clone());
            let kept = tokio::task::spawn_blocking(move || {
                (components.get(&plugin, &digest), components.signature(&plugin, &digest))
            });
            let (kept, found) = kept.await.map_err(|e| StoreError::Poisoned(e.to_string()))?;
            let path = || self.options.component_dir.join(&plan.plugin);
            content = Some(kept.map_err(|source| StoreError::Io { path: path(), action: "read", source })?);
            *signature = found;
        }
        let revision = shared.plans.store(&plan, content.as_deref()).await?;
        self.lock().await.followed.insert(plan.plugin, revision);
        Ok(())
    }
}

impl ManagerState {
    /// Returns the plan that makes other servers as this one.
    fn plan_of(&self, name: &str) -> Plan {
        let managed = self.plugins.get(name).filter(|managed| !managed.is_file_only());
        let component = managed.map(|managed| &managed.record.data).filter(|data| data.source != crate::state::BUNDLED);
        let component = component.map(|data| PlannedComponent { digest: data.digest.clone(), signature: None });
        let wanted = match managed {
            Some(managed) if managed.is_removed() => Wanted::Removed,
            Some(managed) if managed.is_disabled() => Wanted::Disabled,
            Some(_) => Wanted::Serve,
            None => Wanted::Removed,
        };
        Plan { plugin: name.to_owned(), wanted, component }
    }
}

fn unavailable(what: String) -> Error {
    Error::new(Code::Unavailable, what)
}
