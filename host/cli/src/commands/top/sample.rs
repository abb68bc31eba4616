//! The figures of a moment, rates between two moments, and a bounded history.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use mortise_resource::data::{
    RegionStatusRequest, RegionStatusResponse, ServerStatusResponse, server_status_response::Requests,
};

use crate::{
    CliError, Session,
    commands::server_status::{fetch, std_duration},
};

/// Most moments in a history: as many as the widest sparkline has columns.
pub(super) const MAX_HISTORY: usize = 240;

/// The figures of a moment.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) taken_at: Instant,
    pub(super) status: ServerStatusResponse,
    /// The replicas of other regions, or the reason for their absence.
    pub(super) regions: Result<RegionStatusResponse, String>,
}

impl Sample {
    /// Asks a server for its figures, without those of regions.
    pub(super) async fn fetch(session: &Session) -> Result<Self, CliError> {
        let status = fetch(session).await?;
        Ok(Self::of(Instant::now(), status))
    }

    /// Asks a server for all of its figures. A refusal of those of regions is part of the sample.
    pub(super) async fn fetch_all(session: &Session) -> Result<Self, CliError> {
        let regions = session.call("regions", session.regions().status(RegionStatusRequest {})).await;
        let regions = regions.map_err(|error| error.message);
        Ok(Self { regions, ..Self::fetch(session).await? })
    }

    /// Makes a sample without regions.
    pub(super) fn of(taken_at: Instant, status: ServerStatusResponse) -> Self {
        Self { taken_at, status, regions: Ok(RegionStatusResponse::default()) }
    }

    /// Calls of both ports since the start.
    fn requests(&self) -> u64 {
        let all = self.status.requests.iter().chain(&self.status.http_requests);
        all.fold(0, |sum, requests| sum.saturating_add(requests.count))
    }
}

/// The time between two samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span<'s> {
    pub(super) before: &'s Sample,
    pub(super) now: &'s Sample,
}

impl<'s> Span<'s> {
    pub(super) fn between(before: &'s Sample, now: &'s Sample) -> Self {
        Self { before, now }
    }

    /// The length, at least a millisecond.
    pub(super) fn seconds(&self) -> f64 {
        self.now.taken_at.saturating_duration_since(self.before.taken_at).as_secs_f64().max(0.001)
    }

    /// The rate of a count that only grows. A restarted server counts from zero.
    pub(super) fn rate(&self, now: u64, before: u64) -> f64 {
        since(now, before) as f64 / self.seconds()
    }

    /// Use of processors in percent of one.
    pub(super) fn cpu(&self) -> f64 {
        let cpu = |sample: &Sample| std_duration(sample.status.process.unwrap_or_default().cpu.as_ref());
        let (now, before) = (cpu(self.now), cpu(self.before));
        now.checked_sub(before).unwrap_or(now).as_secs_f64() / self.seconds() * 100.0
    }

    /// Calls of both ports in a second.
    pub(super) fn requests(&self) -> f64 {
        self.rate(self.now.requests(), self.before.requests())
    }

    /// Changes of the store in a second.
    pub(super) fn changes(&self) -> f64 {
        let commit = |sample: &Sample| sample.status.store.as_ref().map_or(0, |store| store.commit);
        self.rate(commit(self.now), commit(self.before))
    }

    /// Bytes of memory in use at the end.
    pub(super) fn memory(&self) -> u64 {
        self.now.status.process.unwrap_or_default().resident_bytes
    }
}

/// Growth of a count; all of it if the count began again.
pub(super) fn since(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

/// Counts of answers by their times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Times(Vec<u64>);

impl Times {
    /// All answers since the start.
    pub(super) fn all(requests: &Requests) -> Self {
        Self(requests.durations.clone())
    }

    /// The answers since an earlier sample; `None` if there were none.
    pub(super) fn between(now: &Requests, before: Option<&Requests>) -> Option<Self> {
        let earlier = before.map(|before| before.durations.as_slice()).unwrap_or_default();
        let restarted = now.durations.iter().zip(earlier).any(|(now, before)| now < before);
        let earlier = if restarted { &[] } else { earlier };
        let counts = now.durations.iter().enumerate();
        let grown = counts.map(|(at, now)| since(*now, earlier.get(at).copied().unwrap_or(0)));
        Some(Self(grown.collect())).filter(|times| times.0.iter().any(|count| *count > 0))
    }

    /// The time that a share of the answers did not exceed, between the bounds of its count as if they were spread
    /// evenly. `Err` has the last bound if the time is longer; `None` without answers.
    pub(super) fn quantile(&self, share: f64, bounds: &[Duration]) -> Option<Result<Duration, Duration>> {
        let total = self.0.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
        if total == 0 {
            return None;
        }
        let wanted = (share * total as f64).max(1.0);
        let mut seen = 0.0;
        for (at, count) in self.0.iter().enumerate() {
            let count = *count as f64;
            if count > 0.0 && seen + count >= wanted {
                let Some(upper) = bounds.get(at) else { break };
                let lower = at.checked_sub(1).and_then(|below| bounds.get(below)).copied().unwrap_or_default();
                let part = ((wanted - seen) / count).clamp(0.0, 1.0);
                return Some(Ok(lower + upper.saturating_sub(lower).mul_f64(part)));
            }
            seen += count;
        }
        bounds.last().map(|last| Err(*last))
    }
}

/// Bounds of the times of a status.
pub(super) fn bounds(status: &ServerStatusResponse) -> Vec<Duration> {
    status.duration_bounds.iter().map(|bound| std_duration(Some(bound))).collect()
}

/// The last values of the figures that sparklines show.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    pub(super) requests: Series,
    pub(super) cpu: Series,
    pub(super) memory: Series,
}

impl History {
    pub(super) fn add(&mut self, span: &Span<'_>) {
        self.requests.add(span.requests());
        self.cpu.add(span.cpu());
        self.memory.add(span.memory() as f64);
    }
}

/// The last values of a figure, oldest first, at most [`MAX_HISTORY`].
#[derive(Debug, Clone, Default)]
pub(super) struct Series(VecDeque<f64>);

impl Series {
    fn add(&mut self, value: f64) {
        if self.0.len() >= MAX_HISTORY {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    /// The last `count` values, oldest first, as whole numbers of thousandths.
    pub(super) fn last(&self, count: usize) -> Vec<u64> {
        let skipped = self.0.len().saturating_sub(count);
        self.0.iter().skip(skipped).map(|value| (value * 1_000.0) as u64).collect()
    }
}
