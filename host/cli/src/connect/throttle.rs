//! Limit for calls in flight: many, as long as the server keeps up.
//!
//! A call that is refused because the server or a plugin is overloaded is repeated a little later, and meanwhile fewer
//! calls are in flight: half as many after each refusal, one more after [`SUCCESSES_FOR_MORE`] successes, as in TCP. A
//! call is given up after [`MAX_ATTEMPTS`].
//!
//! Libraries limit calls per second, or keep a call's place while it waits to be repeated:
//! docs/decisions/0029-concurrent-calls-of-apply-are-limited-here.md.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::error::CliError;

/// Attempts of a call before its refusal is final.
const MAX_ATTEMPTS: u32 = 8;

/// Successful calls before one more may be in flight.
const SUCCESSES_FOR_MORE: usize = 16;

/// Longest wait before a call is repeated.
const MAX_RETRY_WAIT: Duration = Duration::from_secs(5);

/// Limits the calls in flight.
#[derive(Debug)]
pub(crate) struct Throttle {
    state: Mutex<State>,
    /// Notified when a call ended.
    room: Notify,
}

#[derive(Debug)]
struct State {
    running: usize,
    limit: usize,
    /// Successes since the last refusal, or since the limit rose.
    successes: usize,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { state: Mutex::new(State { running: 0, limit: Self::MOST, successes: 0 }), room: Notify::new() }
    }
}

impl Throttle {
    /// Most calls in flight.
    pub(crate) const MOST: usize = 64;

    /// Makes a call when there is room, and repeats it while the server is overloaded, up to [`MAX_ATTEMPTS`].
    pub(crate) async fn call<T>(&self, call: impl AsyncFn() -> Result<T, CliError>) -> Result<T, CliError> {
        let mut attempt = 0;
        loop {
            self.enter().await;
            let ended = call().await;
            let retry_in = ended.as_ref().err().and_then(|error| error.retry_in);
            self.leave(retry_in.is_some());
            attempt += 1;
            match retry_in {
                Some(wait) if attempt < MAX_ATTEMPTS => tokio::time::sleep((wait * attempt).min(MAX_RETRY_WAIT)).await,
                _ => return ended,
            }
        }
    }

    async fn enter(&self) {
        loop {
            let notified = self.room.notified();
            {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                if state.running < state.limit {
                    state.running += 1;
                    return;
                }
            }
            notified.await;
        }
    }

    fn leave(&self, refused: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.running = state.running.saturating_sub(1);
        if refused {
            state.limit = (state.limit / 2).max(1);
            state.successes = 0;
        } else {
            state.successes += 1;
            if state.successes >= SUCCESSES_FOR_MORE && state.limit < Self::MOST {
                state.limit += 1;
                state.successes = 0;
            }
        }
        drop(state);
        self.room.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn busy() -> CliError {
        CliError { retry_in: Some(Duration::from_millis(1)), ..CliError::failed("busy") }
    }

    #[tokio::test]
    async fn a_busy_server_is_asked_again_and_less() {
        let throttle = Throttle::default();
        let asked = AtomicUsize::new(0);
        let done =
            throttle.call(async || if asked.fetch_add(1, Ordering::SeqCst) < 3 { Err(busy()) } else { Ok(7) }).await;
        assert_eq!((done, asked.load(Ordering::SeqCst)), (Ok(7), 4));
        assert_eq!(throttle.state.lock().unwrap().limit, Throttle::MOST / 8);
        for _ in 0..SUCCESSES_FOR_MORE {
            throttle.call(async || Ok(())).await.unwrap();
        }
        assert_eq!(throttle.state.lock().unwrap().limit, Throttle::MOST / 8 + 1);
    }

    #[tokio::test]
    async fn a_refusal_is_final_in_the_end_and_others_at_once() {
        let throttle = Throttle::default();
        let asked = AtomicUsize::new(0);
        let ask = async |error: CliError| {
            asked.store(0, Ordering::SeqCst);
            let failed = throttle.call(async || {
                asked.fetch_add(1, Ordering::SeqCst);
                Err::<(), _>(error.clone())
            });
            assert!(failed.await.is_err());
            asked.load(Ordering::SeqCst)
        };
        assert_eq!(ask(busy()).await, MAX_ATTEMPTS as usize);
        assert_eq!(ask(CliError::failed("no")).await, 1);
    }
}
