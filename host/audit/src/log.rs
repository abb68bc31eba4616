//! The log's handle for code that records.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::pin,
    sync::Arc,
    thread,
    time::Duration,
};

use mortise_durable_fs::FsError;
use parking_lot::Mutex;
use tokio::{
    runtime,
    sync::{Notify, mpsc, oneshot, watch},
    time::timeout,
};

use crate::{
    Events, OnFull, Options,
    files::RotatingFile,
    record::Record,
    sinks::{SinkFaults, Sinks},
    waiting::Waiting,
    writer,
};

/// Reason why the log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file cannot be opened.
    #[error("the audit log cannot be opened: {0}")]
    File(#[from] FsError),
    /// The writer thread cannot be started.
    #[error("the thread of the audit log cannot be started: {0}")]
    Thread(#[source] std::io::Error),
}

/// Refusal: no reservation was possible in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the audit log takes no records: {}; nothing was changed; retry later (audit.on_full = \"wait\")",
    .fault.as_deref().unwrap_or("too many records wait to be written")
)]
pub struct QueueFull {
    /// Fault of the file, if that is the reason.
    pub fault: Option<String>,
}

/// Handle of the log. Cheap to clone.
#[derive(Clone)]
pub struct AuditLog(Arc<Shared>);

struct Shared {
    queue: mpsc::UnboundedSender<String>,
    waiting: Arc<Waiting>,
    events: Events,
    when_full: OnFull,
    limit: usize,
    wait: Duration,
    fault: watch::Receiver<Option<String>>,
    sink_faults: SinkFaults,
    /// Asks the thread to open the file again.
    reopen: Arc<Notify>,
    /// Ends the writer thread.
    close: Mutex<Option<oneshot::Sender<()>>>,
    /// True once the thread has ended; if it panicked, the sender is dropped without this.
    ended: watch::Receiver<bool>,
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").field("events", &self.0.events).finish_non_exhaustive()
    }
}

/// The right to give one record. Dropping it unused has no effect.
pub struct Reservation(AuditLog);

impl AuditLog {
    /// Opens the files, and starts the writer thread.
    ///
    /// # Errors
    /// A directory or file that cannot be made or opened; a thread that cannot be started.
    pub fn open(options: &Options) -> Result<Self, OpenError> {
        let files = RotatingFile::open(&options.dir, options.file_bytes, options.files)?;
        let sinks = Sinks::start(&options.sinks).map_err(OpenError::Thread)?;
        let sink_faults = sinks.faults();
        let (queue, records) = mpsc::unbounded_channel();
        let (say, fault) = watch::channel(None);
        let (close, closing) = oneshot::channel();
        let (end, ended) = watch::channel(false);
        let waiting = Arc::<Waiting>::default();
        let (sync, counts, reopen) = (options.sync, waiting.clone(), Arc::<Notify>::default());
        let signals = writer::Signals { reopen: reopen.clone(), closing };
        // A runtime of its own: waiting records are written even after the server's runtime has ended.
        let clock = runtime::Builder::new_current_thread().enable_time().build().map_err(OpenError::Thread)?;
        let run = move || {
            let write = || clock.block_on(writer::write(records, files, sinks, sync, &counts, say, signals));
            run_and_report_end(write, &counts, &end);
        };
        thread::Builder::new().name("mortise-audit".to_owned()).spawn(run).map_err(OpenError::Thread)?;
        Ok(Self(Arc::new(Shared {
            queue,
            waiting,
            events: options.events,
            when_full: options.when_full,
            limit: options.queue.max(1),
            wait: options.wait,
            fault,
            sink_faults,
            reopen,
            close: Mutex::new(Some(close)),
            ended,
        })))
    }

    /// Returns the selection of recorded calls.
    #[must_use]
    pub fn events(&self) -> Events {
        self.0.events
    }

    /// Reserves room for one record; with [`OnFull::Wait`], waits until there is some. Safe to cancel.
    ///
    /// # Errors
    /// [`QueueFull`], only with [`OnFull::Wait`].
    pub async fn reserve(&self) -> Result<Reservation, QueueFull> {
        let shared = &self.0;
        if shared.when_full == OnFull::Drop || shared.waiting.has_room(shared.limit) {
            return Ok(Reservation(self.clone()));
        }
        let room = async {
            loop {
                let mut notified = pin!(shared.waiting.room());
                // From here on no notification is missed.
                notified.as_mut().enable();
                if shared.waiting.has_room(shared.limit) {
                    return;
                }
                notified.await;
            }
        };
        timeout(shared.wait, room).await.map(|()| Reservation(self.clone())).map_err(|_| {
            metrics::counter!("mortise_audit_refused_total").increment(1);
            QueueFull { fault: shared.fault.borrow().clone() }
        })
    }

    /// Reports the fault of the files while there is one; with [`OnFull::Wait`] all changes are refused meanwhile.
    #[must_use]
    pub fn fault(&self) -> watch::Receiver<Option<String>> {
        self.0.fault.clone()
    }

    /// Returns a sentence for each sink that takes no records. The files have them nevertheless.
    #[must_use]
    pub fn sink_faults(&self) -> Vec<String> {
        self.0.sink_faults.now()
    }

    /// Syncs and closes the current file, and opens the one that has its name now, or makes it. Returns at once; the
    /// server's log has the outcome, and [`AuditLog::fault`] a failure. A moved file is noticed without this, too.
    pub fn reopen(&self) {
        self.0.reopen.notify_one();
    }

    /// Whether callers wait for room, and are refused without it ([`OnFull::Wait`]).
    #[must_use]
    pub fn blocks_callers(&self) -> bool {
        self.0.when_full == OnFull::Wait
    }

    /// Writes the waiting records, syncs, and ends the thread. Later records are refused or dropped.
    pub async fn close(&self) {
        let close = self.0.close.lock().take();
        if let Some(close) = close {
            // Both fail only if the thread has ended.
            let _ = close.send(());
            let _ = self.0.ended.clone().wait_for(|ended| *ended).await;
        }
    }

    /// Resolves when the writer thread has ended; panics if the thread did, for a task supervisor.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        resolve_or_panic(self.0.ended.clone())
    }
}

/// Runs `write` to its end. If it panics, the log refuses further records and `end` is not set.
fn run_and_report_end(write: impl FnOnce(), waiting: &Waiting, end: &watch::Sender<bool>) {
    let written = catch_unwind(AssertUnwindSafe(write));
    waiting.close();
    if written.is_ok() {
        end.send_replace(true);
    }
}

async fn resolve_or_panic(mut ended: watch::Receiver<bool>) {
    if ended.wait_for(|ended| *ended).await.is_err() {
        resume_unwind(Box::new("the writer thread of the audit log panicked; see the log"));
    }
}

impl Reservation {
    /// Gives the record: queues its line, without waiting. With [`OnFull::Drop`] and a full queue, only counts it.
    pub fn record(self, record: &Record<'_>) {
        let shared = &self.0.0;
        if shared.when_full == OnFull::Drop && !shared.waiting.has_room(shared.limit) {
            shared.waiting.count_dropped();
            metrics::counter!("mortise_audit_records_total", "outcome" => "dropped").increment(1);
            return;
        }
        shared.waiting.add();
        if shared.queue.send(record.line()).is_err() {
            tracing::error!("a record of the audit log is lost: the log was closed before the call ended");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    fn options(dir: &Path, when_full: OnFull) -> Options {
        Options {
            dir: dir.to_owned(),
            events: Events::All,
            sinks: Vec::new(),
            file_bytes: 1 << 20,
            files: 2,
            queue: 4,
            when_full,
            wait: Duration::from_millis(200),
            sync: Duration::from_millis(50),
        }
    }

    fn lines(dir: &Path) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(dir.join("audit.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn names(dir: &Path) -> Vec<String> {
        lines(dir).iter().filter_map(|line| Some(line["name"].as_str()?.to_owned())).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn close_writes_all_records() {
        let dir = tempfile::tempdir().unwrap();
        let patient = Options { wait: Duration::from_secs(5), ..options(dir.path(), OnFull::Wait) };
        let log = AuditLog::open(&patient).unwrap();
        for i in 0..1_000 {
            let name = i.to_string();
            log.reserve().await.unwrap().record(&Record { name: &name, ..Record::default() });
        }
        log.close().await;
        assert_eq!(names(dir.path()), (0..1_000).map(|i| i.to_string()).collect::<Vec<_>>());
        assert!(log.reserve().await.is_err(), "closed");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_file_is_opened_again_on_request() {
        let dir = tempfile::tempdir().unwrap();
        // No record is written and no sync looks at the name, so the request alone opens the file.
        let rarely = Options { sync: Duration::from_secs(3_600), ..options(dir.path(), OnFull::Wait) };
        let log = AuditLog::open(&rarely).unwrap();
        let current = dir.path().join("audit.jsonl");
        fs::rename(&current, dir.path().join("moved")).unwrap();
        log.reopen();
        while !current.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        log.reserve().await.unwrap().record(&Record { name: "after", ..Record::default() });
        log.close().await;
        assert_eq!(names(dir.path()), ["after"]);
    }

    #[tokio::test]
    async fn a_panicked_writer_is_reported_and_refuses_records() {
        for panics in [false, true] {
            let (waiting, (end, ended)) = (Waiting::default(), watch::channel(false));
            assert!(waiting.has_room(1));
            run_and_report_end(|| assert!(!panics, "panics on purpose"), &waiting, &end);
            drop(end);
            assert!(!waiting.has_room(1));
            assert_eq!(tokio::spawn(resolve_or_panic(ended)).await.is_err(), panics);
        }
    }

    /// A log whose file cannot be rotated, which the next record needs: further records wait.
    async fn stuck(dir: &Path, when_full: OnFull) -> AuditLog {
        let audit = dir.join("audit");
        let log = AuditLog::open(&Options { file_bytes: 10, ..options(&audit, when_full) }).unwrap();
        log.reserve().await.unwrap().record(&Record { name: "first", ..Record::default() });
        while fs::read_to_string(audit.join("audit.jsonl")).unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        fs::rename(&audit, dir.join("elsewhere")).unwrap();
        log.reserve().await.unwrap().record(&Record { name: "second", ..Record::default() });
        log.fault().wait_for(Option::is_some).await.unwrap();
        log
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn waiting_callers_are_refused_while_the_file_fails_and_no_record_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let log = stuck(dir.path(), OnFull::Wait).await;
        let mut places = Vec::new();
        for _ in 0..10 {
            places.push(log.reserve().await.unwrap());
        }
        // All calls that hold a place are recorded.
        for place in places {
            place.record(&Record { name: "begun", ..Record::default() });
        }
        let refused = log.reserve().await.err().unwrap();
        assert!(refused.to_string().contains("audit.jsonl"), "it names the file: {refused}");
        let waiting = tokio::spawn({
            let log = log.clone();
            async move { while log.reserve().await.is_err() {} }
        });
        fs::rename(dir.path().join("elsewhere"), dir.path().join("audit")).unwrap();
        log.fault().wait_for(Option::is_none).await.unwrap();
        waiting.await.unwrap();
        log.close().await;
        // Each file has room for one batch.
        let begun: usize = fs::read_dir(dir.path().join("audit"))
            .unwrap()
            .map(|file| fs::read_to_string(file.unwrap().path()).unwrap().matches("begun").count())
            .sum();
        assert_eq!(begun, 10);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn dropped_records_are_counted_in_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let log = stuck(dir.path(), OnFull::Drop).await;
        for _ in 0..20 {
            log.reserve().await.unwrap().record(&Record { name: "kept", ..Record::default() });
        }
        fs::rename(dir.path().join("elsewhere"), dir.path().join("audit")).unwrap();
        log.fault().wait_for(Option::is_none).await.unwrap();
        log.close().await;
        let text: String = fs::read_dir(dir.path().join("audit"))
            .unwrap()
            .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
            .collect();
        let kept = text.matches("kept").count();
        let dropped: u64 = text
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["dropped"].as_u64())
            .sum();
        assert_eq!((kept, dropped), (3, 17), "the second waits with them: {text}");
    }
}
