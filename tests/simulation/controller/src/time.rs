//! Time with tokio's interface, in which a timer ends after any number of steps of other tasks.

use std::{
    cell::Cell,
    ops::{Add, Sub},
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use crate::dice::below;

/// Most steps of other tasks before a timer ends.
const MAX_STEPS: usize = 12;

/// Shortest wait that is longer than a course.
pub const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);

thread_local! {
    /// The time of the latest timer that has ended.
    static NOW: Cell<Duration> = const { Cell::new(Duration::from_secs(1)) };
}

/// A moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

/// A wait for a moment.
#[derive(Debug)]
pub struct Sleep {
    until: Instant,
    /// Steps of other tasks that are left; `None` for ever.
    steps: Option<usize>,
}

/// The time of a wait was over.
#[derive(Debug)]
pub struct Elapsed;

impl Instant {
    /// Returns the present moment.
    #[must_use]
    pub fn now() -> Self {
        Self(NOW.get())
    }

    /// Returns the time since the moment.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Self::now().saturating_duration_since(self)
    }

    /// Returns the time since an earlier moment; zero if it is later.
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns a later moment.
    #[must_use]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

/// Waits until a moment.
#[must_use]
pub fn sleep_until(until: Instant) -> Sleep {
    let is_short = until - Instant::now() < FOR_EVER;
    Sleep { until, steps: is_short.then(|| below(MAX_STEPS)) }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(steps) = &mut self.steps else { return Poll::Pending };
        if *steps > 0 {
            *steps -= 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        NOW.set(NOW.get().max(self.until.0));
        Poll::Ready(())
    }
}

/// Waits for a future, at most for this time.
///
/// # Errors
/// The time was over.
pub async fn timeout<T>(limit: Duration, future: impl Future<Output = T>) -> Result<T, Elapsed> {
    let mut future = pin!(future);
    tokio_itself::select! {
        biased;
        done = &mut future => Ok(done),
        () = sleep_until(Instant::now() + limit) => Err(Elapsed),
    }
}
