//! The moment since which the date has moved at the pace of the server's own run.
//!
//! [`Context::now`] is a date; [`Context::elapsed`] leaves out the time for which the server was stopped or its machine
//! slept, and begins again with each start. While the difference of both stays the same, the age of a report is right.
//! When it changes, the server did not run for a while, or its clock was set: the reports from before that moment count
//! as made at that moment, so that clients get one `ttl` to report again.
//!
//! The plugin's values hold the difference and the moment, for all instances. A write of them costs a commit, and comes
//! once for each change and for each [`DRIFT_STEP`] of drift.

use std::time::Duration;

use mortise_plugin::{Context, Failure};

const KEY: &str = "clock";

/// Change of the difference that is a jump, and no drift of one clock against the other.
const JUMP: Duration = Duration::from_secs(1);

/// Drift after which the difference is stored again.
const DRIFT_STEP: Duration = Duration::from_millis(250);

/// Time from which a report counts that the server stored at `updated_at`.
pub(super) fn report_time(ctx: &Context<'_>, updated_at: Duration) -> Result<Duration, Failure> {
    let steady_since = steady_since(ctx)?;
    let is_future = updated_at > ctx.now() + JUMP;
    Ok(if is_future { steady_since } else { updated_at.max(steady_since) })
}

fn steady_since(ctx: &Context<'_>) -> Result<Duration, Failure> {
    let (now, kv) = (ctx.now(), ctx.kv());
    let difference = now.saturating_sub(ctx.elapsed());
    let known = kv.get(KEY)?.as_deref().and_then(decode);
    let change = known.map(|(known, _)| difference.abs_diff(known));
    let since = match known {
        Some((_, since)) if change < Some(JUMP) => since,
        _ => now,
    };
    if change.is_none_or(|change| change >= DRIFT_STEP) {
        kv.set(KEY, &encode(difference, since))?;
    }
    Ok(since)
}

fn encode(difference: Duration, since: Duration) -> Vec<u8> {
    [difference, since].iter().flat_map(|time| millis(*time).to_le_bytes()).collect()
}

fn decode(bytes: &[u8]) -> Option<(Duration, Duration)> {
    let (difference, since) = bytes.split_at_checked(8)?;
    let time = |bytes: &[u8]| Some(Duration::from_millis(u64::from_le_bytes(bytes.try_into().ok()?)));
    Some((time(difference)?, time(since)?))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
