//! Loads the content of another engine into an empty prefix: the way from one server to several.
//!
//! # Contract
//! - Resources keep their uids, generations and versions; new versions are larger than all former ones. The history is
//!   not loaded: watches begin with a new snapshot.
//! - The stamp tells how far it is, in the transactions of the resources themselves. A load that was interrupted goes on
//!   where it was; with another content of the source it begins again. No server starts on an unfinished prefix.
//! - In the end every resource is read back and compared.
//!
//! # Cost
//! A transaction for each 100 resources or 512 KiB; memory for one page of the source.

use mortise_resource::pb;
use mortise_store::{ExpectedId, Record, RecordKind, SetHash, Snapshot, StoreError, StoreId};
use prost::Message as _;

use crate::{
    EtcdError, EtcdOptions, MAX_RESOURCE_BYTES,
    client::{Client, Fault, KeyValue, RangeRequest, Transaction},
    keys::{Keys, range_end},
    record::{HeadRecord, ResourceRecord, Stamp, Versions, read_stamp, unversioned},
    start::check_servers,
};

/// Most resources of a transaction.
const PART_RESOURCES: usize = 100;
/// Size of the resources of a transaction, bytes.
const PART_BYTES: usize = 512 << 10;
/// Most keys of a page that is read back.
const PAGE_KEYS: i64 = 500;
/// Most attempts of a call that gets no answer. Repeating one does no harm.
const ATTEMPTS: usize = 5;

/// Reason why content is not loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The cluster cannot be used.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// The source cannot be read.
    #[error("the source cannot be read: {0}")]
    Source(#[from] StoreError),
    /// The prefix is in use.
    #[error("the prefix {prefix} in etcd has the store {id} already; choose another store.etcd.prefix")]
    Occupied {
        /// The prefix.
        prefix: String,
        /// The store.
        id: StoreId,
    },
    /// A resource is too large for etcd.
    #[error("{key} takes {bytes} bytes, more than the {MAX_RESOURCE_BYTES} that etcd may hold; make it smaller first")]
    TooLarge {
        /// The key that it would have.
        key: String,
        /// Its size.
        bytes: usize,
    },
    /// A record of the source holds something else than a resource.
    #[error("record {0} of the source is not a resource; check the source with `mortise check`")]
    NoResource(u64),
    /// Something else has written below the prefix.
    #[error("something else has written below the prefix {0} meanwhile; run the command again")]
    Disturbed(String),
    /// The content in etcd is not that of the source.
    #[error(
        "etcd has other content than the source: {found} resources in place of {wanted}; remove the prefix, and run the command again"
    )]
    Differs {
        /// Resources of the source.
        wanted: u64,
        /// Resources in etcd.
        found: u64,
    },
}

impl From<Fault> for LoadError {
    fn from(fault: Fault) -> Self {
        EtcdError::Unreachable(fault.to_string()).into()
    }
}

/// Number and hash of a set of resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    resources: u64,
    hash: SetHash,
}

impl Sum {
    fn add(&mut self, key: &[u8], value: &[u8], sequence: u64) {
        self.resources += 1;
        self.hash.add(&[key, value].concat(), sequence);
    }
}

/// Loads a snapshot. `progress` gets the number of resources so far. Returns the number of all.
///
/// # Errors
/// [`LoadError`]. After most of them the command can be run again.
pub async fn load(
    options: &EtcdOptions,
    snapshot: &mut dyn Snapshot,
    id: StoreId,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<u64, LoadError> {
    let client = Client::new(options)?;
    check_servers(&client).await?;
    let keys = Keys::new(&options.prefix);
    let sequence = snapshot.head().sequence;
    let mut load = Load { client, keys, id, sequence, loaded: 0, stamp_revision: 0 };
    load.begin(&options.prefix).await?;
    let (mut sum, mut part, mut bytes) = (Sum::default(), Vec::new(), 0);
    progress(load.loaded);
    while let Some(records) = snapshot.next().await? {
        for record in records.into_iter().filter(|record| record.kind == RecordKind::Resource) {
            let (key, value) = load.entry(&record, sum.resources)?;
            sum.add(&key, &value, record.sequence);
            // An earlier run has stored it.
            if sum.resources <= load.loaded {
                continue;
            }
            bytes += value.len();
            part.push((key, value));
            if part.len() >= PART_RESOURCES || bytes >= PART_BYTES {
                load.store(std::mem::take(&mut part)).await?;
                bytes = 0;
                progress(load.loaded);
            }
        }
    }
    if !part.is_empty() {
        load.store(part).await?;
        progress(load.loaded);
    }
    let found = load.read_back().await?;
    if found != sum {
        return Err(LoadError::Differs { wanted: sum.resources, found: found.resources });
    }
    load.finish().await?;
    Ok(sum.resources)
}

/// A load in progress.
struct Load {
    client: Client,
    keys: Keys,
    id: StoreId,
    sequence: u64,
    /// Resources that are stored.
    loaded: u64,
    /// Revision of the stamp.
    stamp_revision: i64,
}

impl Load {
    /// Makes the stamp, or continues an earlier load of the same content.
    async fn begin(&mut self, prefix: &str) -> Result<(), LoadError> {
        let key = self.keys.stamp();
        let found = self.client.range(RangeRequest { key: key.clone().into(), ..RangeRequest::default() }).await?;
        let mut begin = Transaction::default();
        match found.kvs.first() {
            None => begin.expect_revision(key.clone(), 0),
            Some(kv) => {
                let wrong = |source| EtcdError::Stamp { key: String::from_utf8_lossy(&key).into_owned(), source };
                match read_stamp(&kv.value).map_err(wrong)? {
                    Stamp::Complete { id, .. } => return Err(LoadError::Occupied { prefix: prefix.to_owned(), id }),
                    Stamp::Loading { id, sequence, loaded } if (id, sequence) == (self.id, self.sequence) => {
                        (self.loaded, self.stamp_revision) = (loaded, kv.mod_revision);
                        return Ok(());
                    }
                    Stamp::Loading { .. } => begin.expect_revision(key.clone(), kv.mod_revision),
                }
            }
        }
        begin.delete_all(self.keys.resources());
        begin.put(key, self.stamp().to_string().into_bytes());
        self.commit(begin).await
    }

    fn stamp(&self) -> Stamp {
        Stamp::Loading { id: self.id, sequence: self.sequence, loaded: self.loaded }
    }

    /// Returns the key and the value of a record.
    fn entry(&self, record: &Record, number: u64) -> Result<(Vec<u8>, Vec<u8>), LoadError> {
        let resource = pb::Resource::decode(&*record.payload).map_err(|_| LoadError::NoResource(number))?;
        let id = resource.id.as_ref().map(ExpectedId::from).ok_or(LoadError::NoResource(number))?;
        let key = self.keys.resource(&id);
        let record = ResourceRecord {
            kept_sequence: record.sequence,
            resource: Some(unversioned(resource)),
            ..ResourceRecord::default()
        };
        let value = record.encode_to_vec();
        match value.len() > MAX_RESOURCE_BYTES + (64 << 10) {
            true => Err(LoadError::TooLarge { key: String::from_utf8_lossy(&key).into_owned(), bytes: value.len() }),
            false => Ok((key, value)),
        }
    }

    async fn store(&mut self, part: Vec<(Vec<u8>, Vec<u8>)>) -> Result<(), LoadError> {
        self.loaded += part.len() as u64;
        let mut transaction = Transaction::default();
        transaction.expect_revision(self.keys.stamp(), self.stamp_revision);
        for (key, value) in part {
            transaction.put(key, value);
        }
        transaction.put(self.keys.stamp(), self.stamp().to_string().into_bytes());
        self.commit(transaction).await
    }

    /// Commits what changes the stamp. An answer that was lost is found out by the stamp.
    async fn commit(&mut self, mut transaction: Transaction) -> Result<(), LoadError> {
        let wanted = self.stamp();
        transaction.tell_if_refused(self.keys.stamp(), false);
        let request = transaction.into_request();
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match self.client.txn(request.clone()).await {
                Ok(answer) if answer.succeeded => {
                    self.stamp_revision = answer.header.map_or(0, |header| header.revision);
                    return Ok(());
                }
                Ok(_) => {
                    // An attempt without an answer may have been stored.
                    let found =
                        self.client.range(RangeRequest { key: self.keys.stamp().into(), ..RangeRequest::default() });
                    let found = found.await?;
                    match found.kvs.first() {
                        Some(kv) if last.is_some() && read_stamp(&kv.value) == Ok(wanted) => {
                            self.stamp_revision = kv.mod_revision;
                            return Ok(());
                        }
                        _ => return Err(LoadError::Disturbed(String::from_utf8_lossy(&self.keys.all()).into_owned())),
                    }
                }
                Err(fault) if fault.is_refusal() => return Err(fault.into()),
                Err(fault) => last = Some(fault),
            }
        }
        Err(last.map_or_else(|| LoadError::Disturbed(String::new()), Into::into))
    }

    /// Reads everything back.
    async fn read_back(&self) -> Result<Sum, LoadError> {
        let (mut sum, mut from) = (Sum::default(), self.keys.resources());
        let end = range_end(&from);
        let (mut limit, mut revision) = (PAGE_KEYS, 0);
        loop {
            let page = self.client.range(RangeRequest {
                key: from.clone().into(),
                range_end: end.clone().into(),
                limit,
                revision,
                ..RangeRequest::default()
            });
            let page = match page.await {
                Err(fault) if fault.is_too_large() && limit > 1 => {
                    limit = (limit / 8).max(1);
                    continue;
                }
                page => page?,
            };
            limit = (limit * 2).min(PAGE_KEYS);
            revision = page.header.map_or(revision, |header| header.revision.max(revision));
            for KeyValue { key, value, .. } in &page.kvs {
                let sequence = ResourceRecord::decode(&**value).map(|record| record.kept_sequence).unwrap_or_default();
                sum.add(key, value, sequence);
            }
            match page.kvs.last() {
                Some(last) if page.more => from = [last.key.as_ref(), &[0]].concat(),
                _ => return Ok(sum),
            }
        }
    }

    async fn finish(&mut self) -> Result<(), LoadError> {
        let complete = Stamp::Complete { id: self.id, versions: Versions::after(self.sequence) };
        let mut transaction = Transaction::default();
        transaction.expect_revision(self.keys.stamp(), self.stamp_revision);
        transaction.put(self.keys.stamp(), complete.to_string().into_bytes());
        transaction.put(self.keys.head(), HeadRecord::default().encode_to_vec());
        match self.client.txn(transaction.into_request()).await?.succeeded {
            true => Ok(()),
            false => Err(LoadError::Disturbed(String::from_utf8_lossy(&self.keys.all()).into_owned())),
        }
    }
}
