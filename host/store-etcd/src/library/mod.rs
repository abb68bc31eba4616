//! Plans of plugins in etcd, and the components in them.
//!
//! A component is larger than a value of etcd may be, so it is kept in chunks of 512 KiB under its digest. The chunks
//! come first, then `meta` with their number, then the plan that names the digest. `uploads/DIGEST` exists under a lease
//! of five minutes from before the first chunk on. A server that has stored a plan removes the components that neither a
//! plan nor an upload names; each of these transactions expects that the upload is absent.
//!
//! # Cost
//! A plan costs a handful of calls and a call for each chunk. Each server reads all plans after each change of one.

mod component;
mod record;

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use mortise_store::{
    StoreError,
    plans::{Plan, PlannedComponent, Plans, Report, StoredPlan},
};
use prost::Message;
use tokio::sync::watch;

use self::record::{PlanRecord, ReportRecord};
use crate::{
    client::{Client, Fault, KeyValue, RangeRequest, Transaction},
    keys::{Keys, range_end},
    placement::Placements,
};

/// Size of a chunk of a component, bytes.
const CHUNK_BYTES: usize = 512 << 10;
/// Life of an upload, seconds.
const UPLOAD_SECONDS: i64 = 300;
/// Most attempts to store a plan whose component is removed meanwhile.
const STORE_ATTEMPTS: usize = 3;
/// Longest fault in a report, bytes; the rest is cut off.
const MAX_FAULT_BYTES: usize = 4 << 10;
/// Most keys in an answer.
const PAGE_KEYS: i64 = 500;

/// Plans and components of a cluster.
#[derive(Clone)]
pub struct Library {
    client: Arc<Client>,
    keys: Keys,
    placements: Placements,
    changes: watch::Receiver<u64>,
}

impl Library {
    /// Makes the library of a server. `changes` is changed after every change of a plan, a report or the servers.
    pub(crate) fn new(client: Arc<Client>, keys: Keys, placements: Placements, changes: watch::Receiver<u64>) -> Self {
        Self { client, keys, placements, changes }
    }

    /// Ends all uploads, as their leases would: what no plan names is then removed with the next plan. For tests.
    ///
    /// # Errors
    /// Etcd does not answer.
    #[doc(hidden)]
    pub async fn end_uploads(&self) -> Result<(), StoreError> {
        let mut transaction = Transaction::default();
        transaction.delete_all(self.keys.upload(""));
        self.client.txn(transaction.into_request()).await.map(drop).map_err(store_error)
    }

    /// Returns every key with a prefix.
    async fn all(&self, prefix: Vec<u8>, keys_only: bool) -> Result<Vec<KeyValue>, Fault> {
        let range_end = range_end(&prefix);
        let (mut found, mut from) = (Vec::new(), prefix);
        loop {
            let page = self.client.range(RangeRequest {
                key: from.into(),
                range_end: range_end.clone().into(),
                limit: PAGE_KEYS,
                keys_only,
                ..RangeRequest::default()
            });
            let page = page.await?;
            found.extend(page.kvs);
            match found.last() {
                // The next key after the last one.
                Some(last) if page.more => from = [last.key.as_ref(), &[0]].concat(),
                _ => return Ok(found),
            }
        }
    }

    async fn one(&self, key: Vec<u8>) -> Result<Option<KeyValue>, Fault> {
        let found = self.client.range(RangeRequest { key: key.into(), ..RangeRequest::default() }).await?;
        Ok(found.kvs.into_iter().next())
    }

    /// Stores a plan unless its component is gone. Returns its revision; `None` if the component is gone.
    async fn store_once(&self, plan: &Plan, component: Option<(&str, i64)>) -> Result<Option<i64>, Fault> {
        let mut transaction = Transaction::default();
        if let Some((digest, made_at)) = component {
            transaction.expect_made_at(self.keys.component_meta(digest), made_at);
        }
        let record = PlanRecord::new(plan, self.placements.server());
        transaction.put(self.keys.plan(&plan.plugin), record.encode_to_vec());
        transaction.delete_all(self.keys.reports_of(&plan.plugin));
        let answer = self.client.txn(transaction.into_request()).await?;
        Ok(answer.succeeded.then_some(answer.header.map_or(0, |header| header.revision)))
    }

    /// Removes what no plan and no upload names.
    async fn collect(&self) -> Result<(), Fault> {
        let plans = self.all(self.keys.plans(), false).await?;
        let named: BTreeSet<_> = plans
            .iter()
            .filter_map(|kv| PlanRecord::decode(&*kv.value).ok())
            .filter(PlanRecord::needs_content)
            .map(|record| record.digest)
            .collect();
        let found = self.all(self.keys.components(), true).await?;
        let stored: BTreeSet<_> = found.iter().filter_map(|kv| self.keys.digest_of(&kv.key)).collect();
        for digest in stored.difference(&named) {
            let mut transaction = Transaction::default();
            transaction.expect_revision(self.keys.upload(digest), 0);
            transaction.delete_all(self.keys.component(digest));
            if self.client.txn(transaction.into_request()).await?.succeeded {
                tracing::info!(digest, "a component that no plugin has any more is removed from the shared store");
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Plans for Library {
    fn servers(&self) -> Vec<String> {
        self.placements.servers()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    async fn list(&self) -> Result<Vec<StoredPlan>, StoreError> {
        let plans = self.all(self.keys.plans(), false).await.map_err(store_error)?;
        let reports = self.all(self.keys.reports(), false).await.map_err(store_error)?;
        let reports: Vec<_> = reports
            .iter()
            .filter_map(|kv| Some((self.keys.reporter_of(&kv.key)?, ReportRecord::decode(&*kv.value).ok()?)))
            .collect();
        let stored = |kv: &KeyValue| {
            let plugin = self.keys.plugin_of(&kv.key)?;
            let Some((plan, server)) = PlanRecord::decode(&*kv.value).ok().and_then(|record| record.plan(&plugin))
            else {
                tracing::error!(plugin, "the plan of a plugin in etcd is not as Mortise writes it, and is passed over");
                return None;
            };
            let of_plan =
                reports.iter().filter(|((name, _), record)| *name == plugin && record.revision == kv.mod_revision);
            let report = |((_, server), record): &((String, String), ReportRecord)| Report {
                server: server.clone(),
                fault: (!record.fault.is_empty()).then(|| record.fault.clone()),
            };
            Some(StoredPlan { plan, revision: kv.mod_revision, server, reports: of_plan.map(report).collect() })
        };
        Ok(plans.iter().filter_map(stored).collect())
    }

    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read_component(digest).await.map_err(store_error)
    }

    async fn upload(&self, digest: &str, content: &[u8]) -> Result<(), StoreError> {
        self.write_component(digest, content).await.map(drop).map_err(store_error)
    }

    async fn store(&self, plan: &Plan, content: Option<&[u8]>) -> Result<i64, StoreError> {
        for _ in 0..STORE_ATTEMPTS {
            let component = match (&plan.component, content) {
                (Some(PlannedComponent { digest, .. }), Some(content)) => {
                    let made_at = self.write_component(digest, content).await.map_err(store_error)?;
                    Some((digest.as_str(), made_at))
                }
                _ => None,
            };
            if let Some(revision) = self.store_once(plan, component).await.map_err(store_error)? {
                if let Err(fault) = self.collect().await {
                    tracing::warn!(%fault, "components that are no longer needed stay in the shared store until the next plan");
                }
                return Ok(revision);
            }
        }
        Err(StoreError::Unreachable("the component was removed again and again while its plan was stored".to_owned()))
    }

    async fn report(&self, plugin: &str, revision: i64, fault: Option<&str>) -> Result<(), StoreError> {
        let mut transaction = Transaction::default();
        transaction.expect_revision(self.keys.plan(plugin), revision);
        let fault = fault.unwrap_or_default();
        let end = fault.floor_char_boundary(MAX_FAULT_BYTES);
        let record = ReportRecord { revision, fault: fault.get(..end).unwrap_or_default().to_owned() };
        transaction.put(self.keys.report(plugin, self.placements.server()), record.encode_to_vec());
        self.client.txn(transaction.into_request()).await.map(drop).map_err(store_error)
    }
}

fn store_error(fault: Fault) -> StoreError {
    match fault.is_full() {
        true => StoreError::SharedFull(fault.to_string()),
        false => StoreError::Unreachable(fault.to_string()),
    }
}
