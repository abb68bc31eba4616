//! Courses of the commit queue: producers that wait, give up or do not wait, one consumer, and a close at any moment.
//!
//! # Checks
//! - An accepted item is taken exactly once, a refused one never; those of a producer in their order.
//! - No more items than places are taken at once, and a close is final.
//! - The consumer ends only when the queue is closed and drained, and no thread waits for ever.
//! - Every place comes back.

use std::{
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use shuttle::{future::block_on, thread};

use crate::{
    dice::{below, one_in},
    engine::commit::queue::Queue,
};

/// An item: its producer, and its number there.
type Item = (usize, usize);

/// Added to the producer of an item that may be left out.
const OPTIONAL: usize = 100;

/// The item behind all others.
const LAST: Item = (OPTIONAL - 1, 0);

/// Answers to the producers.
#[derive(Default)]
struct Answers {
    accepted: Vec<Item>,
    refused: Vec<Item>,
    /// Items that were accepted after a close had ended.
    late: Vec<Item>,
    closed: bool,
}

/// Makes a course.
pub fn run() {
    let (bound, producers) = (1 + below(3), 1 + below(3));
    let queue = Arc::new(Queue::new(bound));
    let answers = Arc::new(Mutex::new(Answers::default()));
    let consumer = {
        let queue = queue.clone();
        thread::spawn(move || consume(&queue, bound))
    };
    let producers: Vec<_> = (0..producers)
        .map(|producer| {
            let (queue, answers) = (queue.clone(), answers.clone());
            thread::spawn(move || produce(&queue, producer, &answers))
        })
        .collect();
    let closes_early = one_in(3);
    if closes_early {
        close(&queue, &answers);
    }
    producers.into_iter().for_each(|producer| producer.join().unwrap());
    if !closes_early {
        block_on(queue.push(LAST)).unwrap();
    }
    let mut taken = consumer.join().unwrap();
    if !closes_early {
        assert!(answers.lock().unwrap().refused.is_empty(), "refused before the close");
        assert_eq!(taken.pop(), Some(LAST));
        has_places(&queue, bound);
        close(&queue, &answers);
    }
    judge(&taken, &answers.lock().unwrap());
}

fn close(queue: &Queue<Item>, answers: &Mutex<Answers>) {
    queue.close();
    answers.lock().unwrap().closed = true;
}

/// Checks that an empty queue has all of its places.
fn has_places(queue: &Queue<Item>, bound: usize) {
    for _ in 0..bound {
        assert!(poll_once(queue.push(LAST)).is_ready(), "a place is lost of {bound}");
    }
    assert!(poll_once(queue.push(LAST)).is_pending(), "a place too many beside {bound}");
}

fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Takes everything until the last item or the end.
fn consume(queue: &Queue<Item>, bound: usize) -> Vec<Item> {
    let (mut taken, mut expected) = (Vec::new(), 1);
    while let Some(items) = queue.take(expected) {
        assert!(!items.is_empty() && items.len() <= bound, "{} items of {bound} places", items.len());
        expected = items.len();
        taken.extend(items);
        if taken.last() == Some(&LAST) {
            return taken;
        }
    }
    assert!(queue.is_closed(), "the end comes with the close");
    taken
}

fn produce(queue: &Queue<Item>, producer: usize, answers: &Mutex<Answers>) {
    for number in 0..1 + below(3) {
        let item = (producer, number);
        let was_closed = answers.lock().unwrap().closed;
        let result = match below(4) {
            // A caller that goes away, unless there is a place at once.
            0 => match poll_once(queue.push(item)) {
                Poll::Ready(result) => result.is_ok(),
                Poll::Pending => {
                    thread::yield_now();
                    continue;
                }
            },
            // It may be accepted or not.
            1 => {
                queue.push_if_room((producer + OPTIONAL, number));
                continue;
            }
            _ => block_on(queue.push(item)).is_ok(),
        };
        let mut answers = answers.lock().unwrap();
        if result && was_closed {
            answers.late.push(item);
        }
        if result { answers.accepted.push(item) } else { answers.refused.push(item) }
    }
}

fn judge(taken: &[Item], answers: &Answers) {
    assert_eq!(answers.late, [], "accepted after the close");
    let (mut must, mut may): (Vec<Item>, Vec<Item>) = taken.iter().partition(|(producer, _)| *producer < OPTIONAL);
    assert!(in_order(&must), "out of order: {taken:?}");
    let mut accepted = answers.accepted.clone();
    accepted.sort_unstable();
    must.sort_unstable();
    assert_eq!(must, accepted, "an accepted item is taken once, and no other");
    let number = may.len();
    may.sort_unstable();
    may.dedup();
    assert_eq!(may.len(), number, "taken twice: {may:?}");
}

/// Returns whether the items of each producer are in their order.
fn in_order(items: &[Item]) -> bool {
    let of = |producer: usize| items.iter().filter(move |item| item.0 == producer).map(|item| item.1);
    (0..OPTIONAL).all(|producer| of(producer).is_sorted())
}
