//! `mortise plugin outdated`.

use std::collections::BTreeMap;

use clap::Args;
use mortise_registry::{Reference, Update, newest, version};

use super::{super::summary::PluginSummary, Way};
use crate::{CliError, Connect, Exit, Table, output::ui};

pub(in super::super) const EXAMPLES: &str = "mortise plugin outdated oci://ghcr.io/acme/demo oci://ghcr.io/acme/dns\n\
                                             mortise plugin outdated oci://localhost:5000/demo --within patch";

/// Newer versions that are of interest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Within {
    /// Any newer version.
    #[default]
    Any,
    /// Versions with the same major number; with major number 0, also the same minor number.
    Minor,
    /// Versions with the same major and minor number.
    Patch,
}

/// Arguments of `plugin outdated`.
#[derive(Debug, Args)]
pub struct Outdated {
    /// Repositories of plugins: oci://HOST/NAME. The last part of NAME is the plugin's name on the server
    #[arg(value_name = "REFERENCE", required = true)]
    references: Vec<Reference>,
    /// Newer versions that count
    #[arg(long, value_enum, default_value = "any")]
    within: Within,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    way: Way,
}

impl Outdated {
    pub(in super::super) async fn run(self) -> Result<Exit, CliError> {
        if let Some(given) = self.references.iter().find(|given| given.tag.is_some() || given.digest.is_some()) {
            let error = CliError::usage(format!("{given} names a version, and all versions are looked at"));
            return Err(error.remedy(format!("write {}", given.repository)));
        }
        let served = self.served().await?;
        let mut cut = Vec::new();
        let mut table = Table::new(["plugin", "serves", "newer", "install"]);
        for Reference { repository, .. } in &self.references {
            let name = repository.short_name();
            let tags = self.way.registry(&repository.host)?.tags(repository).await?;
            if tags.is_cut {
                cut.push(repository);
            }
            let serves = served.get(name).map_or("-", String::as_str);
            let from = version(serves);
            let newer = newest(&tags.names, |to| match (&from, self.within) {
                (None, _) => to.pre.is_empty(),
                (Some(from), Within::Any) => to > from && to.pre.is_empty(),
                (Some(from), Within::Minor) => Update::Minor.allows(from, to),
                (Some(from), Within::Patch) => Update::Patch.allows(from, to),
            });
            let (newer, install) = match newer {
                Some((version, tag)) => (version.to_string(), format!("{repository}:{tag}")),
                None => ("-".to_owned(), String::new()),
            };
            table.row(vec![name.into(), serves.into(), newer.as_str().into(), install.as_str().into()]);
        }
        ui::print(table.render(&self.connect.ui()))?;
        for repository in cut {
            self.connect
                .ui()
                .warn(&format!("{repository} has more tags than are read; a newer version may be among them"));
        }
        Ok(Exit::Done)
    }

    /// Versions of the server's plugins by name.
    async fn served(&self) -> Result<BTreeMap<String, String>, CliError> {
        let session = self.connect.session().await?;
        let seen = PluginSummary::all(&session).await?;
        Ok(seen.into_iter().map(|seen| (seen.name, seen.plugin.version)).collect())
    }
}
