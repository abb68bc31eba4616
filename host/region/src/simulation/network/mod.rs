//! Replication over a simulated network (turmoil): the real code of this crate, its gRPC calls included, and a real
//! store in a directory in memory, against an owner in memory. The network cuts, delays and loses; both servers go down
//! and come back; the owner repeats messages, mixes the names in them, ends watches, refuses tokens, resets, and sends
//! removals that are not true.
//!
//! # Checks
//! - A replica is a state of the owner, and goes forward only.
//! - A replica goes only once the owner has removed the resource.
//! - A stored token is never ahead of the replicas.
//! - In the end the replicas are the owner's content.
//!
//! `MORTISE_SIMULATION_RUNS` sets the number of courses, `MORTISE_SIMULATION_SEED` the seed of the first one. The choices
//! and the network follow from the seed. Each step waits for the real commit thread of the store, so that no commit of a
//! server that went down comes later; only the choices of `tokio::select!` differ between courses with the same seed.

mod owner;
mod replica;
mod server;
mod wire;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use turmoil::{Builder, Sim};

use self::{
    owner::{NAMES, Owner},
    replica::{Replica, Site},
};
use super::world::{Dice, registry};

/// Simulated time of a step.
const STEP: Duration = Duration::from_millis(20);
/// Most steps until the replicas are equal, once all faults have ended: minutes.
const MAX_STEPS: usize = 20_000;
/// Courses without a wish for another number.
const COURSES: u64 = 60;
/// Courses with a store in common, which takes longer to make than a course.
const COURSES_PER_STORE: usize = 16;

/// A course.
struct Course {
    sim: Sim<'static>,
    owner: Arc<Mutex<Owner>>,
    replica: Replica,
    dice: Dice,
}

impl Course {
    fn new(seed: u64, site: &Arc<Site>, region: &str) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        fastrand::seed(seed);
        let mut sim = Builder::new()
            .rng_seed(seed)
            .tick_duration(STEP)
            .min_message_latency(Duration::from_millis(1))
            .max_message_latency(Duration::from_millis(20 + dice.below(200)))
            .simulation_duration(Duration::from_secs(86_400))
            .build();
        let owner = Arc::new(Mutex::new(Owner::new(region, seed)));
        let replica = Replica::new(site.clone(), region);
        let served = owner.clone();
        sim.host("eu", move || server::serve(served.clone()));
        let (site, region) = (site.clone(), region.to_owned());
        sim.host("us", move || replica::replicate(site.clone(), region.clone()));
        Self { sim, owner, replica, dice }
    }

    /// Lets time pass.
    fn step(&mut self) {
        self.sim.step().unwrap();
        self.replica.settle();
        self.replica.check(&self.owner.lock());
    }

    fn pass(&mut self, most: u64) {
        for _ in 0..self.dice.below(most) {
            self.step();
        }
    }

    fn change(&mut self) {
        let (number, deletes) = (self.dice.below(NAMES), self.dice.below(3) == 0);
        self.owner.lock().change(number, deletes);
    }

    /// Makes a fault, and perhaps ends another one.
    fn fault(&mut self) {
        match self.dice.below(9) {
            0 => self.sim.partition("us", "eu"),
            1 => self.sim.partition_oneway("us", "eu"),
            2 => self.sim.partition_oneway("eu", "us"),
            3 => self.sim.hold("us", "eu"),
            4 => self.sim.release("us", "eu"),
            5 => self.sim.repair("us", "eu"),
            6 => self.restart("eu"),
            7 => self.restart("us"),
            _ => self.owner.lock().trim(),
        }
    }

    fn restart(&mut self, host: &'static str) {
        self.sim.crash(host);
        self.pass(10);
        self.sim.bounce(host);
    }

    /// Runs the course. Returns the numbers of what happened.
    fn run(mut self) -> BTreeMap<&'static str, usize> {
        for _ in 0..8 {
            self.change();
        }
        self.pass(60);
        for _ in 0..4 + self.dice.below(8) {
            for _ in 0..self.dice.below(4) {
                self.change();
                self.pass(4);
            }
            self.fault();
            self.pass(40);
        }
        self.sim.release("us", "eu");
        self.sim.repair("us", "eu");
        let mut steps = 0;
        while !self.replica.is_equal(&self.owner.lock()) {
            assert!(steps < MAX_STEPS, "{:?}, not {:?}", self.replica.held(), self.owner.lock().content());
            self.step();
            steps += 1;
        }
        let sent = self.owner.lock().sent;
        [
            ("snapshots", sent.snapshots),
            ("resumed watches", sent.resumed),
            ("refused tokens", sent.refused_tokens),
            ("repeated messages", sent.repeated),
            ("false removals", sent.false_removals),
            ("ended watches", sent.ended),
            ("removed replicas", self.replica.removals),
        ]
        .into()
    }
}

#[test]
fn replicas_follow_their_owner_over_a_network_with_faults() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let first = number("MORTISE_SIMULATION_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let courses = number("MORTISE_SIMULATION_RUNS").unwrap_or(COURSES);
    println!("regions: MORTISE_SIMULATION_SEED={first}");
    let registry = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(registry());
    let regions: Vec<String> = (0..COURSES_PER_STORE).map(|number| format!("eu{number}")).collect();
    let mut site = Site::new(&registry, &regions);
    let (begun, mut all) = (Instant::now(), BTreeMap::new());
    let seeds = (0..courses).map(|course| first.wrapping_add(course));
    for (seed, region) in seeds.zip(regions.iter().cycle()) {
        if Some(region) == regions.first() {
            site = Site::new(&registry, &regions);
        }
        let course = std::panic::AssertUnwindSafe(|| Course::new(seed, &site, region).run());
        match std::panic::catch_unwind(course) {
            Ok(happened) => happened.into_iter().for_each(|(what, times)| *all.entry(what).or_insert(0) += times),
            Err(panic) => {
                println!(
                    "regions: course {} failed; MORTISE_SIMULATION_SEED={seed} repeats it",
                    seed.wrapping_sub(first) + 1
                );
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("regions: {courses} courses in {:.1} s: {all:?}", begun.elapsed().as_secs_f64());
    assert!(courses < COURSES || all.values().all(|times| *times > 0), "{all:?}");
}
