//! Receivers of the changes of a watch: lines on standard output, or a table on a terminal that is kept up to date.

use mortise_resource::pb;

use super::watch::EventKind;
use crate::{
    CliError,
    live::{Row, Update, page::Updates},
    resources::{
        catalog::Catalog,
        ids::{id_of, made_at},
        search::Found,
        show::Rows,
    },
};

/// Receiver of the changes of a watch.
pub(super) trait Sink {
    /// Takes note that the present resources follow, and then changes.
    async fn begin(&mut self) -> Result<(), CliError>;
    /// Takes a resource that is there, was written, or is gone.
    async fn event(&mut self, kind: EventKind, resource: &pb::Resource) -> Result<(), CliError>;
    /// Takes note that all present resources or changes have come, with the token from which the watch can continue, or
    /// an empty one.
    async fn complete(&mut self, token: &str) -> Result<(), CliError>;
    /// Takes note of a fault after which the watch goes on.
    async fn fault(&mut self, text: &str) -> Result<(), CliError>;
}

/// A table of a page on a terminal.
pub(super) struct LiveTable<'c> {
    pub(super) section: usize,
    pub(super) rows: Rows<'c>,
    pub(super) catalog: &'c Catalog,
    pub(super) updates: Updates,
}

impl LiveTable<'_> {
    async fn send(&self, update: Update) -> Result<(), CliError> {
        self.catalog.fault()?;
        // A page without a receiver has ended, and with it its watches.
        let _ = self.updates.send((self.section, update)).await;
        Ok(())
    }

    /// Takes a whole page of a query, in the order of the server.
    pub(super) async fn page(&self, page: &Found) -> Result<(), CliError> {
        let rows = page.resources.iter().enumerate();
        let rows = rows.map(|(at, resource)| (format!("{at:08}"), self.row(resource))).collect();
        self.send(Update::Whole(rows)).await
    }

    fn row(&self, resource: &pb::Resource) -> Row {
        let age = self.rows.age_position().zip(made_at(&id_of(resource).uid));
        Row { cells: self.rows.cells(resource), age }
    }
}

impl Sink for LiveTable<'_> {
    async fn begin(&mut self) -> Result<(), CliError> {
        self.send(Update::Begin).await
    }

    async fn event(&mut self, kind: EventKind, resource: &pb::Resource) -> Result<(), CliError> {
        let id = id_of(resource);
        let tenancy = id.tenancy.unwrap_or_default();
        let key = format!("{}\0{}\0{}", tenancy.partition, tenancy.namespace, id.name);
        self.send(match kind {
            EventKind::Present | EventKind::Written => Update::Put(key, self.row(resource)),
            EventKind::Deleted | EventKind::Removed => Update::Remove(key),
        })
        .await
    }

    async fn complete(&mut self, _: &str) -> Result<(), CliError> {
        self.send(Update::Complete).await
    }

    async fn fault(&mut self, text: &str) -> Result<(), CliError> {
        self.send(Update::Fault(text.to_owned())).await
    }
}
