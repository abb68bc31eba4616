//! Partition and namespace of a command.

use clap::Args;
use mortise_resource::{Scope, pb};
use mortise_text::Types as _;

use super::catalog::Catalog;
use crate::{connect::session::Session, env};

/// Partition and namespace: flags, else the environment, else the context, else the server's defaults.
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
    /// Returns the units; the server fills in an empty one.
    #[must_use]
    pub fn units(&self, session: &Session) -> pb::Tenancy {
        self.units_in(session.context_units())
    }

    /// Returns the units, for the partition and namespace of a context.
    pub(crate) fn units_in(&self, (partition, namespace): (Option<&str>, Option<&str>)) -> pb::Tenancy {
        let unit = |flag: &Option<String>, name: &str, own: Option<&str>| {
            flag.clone().or_else(|| env::process(name)).or_else(|| own.map(str::to_owned)).unwrap_or_default()
        };
        pb::Tenancy {
            partition: unit(&self.partition, "MORTISE_PARTITION", partition),
            namespace: unit(&self.namespace, "MORTISE_NAMESPACE", namespace),
        }
    }

    /// Returns the units that a type's scope has. A flag for a unit outside the scope stays, so that the server refuses
    /// it; units of the environment and the context are meant for types that have them.
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
