//! Addresses of host names, from the system's resolver: answers about a service that is a host name elsewhere.
//!
//! # Limits
//! At most [`MAX_LOOKUPS`] names are looked up at the same time, each once, and an answer waits for [`PATIENCE`]. A
//! quarter of the answers over UDP may wait, and half of those over TCP: others go on beside a resolver that is silent.
//! An answer without the addresses is still right: its CNAME leads the client to them. The system's resolver reveals no
//! time to live, so addresses are kept for [`KEPT`].

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use hickory_proto::rr::Name;
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use super::large::{Transport, large_answers};

/// Number of names that are kept.
const MAX_HOSTS: usize = 1_024;

/// Number of names that are looked up at the same time. The system's resolver takes a thread for each.
const MAX_LOOKUPS: usize = 16;

/// Most addresses of a name.
const MAX_ADDRESSES: usize = 64;

/// Longest wait of an answer for addresses.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time for which addresses are kept, or their absence.
const KEPT: Duration = Duration::from_secs(5);

/// Longest time to live of addresses from the system's resolver, seconds.
pub(super) const MAX_TTL: u32 = KEPT.as_secs() as u32;

type Addresses = Arc<[IpAddr]>;
/// A lookup in progress, which several answers may wait for.
type Running = Shared<BoxFuture<'static, Addresses>>;
type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, Vec<IpAddr>> + Send + Sync>;

/// The known hosts, and the lookups in progress.
#[derive(Clone)]
pub(super) struct Hosts {
    known: Arc<Cache<String, (Instant, Addresses)>>,
    running: Arc<Mutex<HashMap<String, Running>>>,
    lookup: Lookup,
    /// Places of the answers that wait.
    udp: Arc<Semaphore>,
    tcp: Arc<Semaphore>,
}

impl Hosts {
    /// Uses the system's resolver, for a server that answers so many queries over UDP at the same time.
    pub(super) fn new(queries: usize) -> Self {
        let lookup: Lookup = Arc::new(|host: String| {
            async move {
                let found = tokio::net::lookup_host((host.as_str(), 0)).await;
                found.map(|found| found.map(|found| found.ip()).collect()).unwrap_or_default()
            }
            .boxed()
        });
        Self::with(lookup, queries)
    }

    fn with(lookup: Lookup, queries: usize) -> Self {
        let places = |count: usize| Arc::new(Semaphore::new(count.max(1)));
        let (udp, tcp) = (places(queries / 4), places(large_answers(queries) / 2));
        Self { known: Arc::new(Cache::new(MAX_HOSTS)), running: Arc::default(), lookup, udp, tcp }
    }

    /// The addresses of a host name; none if they cannot be found now.
    pub(super) async fn addresses(&self, host: &Name, by: Transport) -> Addresses {
        // The system's file of hosts has no final dots.
        let host = host.to_lowercase().to_ascii().trim_end_matches('.').to_owned();
        if let Some((found, addresses)) = self.known.get(&host)
            && found.elapsed() < KEPT
        {
            return addresses;
        }
        let Some(lookup) = self.look_up(host) else { return Addresses::default() };
        let places = match by {
            Transport::Udp => &self.udp,
            Transport::Tcp => &self.tcp,
        };
        let Ok(_place) = places.try_acquire() else { return Addresses::default() };
        timeout(PATIENCE, lookup).await.unwrap_or_default()
    }

    /// Joins the lookup of a name in progress, or begins one; `None` if there are too many.
    fn look_up(&self, host: String) -> Option<Running> {
        let mut running = self.running.lock();
        if let Some(lookup) = running.get(&host) {
            return Some(lookup.clone());
        }
        if running.len() >= MAX_LOOKUPS {
            return None;
        }
        let (hosts, name) = (self.clone(), host.clone());
        // On a task of its own: it goes on after its client's patience, for later questions.
        let task = tokio::spawn(async move {
            let mut found = (hosts.lookup)(name.clone()).await;
            found.dedup();
            found.truncate(MAX_ADDRESSES);
            let found = Addresses::from(found);
            hosts.known.insert(name.clone(), (Instant::now(), found.clone()));
            hosts.running.lock().remove(&name);
            found
        });
        let lookup = task.map(Result::unwrap_or_default).boxed().shared();
        running.insert(host, lookup.clone());
        Some(lookup)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::Ipv4Addr,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use tokio::sync::Notify;

    use super::*;

    fn name(number: usize) -> Name {
        Name::from_ascii(format!("host-{number}.example.")).unwrap()
    }

    /// Hosts whose lookups wait for the returned notice, with their number.
    fn waiting() -> (Hosts, Arc<Notify>, Arc<AtomicUsize>) {
        let (go, count) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (going, counted) = (go.clone(), count.clone());
        let lookup = move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            let going = going.clone();
            async move {
                going.notified().await;
                vec![IpAddr::V4(Ipv4Addr::LOCALHOST); 2]
            }
            .boxed()
        };
        (Hosts::with(Arc::new(lookup), 64), go, count)
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_is_looked_up_once_for_all_that_ask_and_kept_for_a_while() {
        let (hosts, go, count) = waiting();
        let (host, upper) = (name(1), Name::from_ascii("HOST-1.example.").unwrap());
        let both =
            async { tokio::join!(hosts.addresses(&host, Transport::Udp), hosts.addresses(&upper, Transport::Udp)) };
        let (found, _) = tokio::join!(both, async { go.notify_one() });
        assert_eq!((found.0.len(), found.1.len()), (1, 1));
        assert_eq!(hosts.addresses(&host, Transport::Udp).await.len(), 1);
        assert_eq!(count.load(Ordering::Relaxed), 1);
        tokio::time::advance(KEPT).await;
        go.notify_one();
        assert_eq!(hosts.addresses(&host, Transport::Udp).await.len(), 1);
        assert_eq!(count.load(Ordering::Relaxed), 2, "it is looked up again");
    }

    #[tokio::test(start_paused = true)]
    async fn lookups_are_bounded_in_number_and_answers_in_patience() {
        let (hosts, go, count) = waiting();
        let begun = Instant::now();
        let names: Vec<_> = (0..MAX_LOOKUPS + 4).map(name).collect();
        let found = futures::future::join_all(names.iter().map(|host| hosts.addresses(host, Transport::Udp))).await;
        assert!(found.iter().all(|found| found.is_empty()));
        assert_eq!((begun.elapsed(), count.load(Ordering::Relaxed)), (PATIENCE, MAX_LOOKUPS));
        // The lookups go on, and their results come with later answers.
        go.notify_waiters();
        tokio::task::yield_now().await;
        assert_eq!(hosts.addresses(&name(0), Transport::Udp).await.len(), 1);
        assert_eq!(count.load(Ordering::Relaxed), MAX_LOOKUPS);
    }

    /// A resolver that is silent takes a quarter of the answers over UDP, and half of those over TCP.
    #[tokio::test(start_paused = true)]
    async fn a_silent_resolver_leaves_places_to_other_answers() {
        let (hosts, ..) = waiting();
        let host = name(1);
        for (by, places) in [(Transport::Udp, 16), (Transport::Tcp, 2)] {
            let mut answers: Vec<_> = (0..=places).map(|_| hosts.addresses(&host, by).boxed()).collect();
            let mut waits = 0;
            for answer in &mut answers {
                waits += usize::from(futures::poll!(answer).is_pending());
            }
            assert_eq!(waits, places, "{by:?}");
        }
    }
}
