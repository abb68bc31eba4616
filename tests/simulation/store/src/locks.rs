//! Locks and a condition variable with parking_lot's interface, over those of shuttle.
//!
//! A wait with a time limit ends after any number of steps of other threads, with or without a notification.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::PoisonError,
    time::Instant,
};

use shuttle::{
    rand::{Rng as _, thread_rng},
    sync, thread,
};

/// Most steps of other threads in a wait with a time limit.
const MAX_WAITED_STEPS: usize = 4;

/// A lock.
#[derive(Default)]
pub struct Mutex<T>(sync::Mutex<T>);

/// A lock that many readers may have at once.
#[derive(Default)]
pub struct RwLock<T>(sync::RwLock<T>);

/// A locked value. Empty only within a wait.
pub struct MutexGuard<'a, T>(Option<(&'a Mutex<T>, sync::MutexGuard<'a, T>)>);

/// A condition to wait for.
#[derive(Default)]
pub struct Condvar(sync::Condvar);

/// Result of a wait with a time limit.
#[derive(Debug, Clone, Copy)]
pub struct WaitTimeoutResult(bool);

impl<T> Mutex<T> {
    /// Makes an open lock.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some((self, self.raw())))
    }

    /// Returns the value of a lock that no other thread has.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn raw(&self) -> sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().map_or_else(|| unreachable!("a guard is empty only within a wait"), |(_, guard)| &**guard)
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().map_or_else(|| unreachable!("a guard is empty only within a wait"), |(_, guard)| &mut **guard)
    }
}

impl Condvar {
    /// Makes a condition without waiters.
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Opens the lock, waits for a notification, and locks again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some((mutex, held)) = guard.0.take() {
            guard.0 = Some((mutex, self.0.wait(held).unwrap_or_else(PoisonError::into_inner)));
        }
    }

    /// Opens the lock, lets some steps of other threads pass, and locks again.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> WaitTimeoutResult {
        let (steps, is_over) = (thread_rng().gen_range(0..=MAX_WAITED_STEPS), thread_rng().gen_bool(0.5));
        if let Some((mutex, held)) = guard.0.take() {
            drop(held);
            (0..steps).for_each(|_| thread::yield_now());
            guard.0 = Some((mutex, mutex.raw()));
        }
        WaitTimeoutResult(is_over)
    }

    /// Wakes a waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
}

impl WaitTimeoutResult {
    /// Whether the time was over.
    pub const fn timed_out(self) -> bool {
        self.0
    }
}

impl<T> RwLock<T> {
    /// Waits until no other thread writes.
    pub fn read(&self) -> sync::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value of a lock that no other thread has.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread has the lock.
    pub fn write(&self) -> sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
