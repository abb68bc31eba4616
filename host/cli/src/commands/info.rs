//! `mortise info`: the server that commands reach, and the caller and place that they use.

use clap::Args;
use mortise_resource::data::WhoAmIRequest;

use super::{server_status, version::OWN};
use crate::{
    CliError, Connect, Exit, Session, Tenancy, connect::contexts::Contexts, env, output::ui,
    resources::catalog::Catalog,
};

pub(super) const EXAMPLES: &str = "\
mortise info
mortise info --context home";

/// Arguments of `info`.
#[derive(Debug, Args)]
pub struct Info {
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Info {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let mut lines = vec![("client", format!("mortise {OWN}"))];
        // A caller may lack the right to the figures of the server.
        let (server, plugins) = match server_status::fetch(&session).await {
            Ok(status) => {
                (format!("mortise {} at {} ({})", status.version, session.url(), status.mode), Some(status.plugins))
            }
            Err(error) if error.code == Some(tonic::Code::PermissionDenied) => (session.url(), None),
            Err(error) => return Err(error),
        };
        lines.push(("server", server));
        lines.push(("context", self.context()?));
        lines.push(("caller", caller(&session).await?));
        let units = self.tenancy.units(&session);
        let or_default = |unit: String| if unit.is_empty() { "default".to_owned() } else { unit };
        lines.push(("partition", or_default(units.partition)));
        lines.push(("namespace", or_default(units.namespace)));
        lines.push(("types", format!("{}: `mortise types` lists them", catalog.infos().len())));
        if let Some(plugins) = plugins {
            let names: Vec<String> = plugins.into_iter().map(|plugin| plugin.name).collect();
            lines.push(("plugins", if names.is_empty() { "none".to_owned() } else { names.join(", ") }));
        }
        ui::print(lines.into_iter().map(|(name, value)| format!("{name:<14}{value}\n")).collect::<String>())?;
        Ok(Exit::Done)
    }

    /// Name of the context in use.
    fn context(&self) -> Result<String, CliError> {
        let named = self.connect.context.clone().or_else(|| env::process("MORTISE_CONTEXT"));
        let current = match named {
            Some(named) => Some(named),
            None => Contexts::load(&env::process)?.current,
        };
        Ok(current.unwrap_or_else(|| "none".to_owned()))
    }
}

/// Name of the caller.
async fn caller(session: &Session) -> Result<String, CliError> {
    let who = session.call("whoami", session.auth().who_am_i(WhoAmIRequest {})).await?;
    Ok(if who.enforced { who.name } else { "any: the server checks no tokens".to_owned() })
}
