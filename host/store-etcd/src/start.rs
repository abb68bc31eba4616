//! The start with a cluster: is it etcd, without known faults, with a store of ours; and is the copy one of that store?

use std::{collections::HashMap, path::Path, sync::Arc};

use mortise_store::{Backend as _, Health, Options, SledBackend, StoreError, StoreId};
use tokio::sync::watch;

use crate::{
    EtcdBackend,
    barrier::Barrier,
    client::{Client, Fault, RangeRequest, Transaction},
    commit::{Claims, Commits, Committer, LANES, Lane},
    error::EtcdError,
    follow::{self, Follower},
    keys::Keys,
    library::Library,
    options::EtcdOptions,
    placement::Placements,
    record::{Stamp, StampFault, Versions, read_stamp},
};

/// A fault of some versions of etcd, for each line of releases the first version without it.
struct KnownFault {
    fault: &'static str,
    mended: &'static [(u64, u64, u64)],
    needed: &'static str,
}

/// Faults for which a version is refused: they lose or repeat what a copy must see, or answer with what is old.
const KNOWN_FAULTS: [KnownFault; 2] = [
    KnownFault {
        fault: "is too old: it lacks watches in parts",
        mended: &[(3, 4, 0)],
        needed: "3.4.42, 3.5.28, 3.6.9",
    },
    KnownFault {
        fault: "may answer a consistent read with what is old after a pause of its process",
        mended: &[(3, 4, 42), (3, 5, 28), (3, 6, 9)],
        needed: "3.4.42, 3.5.28, 3.6.9",
    },
];

/// File in the directory of the copy with the name of this server.
const SERVER_FILE: &str = "server";

/// Opens as [`EtcdBackend::open`].
pub(crate) async fn open(options: &EtcdOptions, copy: Options) -> Result<EtcdBackend, EtcdError> {
    let client = Arc::new(Client::new(options)?);
    let alarms = check_servers(&client).await?;
    let keys = Keys::new(&options.prefix);
    let (id, versions) = store_id(&client, &keys).await?;
    let keys = keys.with_versions(versions);
    let server = server_name(&copy.path)?;
    let (store, applied) = open_copy(&client, &keys, copy, id).await?;

    let (applied, applied_by) = watch::channel(applied);
    let full = alarms.into_iter().find(|alarm| alarm.contains("NOSPACE"));
    let full =
        full.map(|alarm| format!("etcd is over its quota: {alarm}; compact and defragment it, and disarm the alarm"));
    let health = watch::Sender::new(Health { full, ..Health::default() });
    let (seen, copy_faults) = (health.subscribe(), health.clone());
    let plans = watch::Sender::new(0);
    let placements = Placements::new(client.clone(), keys.clone(), &server, plans.clone(), applied_by.clone());
    let library = Library::new(client.clone(), keys.clone(), placements.clone(), plans.subscribe());
    let follower = Follower {
        client: client.clone(),
        keys: keys.clone(),
        store: store.clone(),
        applied,
        health: health.clone(),
        plans,
    };
    let mut free = Vec::new();
    for number in 0..LANES {
        let key = keys.lane(&server, number);
        let of = (client.clone(), keys.clone());
        free.push(Lane::open(of, key, applied_by.clone(), health.clone()).await.map_err(unreachable)?);
    }
    let barrier = Barrier::start(client.clone(), keys.clone(), applied_by.clone());
    let (commits, waiting) = Commits::new();
    let committer = Committer {
        keys,
        store: store.clone(),
        applied: applied_by,
        barrier: barrier.clone(),
        health,
        server,
        free,
        waiting,
        claims: Claims::default(),
        again: commits.again(),
        rewritten: HashMap::new(),
        usurped: None,
    };
    let placing = tokio::spawn(placements.clone().run());
    let copying = tokio::spawn(copy_health(store.health(), copy_faults));
    let tasks = vec![tokio::spawn(follower.run()), tokio::spawn(committer.run()), placing, copying];
    let backend = EtcdBackend { store, commits, barrier, placements, library, health: seen, tasks };
    backend.barrier.pass().await?;
    Ok(backend)
}

/// Notes the faults of the copy as those of the store.
async fn copy_health(mut copy: watch::Receiver<Health>, all: watch::Sender<Health>) {
    let mut was_full = None;
    loop {
        let Health { poisoned, full, damaged, .. } = copy.borrow_and_update().clone();
        all.send_modify(|health| {
            health.poisoned = poisoned.or(health.poisoned.take());
            health.damaged = damaged.or(health.damaged.take());
            // The quota of etcd is noted here, too.
            if full != was_full {
                health.full.clone_from(&full);
            }
        });
        was_full = full;
        if copy.changed().await.is_err() {
            return;
        }
    }
}

fn unreachable(fault: Fault) -> EtcdError {
    match fault.is_of_user() {
        true => EtcdError::Refused(fault.to_string()),
        false => EtcdError::Unreachable(fault.to_string()),
    }
}

/// Refuses servers with known faults; returns the alarms of the others. At least one must answer; those that do not are
/// judged by their cluster's transactions.
pub(crate) async fn check_servers(client: &Client) -> Result<Vec<String>, EtcdError> {
    let mut answered = false;
    let (mut last, mut alarms) = (None, Vec::new());
    for endpoint in client.endpoints() {
        match client.status(endpoint).await {
            Ok(status) => {
                answered = true;
                check_version(endpoint, &status.version)?;
                for alarm in &status.errors {
                    tracing::error!(endpoint, alarm, "etcd has an alarm");
                }
                alarms.extend(status.errors);
            }
            Err(fault) => {
                tracing::warn!(endpoint, %fault, "a server of etcd does not answer");
                last = Some(fault);
            }
        }
    }
    match last {
        Some(fault) if !answered => Err(unreachable(fault)),
        _ => Ok(alarms),
    }
}

fn check_version(endpoint: &str, version: &str) -> Result<(), EtcdError> {
    let Ok(found) = semver::Version::parse(version) else {
        let fault = format!("its version is {version:?}");
        return Err(EtcdError::NotEtcd { endpoint: endpoint.to_owned(), fault });
    };
    let found = (found.major, found.minor, found.patch);
    for KnownFault { fault, mended, needed } in KNOWN_FAULTS {
        let line = mended.iter().find(|mended| (mended.0, mended.1) == (found.0, found.1));
        let is_mended = match line {
            Some(mended) => found >= *mended,
            // Lines after the last one began without the fault.
            None => mended.last().is_some_and(|last| found > *last),
        };
        if !is_mended {
            let (endpoint, version) = (endpoint.to_owned(), version.to_owned());
            return Err(EtcdError::Faulty { endpoint, version, fault, needed });
        }
    }
    Ok(())
}

/// Reads the stamp below the prefix; makes it if nothing is there.
async fn store_id(client: &Client, keys: &Keys) -> Result<(StoreId, Versions), EtcdError> {
    let key = keys.stamp();
    loop {
        let found = client.range(RangeRequest { key: key.clone().into(), ..RangeRequest::default() }).await;
        if let Some(kv) = found.map_err(unreachable)?.kvs.first() {
            let wrong = |source| EtcdError::Stamp { key: String::from_utf8_lossy(&key).into_owned(), source };
            return match read_stamp(&kv.value).map_err(wrong)? {
                Stamp::Complete { id, versions } => Ok((id, versions)),
                Stamp::Loading { .. } => Err(wrong(StampFault::Unfinished)),
            };
        }
        // Two comparisons, and a read if they fail: a program that only knows the transactions of Kubernetes refuses it.
        let mut making = Transaction::default();
        making.expect_revision(key.clone(), 0);
        making.expect_revision(keys.head(), 0);
        let new = Stamp::Complete { id: StoreId::generate(), versions: Versions::default() };
        making.put(key.clone(), new.to_string().into_bytes());
        making.tell_if_refused(key.clone(), false);
        making.tell_if_refused(keys.head(), true);
        if let Err(fault) = client.txn(making.into_request()).await {
            return Err(match fault.is_refusal() && !fault.is_of_user() {
                true => {
                    let endpoint = client.endpoints().next().unwrap_or_default().to_owned();
                    EtcdError::NotEtcd { endpoint, fault: fault.to_string() }
                }
                false => unreachable(fault),
            });
        }
    }
}

/// Returns the name of this server, made once for its copy.
fn server_name(dir: &Path) -> Result<String, EtcdError> {
    let file = dir.join(SERVER_FILE);
    let io = |action: &'static str| {
        let path = file.clone();
        move |source| StoreError::Io { path, action, source }
    };
    mortise_durable_fs::make_dir(dir).map_err(StoreError::from)?;
    match std::fs::read_to_string(&file) {
        Ok(name) if ulid::Ulid::from_string(name.trim()).is_ok() => Ok(name.trim().to_owned()),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("read")(error).into()),
        // A damaged name is of no use: this server then is a new one.
        _ => {
            let name = ulid::Ulid::generate().to_string();
            let unfinished = dir.join("server.new");
            mortise_durable_fs::replace_through(&unfinished, &file, format!("{name}\n").as_bytes())
                .map_err(StoreError::from)?;
            Ok(name)
        }
    }
}

/// Opens the copy, and fills it if it is new or cannot be continued. Returns it with its revision.
async fn open_copy(
    client: &Client,
    keys: &Keys,
    options: Options,
    id: StoreId,
) -> Result<(Arc<SledBackend>, i64), EtcdError> {
    let path = options.path.clone();
    let mut store = match open_sled(options.clone(), id).await {
        // The content is etcd's, so nothing is lost with a damaged copy.
        Err(StoreError::Corrupt { path: file, what }) => {
            tracing::warn!(file = %file.display(), what, "the copy of etcd's content is damaged, and is made again");
            remove_copy(&path)?;
            open_sled(options.clone(), id).await?
        }
        opened => opened?,
    };
    if store.id() != id {
        return Err(EtcdError::OtherStore { path, found: store.id(), wanted: id });
    }
    let applied = keys.versions.revision(store.newest_version());
    let gap = match applied {
        0 => None,
        applied => follow::gap(client, keys, applied).await.map_err(unreachable)?,
    };
    let is_unfinished = applied == 0 && !store.types().await?.is_empty();
    let is_damaged = store.health().borrow().damaged.is_some();
    if let Some(gap) = &gap {
        tracing::warn!(%gap, "the copy of etcd's content cannot be continued, and is made again");
    }
    if gap.is_some() || is_unfinished || is_damaged {
        store.close();
        drop(store);
        remove_copy(&path)?;
        store = open_sled(options, id).await?;
    } else if applied > 0 {
        return Ok((store, applied));
    }
    let applied = follow::fill(client, keys, &store).await?;
    Ok((store, applied))
}

async fn open_sled(options: Options, id: StoreId) -> Result<Arc<SledBackend>, StoreError> {
    let opening = tokio::task::spawn_blocking(move || SledBackend::open_follower(options, id));
    opening.await.map_err(|error| StoreError::Poisoned(error.to_string()))?.map(Arc::new)
}

/// Removes the copy, but not the name of the server.
fn remove_copy(path: &Path) -> Result<(), StoreError> {
    Ok(mortise_durable_fs::remove(&path.join("store"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_known_faults_are_refused() {
        for good in ["3.4.42", "3.4.43", "3.5.28", "3.6.9", "3.6.16", "3.7.0", "3.7.3", "4.0.0"] {
            assert!(check_version("e", good).is_ok(), "{good}");
        }
        for bad in ["3.3.27", "3.4.23", "3.4.41", "3.5.1", "3.5.27", "3.6.8", "2.3.8", "", "kine"] {
            assert!(check_version("e", bad).is_err(), "{bad}");
        }
        let error = check_version("host:2379", "3.4.23").unwrap_err().to_string();
        assert!(error.contains("host:2379") && error.contains("use 3.4.42, 3.5.28, 3.6.9 or newer"), "{error}");
    }
}
