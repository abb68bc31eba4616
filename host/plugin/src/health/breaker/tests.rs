use super::*;
use HealthState::{Healthy, Probation, Quarantined};

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A call of the host.
fn of(trial: Option<u64>, input: Option<u64>) -> Admitted {
    Admitted { trial, input, caller: CallerId::HOST }
}

/// A call of a caller with an input of its own.
fn by(caller: u64, trial: Option<u64>, input: u64) -> Admitted {
    Admitted { trial, input: Some(input), caller: CallerId::new(caller) }
}

/// Ten faults within a minute; waits of 1 to 60 seconds.
fn rules() -> Quarantine {
    Quarantine::default()
}

impl From<&str> for FaultText {
    fn from(text: &str) -> Self {
        Self { for_callers: text.into(), for_operators: text.into() }
    }
}

fn fail(breaker: &mut Breaker, now: Duration, trial: Option<u64>) {
    breaker.failed(&rules(), now, of(trial, None), 0, "trapped".into());
}

/// A breaker that was quarantined at `now`.
fn quarantined(now: Duration) -> Breaker {
    let mut breaker = Breaker::default();
    (0..10).for_each(|_| fail(&mut breaker, now, None));
    assert_eq!(breaker.state(), Quarantined);
    breaker
}

fn trial(breaker: &mut Breaker, now: Duration) -> u64 {
    match breaker.admit(&rules(), now, CallerId::HOST, 0) {
        Admission::Trial(number) => number,
        other => panic!("no trial: {other:?}"),
    }
}

#[test]
fn healthy_probation_quarantined() {
    let mut breaker = Breaker::default();
    for (n, expected) in [Healthy, Healthy, Probation, Probation].into_iter().enumerate() {
        assert_eq!(breaker.admit(&rules(), at(0), CallerId::HOST, 0), Admission::Go);
        fail(&mut breaker, at(n as u64), None);
        assert_eq!(breaker.state(), expected, "{n}");
        assert_eq!(breaker.retry_in(&rules(), at(0)), None);
    }
    (4..9).for_each(|n| fail(&mut breaker, at(n), None));
    assert_eq!(breaker.state(), Probation);
    fail(&mut breaker, at(9), None);
    assert_eq!(breaker.state(), Quarantined);
    assert_eq!((breaker.faults(), breaker.last_fault().for_operators.as_str()), (10, "trapped"));
    assert_eq!(breaker.admit(&rules(), at(9), CallerId::HOST, 0), Admission::Refused(at(1)));
}

#[test]
fn old_faults_do_not_count() {
    let mut breaker = Breaker::default();
    (0..100).for_each(|n| fail(&mut breaker, at(n * 40), None));
    assert_eq!(breaker.state(), Healthy, "two within each minute");
    let mut breaker = Breaker::default();
    (0..100).for_each(|n| fail(&mut breaker, at(n * 7), None));
    assert_eq!(breaker.state(), Probation, "nine within each minute");
}

#[test]
fn few_successes_do_not_hide_faults() {
    let mut breaker = Breaker::default();
    for n in 0..20 {
        breaker.succeeded(&rules(), at(n), of(None, None), u64::from(n > 9));
        breaker.failed(&rules(), at(n), of(None, None), u64::from(n > 9), "trapped".into());
    }
    assert_eq!(breaker.state(), Quarantined);
}

#[test]
fn a_quiet_window_and_a_good_call_end_probation() {
    let mut breaker = Breaker::default();
    (0..3).for_each(|_| fail(&mut breaker, at(0), None));
    breaker.succeeded(&rules(), at(59), of(None, None), 0);
    assert_eq!(breaker.state(), Probation);
    breaker.succeeded(&rules(), at(60), of(None, None), 0);
    assert_eq!(breaker.state(), Healthy);
    fail(&mut breaker, at(61), None);
    assert_eq!(breaker.state(), Healthy, "the old faults are forgotten");
}

#[test]
fn one_trial_at_a_time() {
    let mut breaker = quarantined(at(0));
    assert_eq!(
        breaker.admit(&rules(), Duration::from_millis(999), CallerId::HOST, 0),
        Admission::Refused(Duration::from_millis(1))
    );
    let number = trial(&mut breaker, at(1));
    assert_eq!(breaker.admit(&rules(), at(1), CallerId::HOST, 0), Admission::Refused(at(1)));
    assert_eq!(breaker.admit(&rules(), at(99), CallerId::HOST, 0), Admission::Refused(at(1)), "even if it takes long");
    breaker.succeeded(&rules(), at(100), of(Some(number), None), 0);
    assert_eq!(breaker.state(), Probation);
    assert_eq!(breaker.admit(&rules(), at(100), CallerId::HOST, 0), Admission::Go);
}

#[test]
fn each_failed_trial_doubles_the_wait_up_to_a_bound() {
    let mut breaker = quarantined(at(0));
    let mut now = at(0);
    for wait in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
        assert_eq!(breaker.admit(&rules(), now, CallerId::HOST, 0), Admission::Refused(at(wait)));
        now += at(wait);
        let number = trial(&mut breaker, now);
        fail(&mut breaker, now, Some(number));
        assert_eq!(breaker.state(), Quarantined);
    }
    for _ in 0..200 {
        now += at(60);
        let number = trial(&mut breaker, now);
        fail(&mut breaker, now, Some(number));
    }
    assert_eq!(breaker.retry_in(&rules(), now), Some(at(60)), "no overflow");
}

#[test]
fn who_comes_back_is_forgiven_less_and_waits_longer() {
    let mut breaker = quarantined(at(0));
    let number = trial(&mut breaker, at(1));
    breaker.succeeded(&rules(), at(1), of(Some(number), None), 0);
    breaker.succeeded(&rules(), at(2), of(None, None), 0);
    (0..2).for_each(|_| fail(&mut breaker, at(3), None));
    assert_eq!(breaker.state(), Probation);
    fail(&mut breaker, at(3), None);
    assert_eq!(breaker.state(), Quarantined);
    assert_eq!(breaker.retry_in(&rules(), at(3)), Some(at(2)));
}

#[test]
fn a_fault_right_after_the_trial_takes_it_back() {
    let mut breaker = quarantined(at(0));
    let number = trial(&mut breaker, at(1));
    breaker.succeeded(&rules(), at(1), of(Some(number), None), 0);
    fail(&mut breaker, at(1), None);
    assert_eq!(breaker.retry_in(&rules(), at(1)), Some(at(2)));
}

#[test]
fn a_long_good_time_after_quarantine_forgets_it() {
    let mut breaker = quarantined(at(0));
    let number = trial(&mut breaker, at(1));
    breaker.succeeded(&rules(), at(1), of(Some(number), None), 0);
    breaker.succeeded(&rules(), at(60), of(None, None), 0);
    assert_eq!(breaker.state(), Probation);
    breaker.succeeded(&rules(), at(61), of(None, None), 0);
    assert_eq!(breaker.state(), Healthy);
    (0..10).for_each(|_| fail(&mut breaker, at(62), None));
    assert_eq!(breaker.retry_in(&rules(), at(62)), Some(at(1)), "the first wait again");
}

#[test]
fn a_trial_without_an_outcome_is_free_again() {
    let mut breaker = quarantined(at(0));
    let first = trial(&mut breaker, at(1));
    breaker.released(first);
    assert_eq!(breaker.state(), Quarantined);
    let second = trial(&mut breaker, at(1));
    breaker.released(first);
    assert_eq!(
        breaker.admit(&rules(), at(1), CallerId::HOST, 0),
        Admission::Refused(at(1)),
        "the second is still under way"
    );
    breaker.succeeded(&rules(), at(2), of(Some(first), None), 0);
    assert_eq!(breaker.state(), Quarantined, "a trial that was given up decides nothing");
    breaker.succeeded(&rules(), at(2), of(Some(second), None), 0);
    assert_eq!(breaker.state(), Probation);
}

#[test]
fn calls_that_began_before_the_quarantine_change_nothing() {
    let mut breaker = quarantined(at(0));
    breaker.succeeded(&rules(), at(1), of(None, None), 0);
    fail(&mut breaker, at(1), None);
    assert_eq!(breaker.state(), Quarantined);
    assert_eq!(breaker.faults(), 11);
    let number = trial(&mut breaker, at(1));
    fail(&mut breaker, at(1), None);
    breaker.succeeded(&rules(), at(1), of(None, None), 0);
    assert_eq!(breaker.admit(&rules(), at(1), CallerId::HOST, 0), Admission::Refused(at(1)));
    breaker.succeeded(&rules(), at(1), of(Some(number), None), 0);
    assert_eq!(breaker.state(), Probation);
}

#[test]
fn reset_lifts_at_once_and_old_trials_mean_nothing() {
    let mut breaker = quarantined(at(0));
    let number = trial(&mut breaker, at(1));
    breaker.reset();
    assert_eq!((breaker.state(), breaker.faults(), breaker.last_fault().for_operators.as_str()), (Healthy, 0, ""));
    (0..10).for_each(|_| fail(&mut breaker, at(2), None));
    let next = trial(&mut breaker, at(3));
    assert_ne!(number, next);
    breaker.succeeded(&rules(), at(3), of(Some(number), None), 0);
    assert_eq!(breaker.state(), Quarantined);
    fail(&mut breaker, at(3), Some(next));
    assert_eq!(breaker.retry_in(&rules(), at(3)), Some(at(2)));
}

#[test]
fn odd_settings_are_bounded() {
    let odd = Quarantine { faults: 0, probation_faults: 0, window_ms: 0, backoff_ms: 0, max_backoff_ms: 0, ..rules() };
    let mut breaker = Breaker::default();
    breaker.failed(&odd, at(0), of(None, None), 0, FaultText::default());
    assert_eq!(breaker.state(), Quarantined);
    assert_eq!(breaker.admit(&odd, at(0), CallerId::HOST, 0), Admission::Refused(Duration::from_millis(1)));
    let many = Quarantine { faults: u32::MAX, ..rules() };
    let mut breaker = Breaker::default();
    (0..MAX_FAULTS).for_each(|_| breaker.failed(&many, at(0), of(None, None), 0, FaultText::default()));
    assert_eq!(breaker.state(), Quarantined);
}

/// Ten faults among so many calls that ended well, from so many inputs.
fn among(good: u64, inputs: u64) -> HealthState {
    let mut breaker = Breaker::default();
    for n in 0..10 {
        breaker.failed(&rules(), at(n), of(None, Some(n % inputs)), n * good / 9, "trapped".into());
    }
    breaker.state()
}

#[test]
fn the_share_of_calls_decides() {
    assert_eq!(among(0, 10), Quarantined, "nothing else");
    assert_eq!(among(1, 10), Probation, "one in eleven ended well");
    assert_eq!(among(0, 1), Quarantined, "one input, and no other call");
    assert_eq!(among(1, 1), Probation, "one input ten times weighs as much as one call");
    let lax = Quarantine { share_percent: 50, ..rules() };
    let mut breaker = Breaker::default();
    (0..10).for_each(|n| breaker.failed(&lax, at(n), of(None, Some(n)), n, FaultText::default()));
    assert_eq!(breaker.state(), Quarantined, "ten of nineteen");
}

#[test]
fn an_input_that_set_it_off_is_the_trial_only_when_no_other_comes() {
    let mut breaker = Breaker::default();
    (0..10).for_each(|_| breaker.failed(&rules(), at(0), of(None, Some(13)), 0, "trapped".into()));
    assert_eq!(breaker.admit(&rules(), at(1), CallerId::HOST, 13), Admission::Refused(at(1)));
    assert!(matches!(breaker.admit(&rules(), at(1), CallerId::HOST, 7), Admission::Trial(_)));
    breaker.released(1);
    assert_eq!(breaker.admit(&rules(), at(2), CallerId::HOST, 13), Admission::Trial(2));
    // A trial that fails makes its input one of those.
    breaker.failed(&rules(), at(2), of(Some(2), Some(8)), 0, "trapped".into());
    assert_eq!(breaker.admit(&rules(), at(4), CallerId::HOST, 8), Admission::Refused(at(2)));
    assert_eq!(breaker.admit(&rules(), at(4), CallerId::HOST, 9), Admission::Trial(3));
}

#[test]
fn one_poison_does_not_take_back_a_hook_that_serves_others() {
    let mut breaker = Breaker::default();
    (0..10).for_each(|_| breaker.failed(&rules(), at(0), of(None, Some(13)), 0, "trapped".into()));
    let number = trial(&mut breaker, at(1));
    breaker.succeeded(&rules(), at(1), of(Some(number), None), 1);
    (2..60).for_each(|n| breaker.failed(&rules(), at(n), of(None, Some(13)), 1, "trapped".into()));
    assert_eq!(breaker.state(), Probation);
    (0..50).for_each(|n| breaker.failed(&rules(), at(60), of(None, Some(100 + n)), 1, "trapped".into()));
    assert_eq!(breaker.state(), Quarantined, "fifty others");
}

/// Twenty inputs a second that trap, each another one, are one caller's business.
#[test]
fn one_callers_many_poisons_do_not_close_the_hook_for_another() {
    let (mut breaker, mut good, mut served, mut refused) = (Breaker::default(), 0, 0, 0);
    for now in 0..90 {
        for n in 0..20 {
            let poison = now * 20 + n;
            match breaker.admit(&rules(), at(now), CallerId::new(1), poison) {
                Admission::Go => breaker.failed(&rules(), at(now), by(1, None, poison), good, "trapped".into()),
                Admission::Trial(number) => {
                    breaker.failed(&rules(), at(now), by(1, Some(number), poison), good, "trapped".into());
                }
                Admission::Refused(_) => {}
            }
        }
        let trial = match breaker.admit(&rules(), at(now), CallerId::new(2), u64::MAX) {
            Admission::Refused(_) => {
                refused += 1;
                continue;
            }
            Admission::Go => None,
            Admission::Trial(number) => Some(number),
        };
        (good, served) = (good + 1, served + 1);
        breaker.succeeded(&rules(), at(now), by(2, trial, u64::MAX), good);
    }
    assert!(served >= 85, "{served} served, {refused} refused");
}

#[test]
fn the_share_of_callers_decides_too() {
    let among = |faulty: u64, served: u64, later: u64| {
        let mut breaker = Breaker::default();
        (0..3).for_each(|n| breaker.failed(&rules(), at(0), by(n % faulty, None, n), 0, "trapped".into()));
        (0..served).for_each(|n| breaker.succeeded(&rules(), at(0), by(1_000 + n, None, n), n + 1));
        let fault = |n| breaker.failed(&rules(), at(later), by(n % faulty, None, n), served, "trapped".into());
        (3..200).for_each(fault);
        breaker.state()
    };
    assert_eq!(among(1, 0, 1), Quarantined, "nobody else");
    assert_eq!(among(1, 1, 1), Probation, "one of two");
    assert_eq!(among(19, 1, 1), Quarantined, "nineteen of twenty");
    assert_eq!(among(18, 1, 1), Probation, "less");
    assert_eq!(among(1, 1, 61), Quarantined, "who was served before the window speaks no more for it");
    let mut breaker = Breaker::default();
    (0..3).for_each(|n| breaker.failed(&rules(), at(0), by(1, None, n), 0, "trapped".into()));
    breaker.succeeded(&rules(), at(0), by(1, None, 0), 1);
    (3..200).for_each(|n| breaker.failed(&rules(), at(0), by(1, None, n), 1, "trapped".into()));
    assert_eq!(breaker.state(), Quarantined, "who has faults does not speak for it");
    (0..1_000).for_each(|n| record_served(&mut breaker.served, CallerId::new(n), at(n)));
    assert_eq!((breaker.served.len(), breaker.served.contains_key(&CallerId::new(999))), (MAX_SERVED, true));
}

#[test]
fn a_caller_whose_trial_failed_makes_room_for_others() {
    let mut breaker = quarantined(at(0));
    let number = match breaker.admit(&rules(), at(1), CallerId::new(1), 1) {
        Admission::Trial(number) => number,
        other => panic!("no trial: {other:?}"),
    };
    breaker.failed(&rules(), at(1), by(1, Some(number), 1), 0, "trapped".into());
    assert_eq!(breaker.admit(&rules(), at(3), CallerId::new(1), 2), Admission::Refused(at(2)));
    assert!(matches!(breaker.admit(&rules(), at(3), CallerId::new(2), 3), Admission::Trial(_)));
    breaker.released(number + 1);
    assert!(matches!(breaker.admit(&rules(), at(5), CallerId::new(1), 4), Admission::Trial(_)), "nobody else came");
}
