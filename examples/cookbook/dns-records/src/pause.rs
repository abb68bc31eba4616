//! The provider's pause, which all records keep.
//!
//! A reconciler that returns `RequeueAfter` is called earlier if something changes: its own status, or another record.
//! The end of the pause is therefore a value of the plugin's own, and the first thing that each reconcile asks for.

use std::time::Duration;

use mortise_plugin::{Context, Failure};

/// Key of the end of the pause, in milliseconds since 1970.
const KEY: &str = "pause-until";

/// Begins a pause.
pub(crate) fn begin(ctx: &Context<'_>, pause: Duration) -> Result<(), Failure> {
    let until = ctx.now().saturating_add(pause).as_millis();
    ctx.kv().set(KEY, until.to_string().as_bytes())
}

/// Returns the rest of the pause, if there is one.
pub(crate) fn rest(ctx: &Context<'_>) -> Result<Option<Duration>, Failure> {
    let Some(value) = ctx.kv().get(KEY)? else { return Ok(None) };
    let until = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok()).map(Duration::from_millis);
    Ok(until.and_then(|until| until.checked_sub(ctx.now())).filter(|rest| !rest.is_zero()))
}
