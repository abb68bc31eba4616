//! Further places of the records, beside the files: syslog, the journal, or a socket.
//!
//! # Contract
//! A sink gets each line as it stands in the file, after it was written there, so that it can be verified, too. A sink
//! never delays a caller or the files: it has a thread and a queue of its own. Lines beyond the queue are dropped and
//! counted, and their numbers are missing in the chain. A sink that is absent at the start or goes away is tried again.
//!
//! # Limits
//! [`QUEUE_RECORDS`] and [`QUEUE_BYTES`] of each sink; [`SEND_TIMEOUT`] for an attempt, [`CLOSING_TIME`] for the rest
//! of the queue at a stop. A stream may have a line twice, after a connection that broke.

mod queue;
mod target;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use queue::Queue;
use target::Connection;

pub use target::{Sink, SinkError};

/// Most lines that wait for a sink.
const QUEUE_RECORDS: usize = 4_096;

/// Most bytes that wait for a sink.
const QUEUE_BYTES: usize = 4 << 20;

/// Longest time for a connection, and for sending a line.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Time in which all sinks together take the rest of their queues at a stop.
const CLOSING_TIME: Duration = Duration::from_millis(500);

/// The sinks, with their threads.
#[derive(Default)]
pub(crate) struct Sinks(Vec<Arc<Feed>>);

/// A sink's queue and state, between its thread and the others.
struct Feed {
    sink: Sink,
    queue: Queue,
    /// Reason why the sink takes nothing.
    fault: Mutex<Option<String>>,
}

/// Faults of the sinks, for a report.
#[derive(Clone, Default)]
pub(crate) struct SinkFaults(Vec<Arc<Feed>>);

impl SinkFaults {
    /// Returns a sentence for each sink that takes nothing.
    pub(crate) fn now(&self) -> Vec<String> {
        let faults = self.0.iter().filter_map(|feed| Some((&feed.sink, feed.fault.lock().clone()?)));
        faults.map(|(sink, fault)| format!("the audit sink {sink} takes no records: {fault}")).collect()
    }
}

impl Sinks {
    /// Starts a thread for each sink.
    pub(crate) fn start(sinks: &[Sink]) -> std::io::Result<Self> {
        let mut feeds = Vec::new();
        for sink in sinks {
            let queue = Queue::new(QUEUE_RECORDS, QUEUE_BYTES);
            let feed = Arc::new(Feed { sink: sink.clone(), queue, fault: Mutex::new(None) });
            let fed = feed.clone();
            thread::Builder::new().name("mortise-sink".to_owned()).spawn(move || fed.run())?;
            feeds.push(feed);
        }
        Ok(Self(feeds))
    }

    pub(crate) fn faults(&self) -> SinkFaults {
        SinkFaults(self.0.clone())
    }

    /// Gives written lines to every sink. Never waits.
    pub(crate) fn send(&self, lines: &[String]) {
        for feed in &self.0 {
            let dropped = lines.iter().filter(|line| !feed.queue.push(line)).count();
            feed.count("dropped", dropped);
        }
    }

    /// Waits for the queues, for [`CLOSING_TIME`] at most, and ends the threads.
    pub(crate) fn close(&self) {
        self.0.iter().for_each(|feed| feed.queue.close());
        let until = Instant::now() + CLOSING_TIME;
        for feed in &self.0 {
            feed.queue.wait_until_done(until);
            let lost = feed.queue.abandon();
            feed.count("dropped", lost);
            if lost > 0 {
                tracing::error!("the audit sink {} did not take the last {lost} records", feed.sink);
            }
        }
    }
}

impl Feed {
    fn run(&self) {
        let mut connection: Option<Connection> = None;
        while let Some(line) = self.queue.take() {
            let sent = match connection.take() {
                Some(open) => Ok(open),
                None => Connection::open(&self.sink, SEND_TIMEOUT),
            };
            match sent.and_then(|mut open| open.send(&line).map(|()| open)) {
                Ok(open) => {
                    connection = Some(open);
                    self.queue.done();
                    self.count("written", 1);
                    self.note(None);
                }
                Err(fault) => {
                    self.note(Some(fault.to_string()));
                    self.queue.put_back(line);
                    self.queue.pause(RETRY_PAUSE);
                }
            }
        }
    }

    /// Publishes the state of the sink, and logs its changes.
    fn note(&self, fault: Option<String>) {
        let mut known = self.fault.lock();
        match (&*known, &fault) {
            (None, Some(fault)) => tracing::warn!(
                "the audit sink {} takes no records: {fault}; {QUEUE_RECORDS} of them wait for it, further ones are \
                 dropped for it; the files have all",
                self.sink
            ),
            (Some(_), None) => tracing::info!("the audit sink {} takes records again", self.sink),
            _ => {}
        }
        *known = fault;
    }

    fn count(&self, outcome: &'static str, count: usize) {
        if count > 0 {
            let sink = self.sink.to_string();
            metrics::counter!("mortise_audit_sink_records_total", "sink" => sink, "outcome" => outcome)
                .increment(count as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        net::TcpListener,
        os::unix::net::{UnixDatagram, UnixListener},
    };

    use super::*;

    fn lines(count: usize) -> Vec<String> {
        (0..count).map(|i| format!("{{\"line\":{i}}}\n")).collect()
    }

    #[test]
    fn a_socket_gets_the_lines_and_a_reader_that_went_away_gets_the_next_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let sinks = Sinks::start(&[Sink::Unix(path.clone())]).unwrap();
        sinks.send(&lines(2));
        while sinks.faults().now().is_empty() {
            thread::yield_now();
        }
        let listener = UnixListener::bind(&path).unwrap();
        sinks.send(&lines(1));
        let read = |count: usize| {
            let reader = BufReader::new(listener.accept().unwrap().0);
            reader.lines().take(count).map(|line| line.unwrap() + "\n").collect::<Vec<_>>()
        };
        assert_eq!(read(2), lines(2), "they waited for the listener");
        // A write to the connection that is gone now may still succeed, once.
        sinks.send(&lines(3));
        let last = read(1).concat();
        assert!(lines(3).contains(&last), "{last}");
    }

    #[test]
    fn a_tcp_socket_gets_the_lines() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sinks = Sinks::start(&[Sink::Tcp(listener.local_addr().unwrap().to_string())]).unwrap();
        sinks.send(&lines(3));
        let reader = BufReader::new(listener.accept().unwrap().0);
        assert_eq!(reader.lines().take(3).map(|line| line.unwrap() + "\n").collect::<Vec<_>>(), lines(3));
    }

    #[test]
    fn a_sink_that_takes_nothing_blocks_nobody_and_loses_a_counted_rest() {
        let dir = tempfile::tempdir().unwrap();
        let sinks = Sinks::start(&[Sink::Unix(dir.path().join("absent"))]).unwrap();
        sinks.send(&lines(QUEUE_RECORDS + 7));
        let feed = &sinks.0[0];
        assert_eq!(feed.queue.len(), QUEUE_RECORDS, "7 were dropped");
        let faults = sinks.faults();
        while faults.now().is_empty() {
            thread::yield_now();
        }
        assert!(faults.now()[0].contains("absent") && faults.now()[0].contains("No such file"), "{:?}", faults.now());
        sinks.close();
        assert_eq!(feed.queue.len(), 0);
    }

    #[test]
    fn syslog_and_the_journal_get_a_datagram_for_each_line() {
        let dir = tempfile::tempdir().unwrap();
        let [log, journal] = ["log", "journal"].map(|name| dir.path().join(name));
        let [at_log, at_journal] = [&log, &journal].map(|path| UnixDatagram::bind(path).unwrap());
        let sinks = Sinks::start(&[Sink::Syslog(log), Sink::Journald(journal)]).unwrap();
        sinks.send(&lines(1));
        let received = |socket: &UnixDatagram| {
            let mut bytes = [0; 1_000];
            let length = socket.recv(&mut bytes).unwrap();
            String::from_utf8(bytes[..length].to_vec()).unwrap()
        };
        let text = received(&at_log);
        assert!(text.starts_with("<86>") && text.contains(" mortise-audit["), "{text}");
        assert!(text.ends_with("]: {\"line\":0}"), "{text}");
        let text = received(&at_journal);
        assert!(text.starts_with("MESSAGE={\"line\":0}\nPRIORITY=6\n"), "{text}");
        assert!(text.contains("SYSLOG_IDENTIFIER=mortise-audit\n"), "{text}");
        sinks.close();
    }
}
