//! Courses of one hub: a sender of batches, and readers that come, poll, wait, fall behind and go.
//!
//! # Checks
//! - A reader gets each event since it came, in order, until it falls behind or the hub is closed.
//! - A hub without readers holds no event, and counts no bytes.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use mortise_resource::{EncodedResource, pb};
use shuttle::{future::block_on, thread};

use crate::{
    WatchEvent,
    dice::{below, one_in},
    engine::read::hub::{Hub, HubEnd, HubEvent, HubLimits},
};

/// Bytes of an event.
const EVENT_BYTES: usize = 10;

/// Makes a course.
pub fn run() {
    let total = Arc::new(AtomicUsize::new(0));
    let hub = Arc::new(Hub::new(total.clone()));
    let events = if one_in(2) { 1 + below(3) } else { 1_000 };
    let limits = HubLimits { events, bytes: if one_in(4) { 2 * EVENT_BYTES } else { 1 << 20 } };
    let readers: Vec<_> = (0..1 + below(3))
        .map(|_| {
            let hub = hub.clone();
            thread::spawn(move || (0..1 + below(2)).for_each(|_| read(&hub)))
        })
        .collect();
    let mut sent = 0;
    for commit in 0..1 + below(4) {
        for _ in 0..1 + below(2) {
            hub.send(event(sent, commit as u64), EVENT_BYTES, limits);
            sent += 1;
        }
        hub.reveal().into_iter().for_each(Waker::wake);
        if one_in(8) {
            hub.evict_oldest();
        }
    }
    hub.close().into_iter().for_each(Waker::wake);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    let held = (hub.readers(), hub.bytes(), total.load(Ordering::Relaxed));
    assert_eq!(held, (0, 0, 0), "readers, bytes and bytes of all hubs at the end");
}

/// Reads until the end, or some events.
fn read(hub: &Arc<Hub>) {
    let (mut reader, mut last, leaves) = (hub.subscribe(one_in(2)), None, one_in(2).then(|| below(4)));
    let mut number = 0;
    while leaves != Some(number) {
        let ready = match below(3) {
            0 => reader.take(),
            // A task that is gone by the time of the event.
            1 => match reader.poll_next(&Context::from_waker(Waker::noop())) {
                Poll::Ready(taken) => Some(taken),
                Poll::Pending => None,
            },
            _ => None,
        };
        match ready.unwrap_or_else(|| block_on(poll_fn(|cx| reader.poll_next(cx)))) {
            Ok(event) => {
                assert!(last.is_none_or(|last| event.sequence == last + 1), "{} behind {last:?}", event.sequence);
                last = Some(event.sequence);
                number += 1;
            }
            Err(HubEnd::Lagged | HubEnd::Closed) => return,
        }
    }
}

fn event(sequence: u64, commit: u64) -> HubEvent {
    let resource = pb::Resource { version: sequence.to_string(), ..pb::Resource::default() };
    let event = WatchEvent::Upsert(EncodedResource::encode(&resource).unwrap());
    HubEvent { event, sequence, commit, more: false, before: None }
}
