//! The rules of the queue: of its state alone, and of the reconcile loop around it.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, time::Instant};

use super::{
    harness::{Harness, Probe},
    kit::artist,
};
use crate::{
    Outcome,
    key::Key,
    queue::state::{Content, Job, Next, Queue, Take},
};

/// Content that newer content replaces.
#[derive(Debug, Default, PartialEq)]
struct Text(String);

impl Content for Text {
    fn merge(&mut self, newer: Self) {
        self.0 = newer.0;
    }
}

struct Line {
    queue: Queue<Text>,
    now: Instant,
}

impl Line {
    fn new() -> Self {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        queue.open(now);
        Self { queue, now }
    }

    fn add(&mut self, name: &str, text: &str) {
        self.queue.add(&Key::new("", "", name), Text(text.into()), self.now);
    }

    fn take(&mut self) -> Option<Job<Text>> {
        match self.queue.take(self.now, |_, _, _| None) {
            Take::Job(job) => Some(job),
            Take::Wait(_) | Take::Closed => None,
        }
    }

    fn names(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.take()).map(|job| format!("{}={}", job.key, job.content.0)).collect()
    }

    fn finish(&mut self, job: Job<Text>, next: Next<Text>) {
        self.queue.finish(job, next, self.now);
    }

    /// Milliseconds until the next timer.
    fn due(&mut self) -> Option<u128> {
        match self.queue.take(self.now, |_, _, _| None) {
            Take::Wait(Some(due)) => Some((due - self.now).as_millis()),
            _ => None,
        }
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn done<C>() -> Next<C> {
    Next::Done(None)
}

#[tokio::test(start_paused = true)]
async fn first_in_first_out_and_dedup_keeps_the_place_and_the_newest_content() {
    let mut line = Line::new();
    for (name, text) in [("a", "1"), ("b", "2"), ("c", "3"), ("a", "4"), ("b", "5")] {
        line.add(name, text);
    }
    assert_eq!(line.queue.depth(), 3);
    assert_eq!(line.names(), ["a=4", "b=5", "c=3"]);
}

#[tokio::test(start_paused = true)]
async fn added_while_processing_runs_exactly_once_more_at_the_end_with_the_newest_content() {
    let mut line = Line::new();
    line.add("a", "1");
    let job = line.take().unwrap();
    line.add("a", "2");
    line.add("b", "3");
    line.add("a", "4");
    let other = line.take().unwrap();
    assert_eq!(other.key.name(), "b");
    assert!(line.take().is_none(), "a is in work");
    line.finish(job, done());
    assert_eq!(line.names(), ["a=4"]);
}

#[tokio::test(start_paused = true)]
async fn the_earlier_of_two_times_asked_for_stays() {
    for (first, second) in [(10, 20), (20, 10)] {
        let mut line = Line::new();
        line.add("a", "");
        let job = line.take().unwrap();
        line.finish(job, Next::After(ms(first), Text("later".into())));
        line.add("a", "");
        let job = line.take().unwrap();
        line.finish(job, Next::After(ms(second), Text::default()));
        assert_eq!(line.due(), Some(10));
    }
}

#[tokio::test(start_paused = true)]
async fn a_forced_reconcile_replaces_a_forced_one_and_a_run_absorbs_it() {
    let mut line = Line::new();
    for wait in [1000, 2000] {
        line.add("a", "");
        let job = line.take().unwrap();
        line.finish(job, Next::Done(Some(ms(wait))));
        assert_eq!(line.due(), Some(u128::from(wait)));
    }
    line.add("a", "");
    let job = line.take().unwrap();
    assert_eq!(line.queue.timers(), 0, "the run does what the forced one would");
    line.finish(job, done());
    assert_eq!(line.queue.len(), 0, "and what is idle is forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_run_absorbs_a_retry_but_not_a_time_asked_for() {
    let mut line = Line::new();
    line.add("a", "");
    let job = line.take().unwrap();
    line.finish(job, Next::Retry(ms(5), Text("old".into())));
    line.add("a", "new");
    let job = line.take().unwrap();
    assert_eq!((job.content.0.as_str(), job.failures, line.queue.timers()), ("new", 1, 0));
    line.finish(job, Next::After(ms(50), Text::default()));
    line.add("a", "");
    let job = line.take().unwrap();
    assert_eq!((job.failures, line.queue.timers()), (0, 1));
    line.finish(job, done());
    assert_eq!(line.due(), Some(50));
}

#[tokio::test(start_paused = true)]
async fn a_failure_with_news_runs_at_once_and_keeps_count() {
    let mut line = Line::new();
    line.add("a", "old");
    let job = line.take().unwrap();
    line.add("a", "new");
    line.finish(job, Next::Retry(ms(500), Text("old".into())));
    assert_eq!(line.queue.timers(), 0, "what follows is the retry");
    let job = line.take().unwrap();
    assert_eq!((job.content.0.as_str(), job.failures, line.queue.timers()), ("new", 1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_age_is_that_of_the_first_that_waits() {
    let mut line = Line::new();
    line.add("a", "");
    line.now += ms(30);
    line.add("b", "");
    line.add("a", "newer");
    assert_eq!(line.queue.oldest(line.now), Some(ms(30)));
    let job = line.take().unwrap();
    assert_eq!(line.queue.oldest(line.now), Some(ms(0)));
    line.finish(job, Next::Now(Text("again".into())));
    assert_eq!(line.names(), ["b=", "a=again"], "requeue-now goes to the end");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_outlived_its_opening_has_no_say_and_is_run_again() {
    let mut line = Line::new();
    line.add("a", "");
    let lost = line.take().unwrap();
    line.queue.close();
    assert!(matches!(line.queue.take(line.now, |_, _, _| None), Take::Closed));
    line.queue.open(line.now);
    line.finish(lost, Next::Now(Text("stale".into())));
    assert_eq!(line.names(), ["a="]);
}

#[tokio::test(start_paused = true)]
async fn many_random_steps_keep_the_books_straight() {
    let mut line = Line::new();
    let mut jobs: Vec<Job<Text>> = Vec::new();
    for _ in 0..20_000 {
        match fastrand::u8(0..4) {
            0 | 1 => line.add(&fastrand::u8(0..20).to_string(), "x"),
            2 => {
                if let Some(job) = line.take() {
                    assert!(jobs.iter().all(|other| other.key != job.key), "never two of one key");
                    jobs.push(job);
                }
            }
            _ if jobs.is_empty() => line.now += ms(7),
            _ => {
                let job = jobs.swap_remove(fastrand::usize(0..jobs.len()));
                let next = match fastrand::u8(0..5) {
                    0 => Next::Done(None),
                    1 => Next::Done(Some(ms(fastrand::u64(0..50)))),
                    2 => Next::Now(Text::default()),
                    3 => Next::After(ms(fastrand::u64(0..50)), Text::default()),
                    _ => Next::Retry(ms(fastrand::u64(0..50)), Text::default()),
                };
                line.finish(job, next);
            }
        }
        assert_eq!(line.queue.running(), jobs.len());
        assert!(line.queue.depth() + line.queue.running() <= line.queue.len());
    }
    for _ in 0..100 {
        line.now += ms(100);
        while let Some(job) = line.take() {
            line.finish(job, done());
        }
        for job in jobs.drain(..) {
            line.finish(job, done());
        }
    }
    assert_eq!((line.queue.len(), line.queue.timers(), line.queue.depth()), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn changes_while_a_resource_is_reconciled_make_one_more_run() {
    let gate = Arc::new(Semaphore::new(0));
    let wait = gate.clone();
    let probe = Probe::new(move |_, _, _| {
        let wait = wait.clone();
        async move {
            wait.acquire().await.unwrap().forget();
            Ok(Outcome::Done)
        }
    });
    let harness = Harness::start(probe, |d| d).await;
    for _ in 0..5 {
        harness.store.put(&artist(), "a");
        harness.settle().await;
    }
    gate.add_permits(10);
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["[initialize]", "[start]", "a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn so_many_keys_in_parallel_and_never_two_of_one() {
    for parallel in [1, 3] {
        // The probe fails when a name is reconciled twice at once.
        let probe = Probe::new(|_, _, _| async {
            tokio::time::sleep(ms(10)).await;
            Ok(Outcome::Done)
        });
        let harness = Harness::new(probe);
        for n in 0..12 {
            harness.store.put(&artist(), &n.to_string());
        }
        harness.register(|d| d.parallel(parallel));
        for n in 0..12 {
            harness.pass(3).await;
            harness.store.put(&artist(), &n.to_string());
        }
        harness.pass(1000).await;
        assert_eq!(harness.probe.most_at_once(), parallel);
        let status = harness.status();
        assert_eq!((status.in_progress, status.queue_depth, status.scheduled, status.errors), (0, 0, 12, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn requeue_now_goes_to_the_end_of_the_queue() {
    let probe = Probe::new(|_, request, _| async move {
        Ok(if request.key.name() == "a" { Outcome::Now } else { Outcome::After(ms(60_000)) })
    });
    let harness = Harness::new(probe);
    for name in ["a", "b", "c"] {
        harness.store.put(&artist(), name);
    }
    harness.register(|d| d);
    tokio::task::yield_now().await;
    while harness.status().reconciles < 6 {
        tokio::task::yield_now().await;
    }
    harness.all.shutdown().await;
    assert_eq!(harness.probe.names()[2..8], ["a", "b", "c", "a", "a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn requeue_after_runs_then_and_a_deferral_shows_its_reason() {
    let probe = Probe::new(|_, _, n| async move {
        Ok(match n {
            2 => Outcome::After(ms(100)),
            3 => Outcome::Deferred(ms(200), "waiting for the label".into()),
            _ => Outcome::Done,
        })
    });
    let harness = Harness::new(probe);
    harness.store.put(&artist(), "a");
    harness.register(|d| d);
    harness.pass(150).await;
    let status = harness.status();
    assert_eq!((status.requeues, status.scheduled, status.deferred.len()), (2, 1, 1));
    assert_eq!(status.deferred[0].message, "waiting for the label");
    harness.pass(200).await;
    assert!(harness.status().deferred.is_empty());
    let times: Vec<u64> = harness.probe.times().into_iter().skip(2).map(|(time, _)| time).collect();
    assert_eq!(times, [0, 100, 300]);
}

/// The one test on several threads and under the real clock: no wake-up gets lost between them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_the_last_change_of_each_key_is_seen() {
    let seen: Arc<parking_lot::Mutex<std::collections::HashMap<String, u64>>> = Arc::default();
    let write = seen.clone();
    let probe = Probe::new(move |context, request, _| {
        let found = context.cache().get(&request.id(context.managed())).unwrap();
        let version = found.map_or(0, |r| r.version().parse().unwrap());
        write.lock().insert(request.key.name().to_owned(), version);
        async move {
            match fastrand::u8(0..6) {
                0 => Err("no".into()),
                1 => Ok(Outcome::After(ms(fastrand::u64(0..3)))),
                2 => {
                    tokio::task::yield_now().await;
                    Ok(Outcome::Now)
                }
                _ => Ok(Outcome::Done),
            }
        }
    });
    let harness = Harness::start(probe, |d| d.parallel(4)).await;
    let mut last = std::collections::HashMap::new();
    for n in 0..30_000 {
        let name = fastrand::u8(0..50).to_string();
        let version = harness.store.put(&artist(), &name);
        last.insert(name, version);
        if n % 100 == 0 {
            tokio::task::yield_now().await;
        }
        if n % 1000 == 0 {
            harness.pass(1).await;
        }
    }
    for _ in 0..1000 {
        harness.pass(10).await;
        let status = harness.status();
        if *seen.lock() == last && status.queue_depth + status.in_progress == 0 {
            return;
        }
    }
    panic!("{:?}\n{:?}", harness.status(), seen.lock());
}
