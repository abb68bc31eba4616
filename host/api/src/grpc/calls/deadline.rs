//! The deadline of a call, from its header `grpc-timeout`: one to eight digits and a unit.
//!
//! It holds for the whole call: until the answer begins ([`Within`]), and from then on until the answer ends
//! (`answer`). tonic has a timer of its own for the header, which ends calls as Cancelled, and only those whose answers
//! have not begun. That timer starts after this one, and is asked after this one, so it ends a call only if the machine
//! stopped the thread between the two looks, and the time passed meanwhile.
//!
//! Cost: a call without the header pays for one look into its headers; one with it for a timer.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use ::http::{HeaderMap, HeaderName, HeaderValue};
use mortise_resource::Error;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use crate::call::truncate;

/// The header with the time that a call may take.
static TIMEOUT_HEADER: HeaderName = HeaderName::from_static("grpc-timeout");

/// Most digits of the header's number.
const MAX_DIGITS: usize = 8;

/// Most bytes of a wrong header that its error repeats.
const MAX_SHOWN_BYTES: usize = 32;

/// The end of a call's time.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    instant: Instant,
    given: HeaderValue,
}

/// The timer of a deadline; empty until it is polled.
pub(super) type Timer = Option<Pin<Box<Sleep>>>;

impl Deadline {
    /// Reads the deadline of a call that begins now; `None` without the header.
    ///
    /// # Errors
    /// `InvalidArgument`: the header is malformed, or there are two.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, Error> {
        let mut all = headers.get_all(&TIMEOUT_HEADER).iter();
        let Some(given) = all.next() else { return Ok(None) };
        let refused = |what: &str| {
            let form = "it takes one to eight digits and a unit: H, M, S, m (milliseconds), u or n";
            Error::invalid(format!("the header {TIMEOUT_HEADER} {what}; {form}"))
        };
        if all.next().is_some() {
            return Err(refused("is there twice"));
        }
        let Some(limit) = duration(given.as_bytes()) else {
            let text = given.as_bytes().escape_ascii().to_string();
            return Err(refused(&format!("is \"{}\"", truncate(&text, MAX_SHOWN_BYTES))));
        };
        // A time beyond the clock's range never comes.
        Ok(Instant::now().checked_add(limit).map(|at| Self { instant: at, given: given.clone() }))
    }

    /// Returns the end of the time.
    pub(super) fn instant(&self) -> Instant {
        self.instant
    }

    /// Whether the time is up.
    pub(super) fn has_passed(&self) -> bool {
        Instant::now() >= self.instant
    }

    /// Ready once the time is up.
    pub(super) fn poll_passed(&self, timer: &mut Timer, cx: &mut Context<'_>) -> Poll<()> {
        // A timer fires in steps of a millisecond, and only while its task may do more.
        if self.has_passed() {
            return Poll::Ready(());
        }
        timer.get_or_insert_with(|| Box::pin(sleep_until(self.instant))).as_mut().poll(cx)
    }

    /// The status of a call whose time is up.
    pub(super) fn status(&self) -> Status {
        let given = self.given.to_str().unwrap_or_default();
        Status::deadline_exceeded(format!(
            "the deadline of the call has passed ({TIMEOUT_HEADER} {given}); give it more time"
        ))
    }
}

fn duration(header: &[u8]) -> Option<Duration> {
    let (unit, digits) = header.split_last()?;
    if !(1..=MAX_DIGITS).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(count * 3_600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

pin_project! {
    /// A call until its answer begins, or its deadline passes.
    pub(super) struct Within<'d, F> {
        #[pin]
        call: F,
        deadline: Option<&'d Deadline>,
        timer: Timer,
    }
}

impl<'d, F> Within<'d, F> {
    /// Limits a call.
    pub(super) fn new(deadline: Option<&'d Deadline>, call: F) -> Self {
        Self { call, deadline, timer: None }
    }
}

impl<F: Future> Future for Within<'_, F> {
    type Output = Result<F::Output, Status>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(deadline) = *this.deadline else { return this.call.poll(cx).map(Ok) };
        // A call whose time is up does not begin; its caller has given up an answer that comes later.
        if deadline.has_passed() {
            return Poll::Ready(Err(deadline.status()));
        }
        match this.call.poll(cx) {
            Poll::Ready(answered) if !deadline.has_passed() => Poll::Ready(Ok(answered)),
            Poll::Ready(_) => Poll::Ready(Err(deadline.status())),
            Poll::Pending => deadline.poll_passed(this.timer, cx).map(|()| Err(deadline.status())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&[u8]]) -> Result<Option<Deadline>, Error> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(&TIMEOUT_HEADER, HeaderValue::from_bytes(value).unwrap());
        }
        Deadline::of(&headers)
    }

    #[test]
    fn every_unit_is_read_with_up_to_eight_digits() {
        for (text, nanos) in [
            ("1n", 1),
            ("99999999n", 99_999_999),
            ("1u", 1_000),
            ("20m", 20_000_000),
            ("00000003S", 3_000_000_000),
            ("2M", 120_000_000_000),
            ("1H", 3_600_000_000_000_u128),
            ("99999999H", 99_999_999 * 3_600_000_000_000),
            ("0S", 0),
        ] {
            assert_eq!(duration(text.as_bytes()).map(|read| read.as_nanos()), Some(nanos), "{text}");
        }
        assert!(of(&[]).unwrap().is_none());
        assert!(of(&[b"0n"]).unwrap().unwrap().has_passed());
        assert!(!of(&[b"99999999H"]).unwrap().unwrap().has_passed());
    }

    #[test]
    fn everything_else_is_the_callers_mistake() {
        for wrong in [
            &b"5x"[..],
            b"123456789n",
            b"S",
            b"",
            b"5",
            b"-1S",
            b"+1S",
            b" 1S",
            b"1S ",
            b"1.5S",
            b"1s",
            b"1h",
            b"1ms",
            b"0x1S",
            b"1\xc2\xb5",
            b"\xff\xffS",
            &[b'9'; 5_000],
        ] {
            let error = of(&[wrong]).unwrap_err();
            assert_eq!(error.code, mortise_resource::Code::InvalidArgument, "{wrong:?}");
            assert!(error.message.starts_with("the header grpc-timeout is \""), "{error}");
            assert!(error.message.len() < 200, "{error}");
        }
        assert!(of(&[b"1S", b"2S"]).unwrap_err().message.contains("twice"));
    }

    #[tokio::test]
    async fn a_passed_deadline_ends_a_call_and_takes_the_place_of_an_answer() {
        let deadline = of(&[b"1n"]).unwrap();
        let late = Within::new(deadline.as_ref(), std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(late.code(), tonic::Code::DeadlineExceeded);
        assert!(late.message().contains("(grpc-timeout 1n)"), "{late}");
        let unbegun = Within::new(deadline.as_ref(), async { panic!("it began") });
        assert!(unbegun.await.is_err(), "a call whose time is up does not begin");
        let soon = of(&[b"20m"]).unwrap();
        assert!(Within::new(soon.as_ref(), std::future::pending::<()>()).await.is_err(), "the timer wakes it");
        let slow = of(&[b"20m"]).unwrap();
        let blocks = async { while !slow.as_ref().unwrap().has_passed() {} };
        assert!(Within::new(slow.as_ref(), blocks).await.is_err(), "an answer after the time is late");
        assert_eq!(Within::new(of(&[b"1H"]).unwrap().as_ref(), async { 7 }).await.unwrap(), 7);
        assert_eq!(Within::new(None, async { 7 }).await.unwrap(), 7);
    }
}
