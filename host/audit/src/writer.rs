//! The writer thread: writes waiting records together, and syncs from time to time.
//!
//! A sync comes when its time is over, however many records still arrive.
//!
//! A record waits a moment for others ([`BATCH_WAIT`]): waking a thread and writing cost far more than a line. A failed
//! write is repeated as long as the log is open; all later records wait with it. A fault lasts until what failed works:
//! a write does not end the fault of a sync.

use std::{sync::Arc, time::Duration};

use mortise_durable_fs::FsError;
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{Instant, sleep, timeout_at},
};

use crate::{files::RotatingFile, record, sinks::Sinks, waiting::Waiting};

/// Number of waiting records that are written at once, without waiting for more.
const BATCH_RECORDS: usize = 128;

/// Time that a record waits for others.
const BATCH_WAIT: Duration = Duration::from_millis(5);

/// Pause between two attempts to write.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Attempts while the log is being closed.
const CLOSING_ATTEMPTS: usize = 3;

/// Signals to the writer.
pub(crate) struct Signals {
    /// Asks for the file to be opened again.
    pub(crate) reopen: Arc<Notify>,
    pub(crate) closing: oneshot::Receiver<()>,
}

/// Faults of the file, and their publication.
struct Faults {
    write: Option<String>,
    sync: Option<String>,
    published: watch::Sender<Option<String>>,
}

/// Action on the file.
#[derive(Clone, Copy)]
enum Action {
    Write,
    Sync,
}

/// Writes until the log is closed, or all its handles are dropped.
pub(crate) async fn write(
    mut records: mpsc::UnboundedReceiver<String>,
    mut files: RotatingFile,
    sinks: Sinks,
    sync: Duration,
    waiting: &Waiting,
    fault: watch::Sender<Option<String>>,
    mut signals: Signals,
) {
    let mut faults = Faults { write: None, sync: None, published: fault };
    let mut lines = Vec::new();
    let mut sync_at = Instant::now() + sync;
    loop {
        let received = tokio::select! {
            received = timeout_at(sync_at, records.recv_many(&mut lines, BATCH_RECORDS)) => received,
            _ = &mut signals.closing, if !records.is_closed() => {
                waiting.close();
                records.close();
                continue;
            }
            () = signals.reopen.notified() => {
                let opened = files.reopen();
                if opened.is_ok() {
                    tracing::info!("the audit log is open again");
                }
                faults.note(Action::Sync, opened);
                continue;
            }
        };
        if (1..BATCH_RECORDS).contains(&lines.len()) && !records.is_closed() {
            sleep(BATCH_WAIT).await;
            while let Ok(line) = records.try_recv() {
                lines.push(line);
            }
        }
        let count = lines.len();
        let lost = waiting.take_dropped();
        if lost > 0 {
            lines.push(record::dropped(lost));
        }
        let written = match lines.is_empty() {
            true => None,
            false => append(&mut files, &lines, &records, &mut faults).await,
        };
        lines.clear();
        if let Some(written) = written {
            metrics::counter!("mortise_audit_records_total", "outcome" => "written").increment(count as u64);
            sinks.send(&written);
        }
        waiting.uncount(count);
        if matches!(received, Ok(0)) {
            break;
        }
        if Instant::now() >= sync_at {
            faults.note(Action::Sync, files.sync());
            sync_at = Instant::now() + sync;
        }
    }
    faults.note(Action::Sync, files.sync());
    sinks.close();
}

/// Appends records, with as many attempts as it takes; returns their lines, or `None` if they are lost.
async fn append(
    files: &mut RotatingFile,
    lines: &[String],
    records: &mpsc::UnboundedReceiver<String>,
    faults: &mut Faults,
) -> Option<Vec<String>> {
    let mut attempts_left = CLOSING_ATTEMPTS;
    loop {
        match files.append(lines) {
            Ok(written) => {
                faults.note(Action::Write, Ok(()));
                return Some(written);
            }
            Err(fault) => faults.note(Action::Write, Err(fault)),
        }
        if records.is_closed() {
            attempts_left -= 1;
        }
        if attempts_left == 0 {
            tracing::error!(records = lines.len(), "the last records of the audit log are lost");
            return None;
        }
        sleep(RETRY_PAUSE).await;
    }
}

impl Faults {
    /// Takes the outcome of an action, and publishes and logs the fault if it differs from the last one.
    fn note(&mut self, action: Action, outcome: Result<(), FsError>) {
        let outcome = outcome.err().map(|error| error.to_string());
        if outcome.is_some() {
            metrics::counter!("mortise_audit_failures_total").increment(1);
        }
        match action {
            Action::Write => self.write = outcome,
            Action::Sync => self.sync = outcome,
        }
        let now = self.write.as_ref().or(self.sync.as_ref());
        let news = self.published.send_if_modified(|known| {
            let news = known.as_ref() != now;
            *known = now.cloned();
            news
        });
        match (news, now) {
            (true, Some(error)) => tracing::error!("the audit log cannot be written: {error}"),
            (true, None) => tracing::info!("the audit log can be written again"),
            (false, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sync of `/dev/null` fails, so that the test sees it, and a write works.
    #[tokio::test(start_paused = true)]
    async fn a_steady_flow_of_records_neither_keeps_syncs_away_nor_ends_their_fault() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/null", dir.path().join("audit.jsonl")).unwrap();
        let files = RotatingFile::open(dir.path(), 1 << 20, 2).unwrap();
        let (records, received) = mpsc::unbounded_channel();
        let (_open, closing) = oneshot::channel();
        let (fault, mut faults) = watch::channel(None);
        let waiting = Arc::new(Waiting::default());
        let counts = waiting.clone();
        let sync = BATCH_WAIT * 100;
        let signals = Signals { reopen: Arc::default(), closing };
        tokio::spawn(async move { write(received, files, Sinks::default(), sync, &counts, fault, signals).await });
        let mut news = Vec::new();
        for _ in 0..100 {
            waiting.add();
            records.send("{}\n".to_owned()).unwrap();
            sleep(sync / 10).await;
            if faults.has_changed().unwrap() {
                news.push(faults.borrow_and_update().clone());
            }
        }
        assert!(news.len() == 1 && news[0].as_ref().unwrap().contains("sync"), "{news:?}");
    }
}
