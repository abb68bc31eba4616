//! Retries: blanket writes and deletes hide conflicts by trying again; conditional ones do not.
//!
//! There are at most five attempts. The wait after failed attempt n, the last included, is 75, 150, 300, 600, 1,000 ms,
//! each plus up to half; so a hopeless write fails after about 2 to 3 seconds. The numbers are Consul's:
//! docs/decisions/0022-waits-after-failures-are-computed-here.md.

use std::time::Duration;

use mortise_resource::Error;

/// Waits after each failed attempt, milliseconds.
const WAITS: [u64; 5] = [75, 150, 300, 600, 1_000];

/// The failure of one attempt.
pub(crate) enum Failure {
    /// A concurrent change came first; another attempt may succeed.
    Conflict(Error),
    /// Another attempt would fail too.
    Final(Error),
}

/// The waits of one request.
pub(crate) struct Retry {
    waits: std::slice::Iter<'static, u64>,
}

impl Retry {
    /// Makes the waits of a request; without `again` the first failure is final.
    pub(crate) fn new(again: bool) -> Self {
        let waits: &[u64] = if again { &WAITS } else { &[] };
        Self { waits: waits.iter() }
    }

    /// Waits after a failed attempt.
    ///
    /// # Errors
    /// The failure, when it is final or the attempts are used up.
    pub(crate) async fn after(&mut self, failure: Failure) -> Result<(), Error> {
        let error = match failure {
            Failure::Final(error) => return Err(error),
            Failure::Conflict(error) => error,
        };
        let Some(ms) = self.waits.next() else { return Err(error) };
        tokio::time::sleep(Duration::from_millis(ms + fastrand::u64(0..=ms / 2))).await;
        if self.waits.len() == 0 { Err(error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn attempts(again: bool, conflicts: usize) -> (Result<(), ()>, usize, Duration) {
        let begun = tokio::time::Instant::now();
        let (mut count, mut retry) = (0, Retry::new(again));
        let outcome = loop {
            count += 1;
            if count > conflicts {
                break Ok(());
            }
            if retry.after(Failure::Conflict(Error::internal("x"))).await.is_err() {
                break Err(());
            }
        };
        (outcome, count, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn five_attempts_and_the_documented_waits() {
        let (outcome, count, took) = attempts(true, usize::MAX).await;
        assert_eq!((outcome, count), (Err(()), 5));
        assert!((2_125..=3_200).contains(&took.as_millis()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_conflict_is_hidden() {
        let (outcome, count, _) = attempts(true, 4).await;
        assert_eq!((outcome, count), (Ok(()), 5));
    }

    #[tokio::test(start_paused = true)]
    async fn conditional_writes_try_once() {
        let (outcome, count, took) = attempts(false, 1).await;
        assert_eq!((outcome, count, took), (Err(()), 1, Duration::ZERO));
    }
}
