//! Partition and namespace of a command.

use clap::Args;
use mortise_resource::{Scope, pb};
use mortise_text::Types as _;

use super::catalog::Catalog;
use crate::{connect::session::Session, env};

/// Where in the server: flags, else the environment, else what the context says, else the server's defaults.
#[derive(Debug, Clone, Default, Args)]
pub struct Tenancy {
    /// The partition [default: the context's, or "default"] [env: MORTISE_PARTITION]
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// The namespace [default: the context's, or "default"] [env: MORTISE_NAMESPACE]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
}

impl Tenancy {
    /// The units; an empty one is left to the server.
    #[must_use]
    pub fn units(&self, session: &Session) -> pb::Tenancy {
        let unit = |flag: &Option<String>, name: &str, own: Option<&str>| {
            flag.clone().or_else(|| env::process(name)).or_else(|| own.map(str::to_owned)).unwrap_or_default()
        };
        let (partition, namespace) = session.context_units();
        pb::Tenancy {
            partition: unit(&self.partition, "MORTISE_PARTITION", partition),
            namespace: unit(&self.namespace, "MORTISE_NAMESPACE", namespace),
        }
    }

    /// The units that a type's scope has. A flag that names one which it lacks stays, so that the server refuses it;
    /// what environment and context say is meant for types that have it.
    #[must_use]
    pub fn units_for(&self, ty: &pb::Type, session: &Session, catalog: &Catalog) -> pb::Tenancy {
        let mut units = self.units(session);
        let scope = catalog.scope(ty);
        if self.partition.is_none() && matches!(scope, Some(Scope::Cluster)) {
            units.partition.clear();
        }
        if self.namespace.is_none() && matches!(scope, Some(Scope::Cluster | Scope::Partition)) {
            units.namespace.clear();
        }
        units
    }
}
