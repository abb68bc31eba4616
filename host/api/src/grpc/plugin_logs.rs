//! A plugin's log as a stream: the last lines and, on request, every later one until the server stops.
//!
//! A reader that falls more than `LogSettings::follow_lines` behind loses the oldest lines and gets a line about the
//! loss.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::{Stream, stream};
use mortise_plugin_manager::{LogLevel, LogLine, Logs};
use mortise_resource::data;
use tokio::sync::{
    OwnedSemaphorePermit,
    broadcast::{Receiver, error::RecvError},
};
use tonic::Status;

/// Longest delay between keeping a line and its arrival through the channel.
const MAX_LINE_DELAY: Duration = Duration::from_secs(1);

/// An open log reader.
pub(crate) struct LogReader {
    plugin: String,
    up_to: LogLevel,
    /// Unsent kept lines, oldest first.
    kept: std::vec::IntoIter<Arc<LogLine>>,
    /// The lines that were kept at the start: late ones among them arrive through the channel, too.
    seen: Vec<Arc<LogLine>>,
    begun: SystemTime,
    live: Option<Receiver<Arc<LogLine>>>,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    _permit: OwnedSemaphorePermit,
}

impl LogReader {
    /// Opens a reader; no later line is missed.
    pub(crate) fn open(
        logs: &Logs,
        wanted: data::LogsRequest,
        stopped: impl Future<Output = ()> + Send + 'static,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        // The channel is opened first: a line in between arrives twice and is recognised; otherwise it would be lost.
        let live = wanted.follow.then(|| logs.follow());
        let up_to = LogLevel::from_number(wanted.level).unwrap_or(LogLevel::Trace);
        let kept = logs.tail(&wanted.name, wanted.last as usize, up_to);
        Self {
            plugin: wanted.name,
            up_to,
            begun: SystemTime::now(),
            seen: if wanted.follow { kept.clone() } else { Vec::new() },
            kept: kept.into_iter(),
            live,
            stopped: Box::pin(stopped),
            _permit: permit,
        }
    }

    /// The lines for the client.
    pub(crate) fn stream(self) -> impl Stream<Item = Result<data::LogLine, Status>> + Send {
        stream::unfold(self, |mut lines| async { lines.next().await.map(|line| (Ok(line), lines)) })
    }

    async fn next(&mut self) -> Option<data::LogLine> {
        if let Some(line) = self.kept.next() {
            return Some(wire(&line));
        }
        let live = self.live.as_mut()?;
        loop {
            let next = tokio::select! {
                next = live.recv() => next,
                () = &mut self.stopped => return None,
            };
            match next {
                Ok(line) if *line.plugin != *self.plugin || line.level > self.up_to => {}
                Ok(line) => {
                    if let Some(index) = self.seen.iter().position(|seen| Arc::ptr_eq(seen, &line)) {
                        self.seen.swap_remove(index);
                        continue;
                    }
                    if line.time > self.begun + MAX_LINE_DELAY {
                        self.seen = Vec::new();
                    }
                    return Some(wire(&line));
                }
                Err(RecvError::Lagged(lost)) => return Some(self.lost(lost)),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    fn lost(&self, lines: u64) -> data::LogLine {
        let message = format!("up to {lines} lines are lost: this reader was too slow");
        wire(&LogLine {
            plugin: self.plugin.as_str().into(),
            time: SystemTime::now(),
            level: LogLevel::Warn,
            hook: "",
            message,
            fields: Vec::new(),
        })
    }
}

fn wire(line: &LogLine) -> data::LogLine {
    data::LogLine {
        plugin: line.plugin.to_string(),
        at: Some(line.time.into()),
        level: line.level as u32,
        hook: line.hook.to_owned(),
        message: line.message.clone(),
        fields: line.fields.iter().cloned().collect(),
    }
}
