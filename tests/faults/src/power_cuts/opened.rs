//! The store after a loss of power: opened, and compared with the acknowledged writes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use mortise_store::{Backend as _, Batch, Mutation, SledBackend};

use crate::{
    ledger::Ledger,
    resources::{State, resource},
    writer::{content, options, wait_until_free},
};

/// Time to open after which a store counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// Result of a cut.
pub(super) struct Cut {
    pub(super) verdict: &'static str,
    pub(super) faults: Vec<String>,
    pub(super) present: u64,
    pub(super) absent: u64,
}

/// Opens the files after a cut, on a thread of its own, since it may panic or hang.
pub(super) fn open(dir: &Path, ledger: &Ledger, again: bool) -> Cut {
    let (send, receive) = channel();
    let (dir, mut ledger) = (dir.to_owned(), ledger.clone());
    let opened = thread::Builder::new().name("opened".to_owned()).spawn(move || {
        let judged = catch_unwind(AssertUnwindSafe(|| judge(&dir, &mut ledger, again)));
        let panicked = |_| Cut::of("panics", vec![crate::last_panic()]);
        // The other end is gone only when it no longer waits.
        send.send(judged.unwrap_or_else(panicked)).ok();
    });
    if let Err(error) = opened {
        return Cut::of("wrong", vec![error.to_string()]);
    }
    match receive.recv_timeout(PATIENCE) {
        Ok(cut) => cut,
        Err(RecvTimeoutError::Timeout) => Cut::of("hangs", vec![format!("nothing after {PATIENCE:?}")]),
        Err(RecvTimeoutError::Disconnected) => Cut::of("panics", vec!["the thread is gone".to_owned()]),
    }
}

impl Cut {
    fn of(verdict: &'static str, faults: Vec<String>) -> Self {
        Self { verdict, faults, present: 0, absent: 0 }
    }
}

fn judge(dir: &Path, ledger: &mut Ledger, again: bool) -> Cut {
    let runtime = match tokio::runtime::Builder::new_current_thread().build() {
        Ok(runtime) => runtime,
        Err(error) => return Cut::of("wrong", vec![error.to_string()]),
    };
    let store = match SledBackend::open(options(dir)) {
        Ok(store) => store,
        Err(error) => return Cut::of("refused", vec![error.to_string()]),
    };
    runtime.block_on(async {
        let found = match content(&store).await {
            Ok(found) => found,
            Err(error) => return Cut::of("wrong", vec![error.to_string()]),
        };
        let comparison = ledger.settle(&found);
        let mut cut =
            Cut { verdict: "right", faults: comparison.faults, present: comparison.present, absent: comparison.absent };
        if !cut.faults.is_empty() {
            cut.verdict = "wrong";
            return cut;
        }
        match store.check().await {
            Ok(problems) => cut.faults.extend(problems.iter().map(|problem| format!("check: {problem}"))),
            Err(error) => cut.faults.push(format!("check: {error}")),
        }
        cut.faults.extend(store.health().borrow().damaged.iter().map(|why| format!("damaged: {why}")));
        // A new write gets a new version.
        let state = State { number: 77, incarnation: 77, owner: None, version: 0 };
        match store.commit(Batch::single(Mutation::Put(Box::new(resource("after", &state))))).await {
            Ok(answers) => {
                let version = answers.into_iter().flatten().find_map(|stored| stored.version().parse::<u64>().ok());
                if version.is_none_or(|version| version <= ledger.newest) {
                    cut.faults.push(format!("a write got version {version:?}, and {} was given before", ledger.newest));
                }
                if again {
                    drop(store);
                    cut.faults.extend(reopened(dir, &found, version.unwrap_or(0), state).await);
                }
            }
            Err(error) => cut.faults.push(format!("a write: {error}")),
        }
        if !cut.faults.is_empty() {
            cut.verdict = "unsound";
        }
        cut
    })
}

/// Compares with the expected content after the next opening.
async fn reopened(dir: &Path, before: &crate::ledger::Content, version: u64, state: State) -> Option<String> {
    let mut wanted = before.clone();
    wanted.insert("after".to_owned(), State { version, ..state });
    wait_until_free(dir);
    match SledBackend::open(options(dir)) {
        Err(error) => Some(format!("opened again: {error}")),
        Ok(store) => match content(&store).await {
            Ok(found) if found == wanted => None,
            Ok(_) => Some("opened again, it holds something else".to_owned()),
            Err(error) => Some(format!("opened again: {error}")),
        },
    }
}
