//! The first filling of a copy: every resource as of one revision, by one stream of etcd 3.7, or in pages.
//!
//! A stream that breaks off is continued in pages, behind the last key that it brought.

use std::time::Duration;

use mortise_store::SledBackend;
use prost::Message;
use tokio::time::timeout;

use crate::{
    client::{Client, Fault, KeyValue, RangeRequest},
    error::EtcdError,
    keys::{Keys, range_end},
    record::{ResourceRecord, Versions},
};

/// Most keys of a page.
const PAGE_KEYS: i64 = 1_000;
/// Divisor of the number of keys after a page that was too large.
const SMALLER: i64 = 8;
/// Longest wait for the next part of a stream.
const PART_TIMEOUT: Duration = Duration::from_secs(10);

/// Fills an empty copy. Returns the revision that it has then.
///
/// # Errors
/// [`EtcdError::Unreachable`], also if the revision was compacted meanwhile; faults of the copy.
pub(crate) async fn fill(client: &Client, keys: &Keys, store: &SledBackend) -> Result<i64, EtcdError> {
    let head = client.range(RangeRequest { key: keys.head().into(), ..RangeRequest::default() }).await;
    let revision = head.map_err(unreachable)?.header.map_or(0, |header| header.revision);
    let mut filling = Filling {
        client,
        store,
        revision,
        versions: keys.versions,
        from: keys.resources(),
        end: range_end(&keys.resources()),
        resources: 0,
    };
    if !filling.stream().await? {
        filling.pages().await?;
    }
    let resources = filling.resources;
    if resources == 0 {
        // A copy without content is filled again at the next start.
        return Ok(revision);
    }
    store.filled(keys.versions.last(revision)).await?;
    tracing::info!(revision, resources, "the copy of etcd's content is filled");
    Ok(revision)
}

/// A copy that is being filled.
struct Filling<'f> {
    client: &'f Client,
    store: &'f SledBackend,
    revision: i64,
    versions: Versions,
    /// First key that is missing.
    from: Vec<u8>,
    end: Vec<u8>,
    resources: u64,
}

impl Filling<'_> {
    fn request(&self, limit: i64) -> RangeRequest {
        RangeRequest {
            key: self.from.clone().into(),
            range_end: self.end.clone().into(),
            limit,
            revision: self.revision,
            ..RangeRequest::default()
        }
    }

    /// Reads the rest as a stream. Returns whether it is complete.
    async fn stream(&mut self) -> Result<bool, EtcdError> {
        let mut parts = match self.client.range_stream(self.request(0)).await {
            Ok(parts) => parts,
            Err(fault) => return Ok(broken_off(&fault)),
        };
        loop {
            let part = timeout(PART_TIMEOUT, parts.message()).await;
            let part = part.unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded("no part in time")));
            match part {
                Ok(Some(part)) => self.take(part.range_response.unwrap_or_default().kvs, "stream").await?,
                Ok(None) => return Ok(true),
                Err(status) => return Ok(broken_off(&status.into())),
            }
        }
    }

    /// Reads the rest in pages.
    async fn pages(&mut self) -> Result<(), EtcdError> {
        let mut limit = PAGE_KEYS;
        loop {
            let page = match self.client.range(self.request(limit)).await {
                // A single resource is far smaller.
                Err(fault) if fault.is_too_large() && limit > 1 => {
                    limit = (limit / SMALLER).max(1);
                    continue;
                }
                answered => answered.map_err(unreachable)?,
            };
            limit = (limit * 2).min(PAGE_KEYS);
            self.take(page.kvs, "pages").await?;
            if !page.more {
                return Ok(());
            }
        }
    }

    /// Puts resources into the copy.
    async fn take(&mut self, kvs: Vec<KeyValue>, by: &'static str) -> Result<(), EtcdError> {
        let Some(last) = kvs.last().map(|kv| kv.key.to_vec()) else { return Ok(()) };
        let mut filled = Vec::with_capacity(kvs.len());
        for kv in &kvs {
            let record = ResourceRecord::decode(&*kv.value)
                .ok()
                .and_then(|record| record.filled(self.versions, kv.mod_revision));
            filled.push(
                record.ok_or_else(|| EtcdError::NoResource { key: String::from_utf8_lossy(&kv.key).into_owned() })?,
            );
        }
        let count = filled.len() as u64;
        self.store.fill(filled).await?;
        self.resources += count;
        metrics::counter!("mortise_etcd_filled_resources_total", "by" => by).increment(count);
        // The next key after the last one.
        self.from = [last, vec![0]].concat();
        Ok(())
    }
}

/// Logs why a stream is not complete; etcd before 3.7 has none.
fn broken_off(fault: &Fault) -> bool {
    if !fault.is_unknown_call() {
        tracing::warn!(%fault, "the stream of etcd's content broke off, and goes on in pages");
    }
    false
}

fn unreachable(fault: Fault) -> EtcdError {
    EtcdError::Unreachable(fault.to_string())
}
