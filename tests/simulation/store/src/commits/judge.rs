//! The promises, on the record of a course.

use super::record::{Content, End, Event, Logged, Record, Seen, Watched};

/// Judges a course. Only one with narrow bounds may end watches and scans.
pub(super) fn judge(log: &[Logged], record: &Record, is_narrow: bool) {
    assert!(is_narrow || record.aborted == 0, "scans ended without need");
    for seen in &record.reads {
        assert!(is_possible(log, seen), "a call shows the newest state: {seen:?} in {log:?}");
    }
    for (sequence, content) in &record.contents {
        assert_eq!(*content, content_at(log, *sequence, ""), "kept content as of {sequence}: {log:?}");
    }
    for watched in &record.watches {
        assert!(is_narrow || watched.end != End::Lagged, "lagged without need: {watched:?}");
        judge_watch(log, watched);
    }
}

/// Returns whether the resource was in this state after a known commit, or later.
fn is_possible(log: &[Logged], seen: &Seen) -> bool {
    let of_name = || log.iter().filter(|change| change.name == seen.name);
    let known = of_name().rfind(|change| change.sequence <= seen.known).and_then(|change| change.now);
    known == seen.version || of_name().any(|change| change.sequence > seen.known && change.now == seen.version)
}

/// Returns the content after a commit.
fn content_at(log: &[Logged], sequence: u64, prefix: &str) -> Content {
    let mut content = Content::new();
    for change in log.iter().filter(|change| change.sequence <= sequence && change.name.starts_with(prefix)) {
        match change.now {
            Some(now) => content.insert(change.name.to_owned(), now),
            None => content.remove(change.name),
        };
    }
    content
}

fn judge_watch(log: &[Logged], watched: &Watched) {
    let text = || format!("{watched:?} in {log:?}");
    if let Some(snapshot) = &watched.snapshot {
        assert_eq!(
            *snapshot,
            content_at(log, watched.position, watched.prefix),
            "a snapshot is as of one commit: {}",
            text()
        );
    }
    assert!(
        watched.events.is_sorted_by(|a, b| a.sequence < b.sequence),
        "a watch is in order, and shows each change once: {}",
        text()
    );
    let is_due = |change: &&Logged| {
        change.sequence > watched.position && (!watched.has_terms || change.name.starts_with(watched.prefix))
    };
    let due: Vec<&Logged> = log.iter().filter(is_due).collect();
    let number = watched.events.len();
    assert!(number <= due.len(), "a watch shows commits: {}", text());
    assert!(watched.end != End::Closed || number == due.len(), "a watch misses nothing: {}", text());
    for (event, due) in watched.events.iter().zip(&due) {
        assert!(is_same(event, due, watched.compares), "a watch misses nothing: {event:?} for {due:?}: {}", text());
    }
    for (event, next) in watched.events.iter().zip(watched.events.iter().skip(1)) {
        assert_eq!(event.more, event.commit == next.commit, "a batch is shown whole: {}", text());
    }
    let is_last = watched.end == End::Closed;
    assert!(!is_last || watched.events.last().is_none_or(|last| !last.more), "a batch is shown whole: {}", text());
    for (events, newest) in &watched.newest {
        let later = watched.events.get(*events);
        assert!(later.is_none_or(|later| later.sequence > *newest), "newest is behind all events: {}", text());
    }
}

fn is_same(event: &Event, due: &Logged, compares: bool) -> bool {
    let is_known = event.now.is_some() && (compares || event.before.is_some());
    event.sequence == due.sequence
        && event.commit == due.commit
        && event.name == due.name
        && event.now == due.now
        && (!is_known || event.before == due.before)
}
