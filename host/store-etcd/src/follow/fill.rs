//! The first filling of a copy: every resource as of one revision, in pages.

use mortise_store::{SledBackend, StoreError};
use prost::Message;

use crate::{
    client::{Client, RangeRequest},
    error::EtcdError,
    keys::{Keys, range_end},
    record::{ResourceRecord, last_sequence},
};

/// Most keys of a page.
const PAGE_KEYS: i64 = 1_000;
/// Divisor of the number of keys after a page that was too large.
const SMALLER: i64 = 8;

/// Fills an empty copy. Returns the revision that it has then.
///
/// # Errors
/// [`EtcdError::Unreachable`], also if the revision was compacted meanwhile; faults of the copy.
pub(crate) async fn fill(client: &Client, keys: &Keys, store: &SledBackend) -> Result<i64, EtcdError> {
    let prefix = keys.resources();
    let end = range_end(&prefix);
    let (mut from, mut revision, mut resources, mut limit) = (prefix, 0, 0_u64, PAGE_KEYS);
    loop {
        let page = RangeRequest {
            key: from.clone().into(),
            range_end: end.clone().into(),
            limit,
            revision,
            ..RangeRequest::default()
        };
        let page = match client.range(page).await {
            // A single resource is far smaller.
            Err(fault) if fault.is_too_large() && limit > 1 => {
                limit = (limit / SMALLER).max(1);
                continue;
            }
            answered => answered.map_err(|fault| EtcdError::Unreachable(fault.to_string()))?,
        };
        if revision == 0 {
            revision = page.header.map_or(0, |header| header.revision);
        }
        let mut filled = Vec::with_capacity(page.kvs.len());
        for kv in &page.kvs {
            let record = ResourceRecord::decode(&*kv.value).ok().and_then(|record| record.filled(kv.mod_revision));
            match record {
                Some(resource) => filled.push(resource),
                None => {
                    let key = String::from_utf8_lossy(&kv.key).into_owned();
                    return Err(EtcdError::NoResource { key });
                }
            }
        }
        resources += filled.len() as u64;
        limit = (limit * 2).min(PAGE_KEYS);
        let last = page.kvs.last().map(|kv| kv.key.to_vec());
        store.fill(filled).await?;
        match last {
            // The next key after the last one.
            Some(last) if page.more => from = [last, vec![0]].concat(),
            _ => break,
        }
    }
    if resources == 0 {
        // A copy without content is filled again at the next start.
        return Ok(revision);
    }
    store.filled(last_sequence(revision)).await.map_err(|error: StoreError| EtcdError::from(error))?;
    tracing::info!(revision, resources, "the copy of etcd's content is filled");
    Ok(revision)
}
