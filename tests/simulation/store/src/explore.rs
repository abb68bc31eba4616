//! Courses from a seed.
//!
//! `MORTISE_SIMULATION_SEED` names the seed of the first course, and so repeats a failed one; `MORTISE_SIMULATION_RUNS`
//! sets the number of courses.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::panicking,
    time::Instant,
};

use shuttle::{Config, FailurePersistence, MaxSteps, Runner, scheduler::RandomScheduler};

/// Steps of a course that does not end.
const MAX_STEPS: usize = 100_000;

/// Number of courses so far; a failure prints it.
struct Made<'a> {
    name: &'a str,
    courses: Arc<AtomicUsize>,
}

/// Makes courses from a fresh seed, unless the environment names one, and prints seed and number. Panics in the first
/// course that fails a check, or whose threads wait for each other; shuttle prints its seed.
pub fn explore(name: &str, courses: usize, course: fn()) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = number("MORTISE_SIMULATION_SEED").unwrap_or_else(|| fastrand::u64(..));
    let courses = number("MORTISE_SIMULATION_RUNS").map_or(courses, |courses| usize::try_from(courses).unwrap());
    let mut config = Config::new();
    // The seed says as much as the schedule.
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.silence_warnings = true;
    println!("{name}: MORTISE_SIMULATION_SEED={seed}");
    let (begun, made) = (Instant::now(), Made { name, courses: Arc::default() });
    let number = made.courses.clone();
    let count = Runner::new(RandomScheduler::new_from_seed(seed, courses), config).run(move || {
        number.fetch_add(1, Ordering::Relaxed);
        course();
    });
    println!("{name}: {count} courses in {:.1} s", begun.elapsed().as_secs_f64());
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if panicking() {
            let courses = self.courses.load(Ordering::Relaxed);
            println!("{}: course {courses} failed; MORTISE_SIMULATION_SEED=(its seed, above) repeats it", self.name);
        }
    }
}
