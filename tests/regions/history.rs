//! Three regions write at random while each is killed and cut off; afterwards each region's state is compared with the
//! acknowledged writes: nothing is lost or duplicated, and nothing that was deleted is back.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use mortise_resource::pb::{self, watch_event::Event};
use mortise_test_guests::Thing;
use tokio::task::JoinSet;

use crate::{regions::servers::*, support::*};

const ALL: [&str; 3] = ["ap", "eu", "us"];
/// Names that a region writes.
const NAMES: usize = 12;

/// State of one name: the last acknowledged value, and unacknowledged changes since.
#[derive(Default, Clone, Debug)]
struct Known {
    acknowledged: Option<i64>,
    /// Changes without an answer, which may have been made.
    perhaps: Vec<Option<i64>>,
}

impl Known {
    fn allows(&self, number: Option<i64>) -> bool {
        self.acknowledged == number || self.perhaps.contains(&number)
    }
}

/// Events of a watch in one region: incarnations that were deleted, and names of those that came back.
#[derive(Default)]
struct Seen {
    gone: BTreeSet<String>,
    back: Vec<String>,
    events: usize,
}

/// Follows a region's replicas while its server runs.
async fn observe(mut client: Client, seen: Arc<Mutex<Seen>>) {
    let request = pb::WatchListRequest {
        r#type: Some(gvk("regional.v1.Thing")),
        tenancy: Some(tenancy("world", "default")),
        name_prefix: String::new(),
        after: None,
    };
    let Ok(events) = client.watch_list(request).await else { return };
    let mut events = events.into_inner();
    while let Ok(Some(event)) = events.message().await {
        let mut seen = seen.lock().unwrap();
        seen.events += 1;
        match event.event {
            Some(Event::Upsert(upsert)) => {
                let id = id_of(&upsert.resource.unwrap());
                if seen.gone.contains(&id.uid) {
                    seen.back.push(id.name);
                }
            }
            Some(Event::Delete(delete)) => drop(seen.gone.insert(id_of(&delete.resource.unwrap()).uid)),
            _ => {}
        }
    }
}

/// Writes and deletes at random in its own region until the server stops.
async fn write(
    server: &Server,
    region: &str,
    until: Instant,
    known: &mut BTreeMap<String, Known>,
    next: &mut i64,
) -> usize {
    let mut done = 0;
    while Instant::now() < until {
        let name = format!("{region}-{}", fastrand::usize(..NAMES));
        let entry = known.entry(name.clone()).or_default();
        let outcome = match fastrand::u8(..4) {
            0 => {
                let id = id_in("regional.v1.Thing", &name, "world", "default");
                (None, server.delete(&id, "").await)
            }
            _ => {
                *next += 1;
                (Some(*next), server.write(regional_thing("Thing", &name, region, *next)).await.map(drop))
            }
        };
        match outcome {
            (number, Ok(())) => {
                *entry = Known { acknowledged: number, perhaps: Vec::new() };
                done += 1;
            }
            (number, Err(_)) => {
                entry.perhaps.push(number);
                // A refused client's pause: the server may be down.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    done
}

fn numbers(all: &BTreeMap<String, pb::Resource>) -> BTreeMap<String, i64> {
    all.iter().map(|(name, one)| (name.clone(), decoded::<Thing>(one).number)).collect()
}

#[tokio::test]
async fn kills_and_cuts_lose_double_and_bring_back_nothing() {
    let mut world = Servers::start(&ALL, &policy(&ALL, "eu", &[]), &[("MORTISE_STORE_HISTORY_EVENTS", "200")]).await;
    let mut known: BTreeMap<&str, BTreeMap<String, Known>> = BTreeMap::new();
    let (mut next, mut kills, mut cuts, mut writes) = (0, 0, 0, 0);
    let rounds: u64 = std::env::var("MORTISE_REGION_ROUNDS").ok().map_or(6, |text| text.parse().unwrap());
    let seen: BTreeMap<&str, Arc<Mutex<Seen>>> = ALL.into_iter().map(|region| (region, Arc::default())).collect();
    let mut observers = JoinSet::new();
    for region in ALL {
        observers.spawn(observe(world.at(region).client(), seen[region].clone()));
    }
    for round in 0..rounds {
        let victim = ALL[usize::try_from(round).unwrap() % ALL.len()];
        let cut_off = ALL[fastrand::usize(..ALL.len())];
        world.isolate(cut_off, true);
        cuts += 1;
        let until = Instant::now() + Duration::from_millis(fastrand::u64(300..900));
        // All regions write at once; the victim is killed meanwhile, and while it pulls.
        let mut per_region = Vec::new();
        for region in ALL {
            per_region.push((region, known.remove(region).unwrap_or_default(), next));
            next += 1_000_000;
        }
        let killed = async {
            // At any moment of the writes, and of the pulls that they cause.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(50..300))).await;
            world.at(victim).signal("KILL");
        };
        let mut futures = Vec::new();
        for (region, mut mine, mut number) in per_region {
            let server = world.at(region);
            futures.push(async move {
                let done = write(server, region, until, &mut mine, &mut number).await;
                (region, mine, done)
            });
        }
        let (all, ()) = tokio::join!(futures::future::join_all(futures), killed);
        for (region, mine, done) in all {
            known.insert(region, mine);
            writes += done;
        }
        kills += 1;
        world.kill(victim).await;
        if fastrand::bool() {
            world.isolate(cut_off, false);
        }
        world.restart(victim).await;
        observers.spawn(observe(world.at(victim).client(), seen[victim].clone()));
        world.isolate(cut_off, false);
    }
    // Each region is right about its own resources; the others must have the same.
    let mut compared = 0;
    for owner in ALL {
        let owned = |all: BTreeMap<String, pb::Resource>| -> BTreeMap<String, pb::Resource> {
            all.into_iter().filter(|(_, one)| syncing(one).owning_region == owner).collect()
        };
        let truth = owned(world.all(owner, "regional.v1.Thing").await);
        let seen = numbers(&truth);
        for (name, known) in &known[owner] {
            assert!(known.allows(seen.get(name).copied()), "{owner}: {name} is {:?}, {known:?}", seen.get(name));
        }
        for other in ALL.into_iter().filter(|other| *other != owner) {
            compared += until(&format!("{other} has what {owner} has: {seen:?}"), async || {
                let copies = owned(world.all(other, "regional.v1.Thing").await);
                let same = copies.len() == truth.len()
                    && copies.iter().zip(&truth).all(|((_, a), (_, b))| as_owned(a) == as_owned(b));
                if same { Ok(copies.len()) } else { Err((numbers(&copies), world.peer(other, owner).await)) }
            })
            .await;
        }
    }
    for region in ALL {
        let all = world.all(region, "regional.v1.Thing").await;
        assert!(all.values().all(|one| ALL.contains(&syncing(one).owning_region.as_str())));
        for peer in ALL.into_iter().filter(|peer| *peer != region) {
            until(&format!("{region} defers nothing of {peer}"), async || {
                let held = world.held_back(region, peer).await;
                if held.is_empty() { Ok(()) } else { Err(held) }
            })
            .await;
        }
    }
    let (mut events, mut gone) = (0, 0);
    for (region, seen) in &seen {
        let seen = seen.lock().unwrap();
        assert!(seen.back.is_empty(), "{region}: {:?} came back", seen.back);
        (events, gone) = (events + seen.events, gone + seen.gone.len());
    }
    println!("{events} events seen, {gone} incarnations went");
    assert!(events > 100 && gone > 10);
    println!("{writes} writes, {kills} kills, {cuts} cuts, {compared} copies compared");
    assert!(kills >= 3 && cuts >= 3 && writes > 50 && compared > 0);
}
