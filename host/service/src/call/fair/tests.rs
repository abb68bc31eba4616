use std::time::Duration;

use tokio::time::timeout;

use super::*;

const A: (u64, u64) = (1, 1);
const B: (u64, u64) = (2, 2);
const C: (u64, u64) = (3, 3);

/// The key of a known caller's connection.
fn key((holder, connection): (u64, u64)) -> QueueKey {
    let [holder, connection] = [holder, connection].map(Source::of_number);
    QueueKey { holder, connection, is_known: true, reader: None }
}

fn stranger(source: (u64, u64)) -> QueueKey {
    QueueKey { is_known: false, ..key(source) }
}

async fn now(pool: &FairPool, caller: (u64, u64), units: usize) -> Option<Share> {
    timeout(Duration::from_millis(20), pool.acquire(key(caller), units)).await.ok()?.ok()
}

#[tokio::test]
async fn one_caller_leaves_half_to_others() {
    let pool = FairPool::new(8, 100);
    let whole = now(&pool, A, 8).await.expect("who has nothing may take all");
    assert!(now(&pool, B, 1).await.is_none());
    drop(whole);
    let mut mine = Vec::new();
    while let Some(share) = now(&pool, A, 1).await {
        mine.push(share);
    }
    assert_eq!(mine.len(), 4);
    let theirs = now(&pool, B, 4).await.expect("the other half");
    assert!(now(&pool, C, 1).await.is_none());
    drop(theirs);
    assert!(now(&pool, C, 4).await.is_some());
}

/// Returns the order in which calls are served that arrived one after the other, with a number of places.
async fn served(places: usize, turns: &[(u64, u64)]) -> Vec<usize> {
    let pool = FairPool::new(places, 100);
    let held = pool.acquire(key(C), places).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for (n, caller) in turns.iter().copied().enumerate() {
        let (pool, order) = (pool.clone(), order.clone());
        waiting.push(tokio::spawn(async move {
            let share = pool.acquire(key(caller), 1).await.unwrap();
            order.lock().push(n);
            drop(share);
        }));
        tokio::task::yield_now().await;
    }
    drop(held);
    for waiter in waiting {
        waiter.await.unwrap();
    }
    let order = order.lock();
    order.clone()
}

#[tokio::test]
async fn callers_take_turns() {
    for places in [1, 4] {
        assert_eq!(served(places, &[A, A, A, A, B]).await, [0, 4, 1, 2, 3], "{places}");
    }
}

#[tokio::test]
async fn many_connections_of_one_caller_have_one_turn_and_take_turns_in_it() {
    let [first, second] = [(1, 4), (1, 5)];
    assert_eq!(served(1, &[A, first, second, B]).await, [0, 3, 1, 2]);
    assert_eq!(served(1, &[first, first, first, second, second]).await, [0, 3, 1, 4, 2]);
    let pool = FairPool::new(8, 100);
    let mine = [now(&pool, A, 2).await, now(&pool, first, 2).await, now(&pool, second, 1).await];
    assert_eq!(mine.map(|share| share.is_some()), [true, true, false], "they have one half together");
}

#[tokio::test]
async fn shares_grow_only_while_nobody_waits_and_come_back() {
    let pool = FairPool::new(10, 2);
    assert_eq!(pool.acquire(key(A), 11).await.err(), Some(NoShare::TooMuch));
    let mut share = pool.acquire(key(A), 2).await.unwrap();
    assert!(share.grow(7) && !share.grow(2));
    assert_eq!(share.units(), 9);
    let large = tokio::spawn({
        let pool = pool.clone();
        async move { pool.acquire(key(B), 5).await.map(|share| share.units()) }
    });
    tokio::task::yield_now().await;
    assert!(!share.grow(1), "B waits");
    assert!(now(&pool, C, 1).await.is_none(), "B is first");
    share.shrink(5);
    assert_eq!(large.await.unwrap(), Ok(5));
    drop(share);
    assert!(now(&pool, C, 10).await.is_some(), "who gave up waiting holds nothing");
}

#[tokio::test]
async fn shares_that_grow_leave_half_to_others_too() {
    let pool = FairPool::new(10, 2);
    let (mut first, second) = (pool.acquire(key(A), 2).await.unwrap(), pool.acquire(key(A), 2).await.unwrap());
    assert!(first.grow(1) && !first.grow(1), "A has its half");
    assert!(now(&pool, B, 5).await.is_some(), "the other half");
    drop(second);
    assert!(first.grow(7), "it is all that A has");
}

#[tokio::test]
async fn who_does_not_wait_leaves_no_trace() {
    let pool = FairPool::new(4, 1);
    let held = pool.try_acquire(key(A), 3).unwrap();
    assert!(pool.try_acquire(key(B), 2).is_none() && pool.try_acquire(key(B), 5).is_none());
    assert!(pool.try_acquire(key(C), 1).is_some(), "the queue is empty");
    drop(held);
    assert!(now(&pool, B, 4).await.is_some());
}

#[tokio::test]
async fn the_queue_is_bounded_and_forgets_who_left() {
    let pool = FairPool::new(1, 2);
    let held = pool.acquire(key(A), 1).await.unwrap();
    {
        let (first, second) = (pool.acquire(key(B), 1), pool.acquire(key(C), 1));
        tokio::pin!(first, second);
        assert!(futures::poll!(first.as_mut()).is_pending() && futures::poll!(second.as_mut()).is_pending());
        assert_eq!(pool.acquire(key(B), 1).now_or_never().expect("at once").err(), Some(NoShare::QueueFull));
    }
    let waiting = pool.acquire(key(B), 1);
    tokio::pin!(waiting);
    assert!(futures::poll!(waiting.as_mut()).is_pending());
    drop(held);
    assert_eq!(waiting.await.unwrap().units(), 1);
}

/// A reader that has not read for so long.
fn unread(time: Duration) -> Arc<Reader> {
    let reader = Arc::new(Reader::default());
    reader.set_unread(Instant::now().checked_sub(time));
    reader
}

/// Shares of one unit for connections of an address, all of them unread.
async fn hold(pool: &FairPool, address: u64, connections: &[u64]) -> Vec<(Arc<Reader>, Share)> {
    let mut held = Vec::new();
    for connection in connections {
        let reader = unread(UNREAD_TIME);
        let key = QueueKey { reader: Some(reader.clone()), ..stranger((address, *connection)) };
        held.push((reader, pool.acquire(key, 1).await.unwrap()));
    }
    held
}

/// Ends the shares that were asked to give way; returns their number.
fn end_asked(held: &mut Vec<(Arc<Reader>, Share)>) -> usize {
    let before = held.len();
    held.retain(|(reader, _)| !reader.take_asked());
    before - held.len()
}

#[tokio::test]
async fn what_authenticated_callers_may_have_is_reserved_for_them() {
    let pool = FairPool::new(8, 100);
    let first = pool.try_acquire(stranger(A), 4).expect("half");
    let second = pool.try_acquire(stranger(B), 2).expect("three quarters together");
    assert!(pool.try_acquire(stranger(C), 1).is_none(), "the rest is reserved");
    let known = now(&pool, C, 2).await.expect("for known callers");
    drop((first, second, known));
    assert!(pool.try_acquire(stranger(A), 8).is_some(), "a single share may take all");
    let mut growing = pool.try_acquire(stranger(A), 6).unwrap();
    assert!(!growing.grow(1), "but does not grow into it");
}

#[tokio::test]
async fn unread_shares_give_way_to_a_caller_that_holds_less() {
    let pool = FairPool::new(4, 100);
    let mut crowd = hold(&pool, 1, &[1, 1]).await;
    crowd.extend(hold(&pool, 2, &[2]).await);
    assert_eq!(pool.press(Instant::now()), 0, "no call waits");
    let honest = pool.acquire(stranger(C), 1);
    let more = pool.acquire(stranger((1, 9)), 1);
    tokio::pin!(honest, more);
    // The crowd's own call comes first, and does not profit.
    assert!(futures::poll!(more.as_mut()).is_pending());
    assert!(futures::poll!(honest.as_mut()).is_pending());
    assert!(pool.press(Instant::now()) >= 1);
    assert!(end_asked(&mut crowd) >= 1);
    assert!(futures::poll!(honest.as_mut()).is_ready(), "it holds least, so it is next");
}

#[tokio::test]
async fn a_crowd_on_the_same_address_gives_way_too_connection_by_connection() {
    let pool = FairPool::new(8, 100);
    let mut crowd = hold(&pool, 1, &[1, 1, 2, 2]).await;
    let waiting: Vec<_> = (0..10).map(|_| Box::pin(pool.acquire(stranger((1, 1)), 1))).collect();
    let mut waiting = futures::future::join_all(waiting);
    assert!(futures::poll!(&mut waiting).is_pending());
    let mut honest = Box::pin(pool.acquire(stranger((1, 3)), 1));
    assert!(futures::poll!(honest.as_mut()).is_pending(), "the address has its half");
    assert_eq!((pool.press(Instant::now()), end_asked(&mut crowd)), (1, 1), "as many as it needs");
    assert!(futures::poll!(honest.as_mut()).is_ready());
}

#[tokio::test]
async fn shares_that_are_read_or_belong_to_known_callers_stay() {
    for reader in [unread(Duration::ZERO), Arc::default(), unread(UNREAD_TIME)] {
        let pool = FairPool::new(4, 100);
        let held =
            [A, B].map(|source| pool.try_acquire(QueueKey { reader: Some(reader.clone()), ..key(source) }, 2).unwrap());
        let mut waiting = Box::pin(pool.acquire(stranger(C), 1));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        assert_eq!(pool.press(Instant::now()), 0, "{reader:?}");
        drop(held);
    }
}

#[tokio::test]
async fn a_caller_does_not_replace_one_that_holds_as_much() {
    let pool = FairPool::new(4, 100);
    let mut held = hold(&pool, 1, &[1]).await;
    held.extend(hold(&pool, 2, &[2]).await);
    held.extend(hold(&pool, 3, &[3]).await);
    let mut waiting = Box::pin(pool.acquire(stranger(C), 1));
    assert!(futures::poll!(waiting.as_mut()).is_pending(), "strangers have their part");
    assert_eq!(pool.press(Instant::now()), 0);
}

/// Lists need many units at once: as many answers give way as are needed, those of the largest holder first, and none
/// if all of them would not do.
#[tokio::test]
async fn a_large_call_ends_as_many_unread_shares_as_it_needs_or_none() {
    let pool = FairPool::new(100, 100);
    let reader = |time: u64| unread(UNREAD_TIME + Duration::from_secs(time));
    let share = async |holder: u64, units, reader: &Arc<Reader>| {
        pool.acquire(QueueKey { reader: Some(reader.clone()), ..key((holder, holder)) }, units).await.unwrap()
    };
    let readers = [reader(1), reader(3), reader(2), reader(9)];
    let _held = [
        share(1, 15, &readers[0]).await,
        share(1, 15, &readers[1]).await,
        share(1, 15, &readers[2]).await,
        share(2, 40, &readers[3]).await,
    ];
    let mut wanted = Box::pin(pool.acquire(key(C), 40));
    assert!(futures::poll!(wanted.as_mut()).is_pending());
    assert_eq!(pool.press(Instant::now()), 2);
    assert_eq!(
        readers.each_ref().map(|reader| reader.take_asked()),
        [false, true, true, false],
        "longest unread first"
    );
    drop(wanted);
    let mut whole = Box::pin(pool.acquire(key((2, 7)), 100));
    assert!(futures::poll!(whole.as_mut()).is_pending());
    assert_eq!(pool.press(Instant::now()), 0, "it would not be enough");
}
