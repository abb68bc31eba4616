//! `mortise plugin search`.

use clap::Args;
use mortise_registry::{Listing, Place, Reference, Registry, RegistryError, Repository, newest};

use super::Way;
use crate::{CliError, Color, Exit, Table, Ui, output::ui};

pub(in super::super) const EXAMPLES: &str = "mortise plugin search localhost:5000\n\
                                             mortise plugin search ghcr.io/acme/demo";

/// Most repositories whose tags are asked for.
const MAX_REPOSITORIES: usize = 200;

/// Most tags in a row of the table.
const MAX_TAGS: usize = 8;

/// Arguments of `plugin search`.
#[derive(Debug, Args)]
pub struct Search {
    /// The registry, and the beginning of the names; a whole name works at registries that list no names, too
    #[arg(value_name = "HOST[/NAME]")]
    place: Place,
    #[command(flatten)]
    way: Way,
}

impl Search {
    pub(in super::super) async fn run(self) -> Result<Exit, CliError> {
        let registry = self.way.registry(&self.place.host)?;
        let found = self.repositories(&registry).await?;
        let mut table = Table::new(["reference", "newest", "tags"]);
        let mut rows = 0;
        for name in found.names.iter().take(MAX_REPOSITORIES) {
            let repository = Repository { host: self.place.host.clone(), name: name.clone() };
            let tags = match registry.tags(&repository).await {
                Ok(tags) => tags,
                // A name whose tags were all deleted.
                Err(RegistryError::NotFound { .. }) if found.names.len() > 1 => continue,
                Err(error) => return Err(error.into()),
            };
            let newest = newest(&tags.names, |_| true).map(|(_, tag)| tag.to_owned()).unwrap_or_default();
            table.row(vec![repository.to_string().into(), newest.as_str().into(), listed(&tags).into()]);
            rows += 1;
        }
        if rows == 0 {
            ui::line(format!("{} has no plugin whose name begins with {:?}", self.place.host, self.place.prefix))?;
            return Ok(Exit::Done);
        }
        let terminal = Ui::new(Color::Auto);
        ui::print(table.render(&terminal))?;
        if found.is_cut || found.names.len() > MAX_REPOSITORIES {
            terminal.warn(&format!("{} has more; search for a longer beginning of the name", self.place.host));
        }
        Ok(Exit::Done)
    }

    /// Lists the names, or takes the given one where the registry lists no names.
    async fn repositories(&self, registry: &Registry) -> Result<Listing, CliError> {
        let whole = format!("oci://{}/{}", self.place.host, self.place.prefix).parse::<Reference>();
        match (registry.catalog(&self.place).await, whole) {
            (Ok(listing), Ok(whole)) if listing.names.is_empty() => Ok(only(whole)),
            (Ok(listing), _) => Ok(listing),
            (
                Err(RegistryError::Denied { .. } | RegistryError::NotFound { .. } | RegistryError::Refused { .. }),
                Ok(whole),
            ) => Ok(only(whole)),
            (Err(error), _) => Err(error.into()),
        }
    }
}

fn only(whole: Reference) -> Listing {
    Listing { names: vec![whole.repository.name], is_cut: false }
}

/// The first tags, and the number of the others.
fn listed(tags: &Listing) -> String {
    let shown = tags.names.iter().take(MAX_TAGS).map(String::as_str).collect::<Vec<_>>().join(", ");
    match tags.names.len().saturating_sub(MAX_TAGS) {
        0 if tags.is_cut => format!("{shown} and more"),
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
