//! Repeats calls in which a plugin's hook did not finish in time, on a busy machine for example. A hook runs before the
//! commit, so that such a call has changed nothing.

use std::time::Duration;

use mortise_resource::{
    backoff::{Backoff, Waits},
    error::is_passing_fault,
};
use tonic::Status;
use tonic_types::StatusExt as _;

/// Most attempts of a call.
const MAX_ATTEMPTS: usize = 3;
/// First and longest wait between two attempts.
const MIN_WAIT: Duration = Duration::from_millis(200);
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Calls until a hook finishes, at most [`MAX_ATTEMPTS`] times.
pub(super) async fn while_hooks_are_late<T, F: Future<Output = Result<T, Status>>>(
    mut call: impl FnMut() -> F,
) -> Result<T, Status> {
    let mut waits = Waits::new(Backoff::new(MIN_WAIT, MAX_WAIT));
    for _ in 1..MAX_ATTEMPTS {
        match call().await {
            Err(status) if is_late_hook(&status) => tokio::time::sleep(waits.next_wait()).await,
            answer => return answer,
        }
    }
    call().await
}

/// Whether a hook ran into its deadline, or did not get its place or the processor in time.
fn is_late_hook(status: &Status) -> bool {
    let fault = status.get_details_error_info().filter(|info| info.reason == "PLUGIN_FAULT");
    fault.and_then(|fault| fault.metadata.get("kind").cloned()).is_some_and(|kind| is_passing_fault(&kind))
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic_types::ErrorDetails;

    use super::*;

    fn late(kind: &str) -> Status {
        let details = ErrorDetails::with_error_info("PLUGIN_FAULT", "mortise", [("kind".into(), kind.into())]);
        let code = if kind == "deadline" { Code::DeadlineExceeded } else { Code::ResourceExhausted };
        Status::with_error_details(code, "hook validate did not finish", details)
    }

    #[tokio::test]
    async fn a_late_hook_is_called_again_and_nothing_else_is() {
        let away = || Status::unavailable("no answer");
        for (failures, fault, calls, succeeds) in [
            (2, late("deadline"), 3, true),
            (2, late("starved"), 3, true),
            (2, late("busy"), 3, true),
            (9, late("deadline"), 3, false),
            (9, late("trap"), 1, false),
            (9, away(), 1, false),
        ] {
            let mut count = 0;
            let answer = while_hooks_are_late(|| {
                count += 1;
                std::future::ready(if count > failures { Ok(()) } else { Err(fault.clone()) })
            })
            .await;
            assert_eq!((count, answer.is_ok()), (calls, succeeds), "{fault:?}");
        }
    }
}
