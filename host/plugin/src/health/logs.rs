//! Logs of plugins: a level, a rate and a bounded memory for each, and a channel for followers.
//!
//! Every accepted line goes to three places: the process's log (target `plugin`, whose filter may hide it there), a
//! ring of the plugin's last lines, and the followers. A follower that is too slow loses the oldest lines and learns
//! their number from the channel. A line below the plugin's level costs nothing and is not counted; a line over its
//! rate is dropped and counted, and the count is logged once a second at most.
//!
//! The host's own lines about a plugin (faults, quarantine, low priority) have a level, a rate and a ring of their own,
//! which the plugin cannot use up: a flood of its lines cannot hide its state. Lines that the plugin causes one by one,
//! such as one for a refused request, are its own.
//!
//! Bounded: lines and bytes a second, lines and bytes kept, plugins remembered (`MAX_PLUGINS`); for the host's lines,
//! `HOST_LINES` a second, as many kept, and `HOST_BYTES`.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use parking_lot::{Mutex, RwLock};
use tokio::sync::broadcast;

use super::log_level::{LogLevel, LogThreshold};

/// Most plugins whose lines are kept; beyond it, the plugin that was silent longest is forgotten.
const MAX_PLUGINS: usize = 1_024;

/// Most lines of the host about one plugin in a second, and most that are kept. Not a setting: the host writes a few a
/// second at most.
const HOST_LINES: usize = 100;

/// Most bytes of these lines, in a second and kept.
const HOST_BYTES: usize = 256 << 10;

const RATE_PERIOD: Duration = Duration::from_secs(1);

/// Limits of plugins' logs: `[plugin_logs]` in config.toml.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// Lines of one plugin in a second.
    pub lines_per_second: u32,
    /// Bytes of one plugin in a second.
    pub bytes_per_second: usize,
    /// Kept lines of one plugin.
    pub kept_lines: usize,
    /// Bytes of these lines.
    pub kept_bytes: usize,
    /// Lines of all plugins that a follower may be behind.
    pub follow_lines: usize,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            lines_per_second: 200,
            bytes_per_second: 256 << 10,
            kept_lines: 1_000,
            kept_bytes: 1 << 20,
            follow_lines: 1_024,
        }
    }
}

/// A log line; it has line breaks if the host adds a backtrace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Name of the plugin.
    pub plugin: Arc<str>,
    /// Time of the line.
    pub time: SystemTime,
    /// Severity.
    pub level: LogLevel,
    /// The hook that was running, such as `validate`; empty outside of one.
    pub hook: &'static str,
    /// The text.
    pub message: String,
    /// Names and values.
    pub fields: Vec<(String, String)>,
}

impl LogLine {
    fn new(plugin: &str, hook: &'static str, level: LogLevel, message: String, fields: Vec<(String, String)>) -> Self {
        Self { plugin: plugin.into(), time: SystemTime::now(), level, hook, message, fields }
    }

    fn size(&self) -> usize {
        self.message.len() + self.fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
    }

    /// Message and fields: `message name=value`.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.message.clone();
        for (name, value) in &self.fields {
            // Writing to a string cannot fail.
            let _ = if !value.is_empty() && value.bytes().all(|b| b.is_ascii_graphic() && b != b'"') {
                write!(text, " {name}={value}")
            } else {
                write!(text, " {name}={value:?}")
            };
        }
        text
    }
}

/// The logs of all plugins.
pub struct Logs {
    settings: LogSettings,
    levels: RwLock<BTreeMap<String, LogThreshold>>,
    logs_by_plugin: Mutex<HashMap<Arc<str>, PluginLog>>,
    live: broadcast::Sender<Arc<LogLine>>,
}

/// Limits of accepted and kept lines.
struct Bounds {
    lines_per_second: usize,
    bytes_per_second: usize,
    kept_lines: usize,
    kept_bytes: usize,
}

impl Bounds {
    /// Limits of the host's lines about a plugin.
    const HOST: Self = Self {
        lines_per_second: HOST_LINES,
        bytes_per_second: HOST_BYTES,
        kept_lines: HOST_LINES,
        kept_bytes: HOST_BYTES,
    };

    /// Limits of a plugin's own lines.
    fn of(settings: &LogSettings) -> Self {
        Self {
            lines_per_second: settings.lines_per_second as usize,
            bytes_per_second: settings.bytes_per_second,
            kept_lines: settings.kept_lines,
            kept_bytes: settings.kept_bytes,
        }
    }
}

/// The last lines of one writer about one plugin, and its use of the current second.
struct Lines {
    ring: VecDeque<Arc<LogLine>>,
    bytes: usize,
    second: Instant,
    lines_in_second: usize,
    bytes_in_second: usize,
}

/// Lines of one plugin.
struct PluginLog {
    guest: Lines,
    host: Lines,
    /// Number of dropped lines that is not logged yet.
    dropped: u64,
    reported_at: Option<Instant>,
}

impl Logs {
    /// Makes empty logs. `levels` are the thresholds of plugins that set one
    /// ([`threshold`](super::log_level::threshold)); the others log from info on.
    #[must_use]
    pub fn new(settings: LogSettings, levels: BTreeMap<String, LogThreshold>) -> Self {
        let (live, _) = broadcast::channel(settings.follow_lines.clamp(1, 1 << 20));
        Self { settings, levels: RwLock::new(levels), logs_by_plugin: Mutex::default(), live }
    }

    /// Replaces the thresholds of plugins, from the next line on.
    pub fn set_levels(&self, levels: BTreeMap<String, LogThreshold>) {
        *self.levels.write() = levels;
    }

    /// Last lines of a plugin up to that level, oldest first; at most `last`, and at most those kept. The host's lines
    /// get half of them, and the part that the plugin's own leave: the newest of each.
    #[must_use]
    pub fn tail(&self, plugin: &str, last: usize, up_to: LogLevel) -> Vec<Arc<LogLine>> {
        let logs_by_plugin = self.logs_by_plugin.lock();
        let Some(book) = logs_by_plugin.get(plugin) else { return Vec::new() };
        let wanted = |lines: &Lines| -> Vec<_> { lines.ring.iter().filter(|l| l.level <= up_to).cloned().collect() };
        let (mut lines, mut of_the_host) = (wanted(&book.guest), wanted(&book.host));
        drop(logs_by_plugin);
        let share = (last / 2).max(last.saturating_sub(lines.len()));
        of_the_host.drain(..of_the_host.len().saturating_sub(share));
        lines.drain(..lines.len().saturating_sub(last - of_the_host.len()));
        lines.append(&mut of_the_host);
        lines.sort_by_key(|line| line.time);
        lines
    }

    /// Subscribes to every line of every plugin from now on.
    #[must_use]
    pub fn follow(&self) -> broadcast::Receiver<Arc<LogLine>> {
        self.live.subscribe()
    }

    /// Whether a plugin's lines of this level are accepted.
    pub(crate) fn accepts_level(&self, plugin: &str, level: LogLevel) -> bool {
        self.levels.read().get(plugin).copied().unwrap_or(Some(LogLevel::Info)) >= Some(level)
    }

    /// Takes a line of the host about a plugin, regardless of the plugin's level. It may contain line breaks.
    pub(crate) fn log_host_line(&self, plugin: &str, hook: &'static str, level: LogLevel, message: String) {
        self.write_at(Instant::now(), true, LogLine::new(plugin, hook, level, message, Vec::new()));
    }

    /// Takes a line of the plugin itself, and replaces characters that could forge lines of a log.
    pub(crate) fn log_guest_line(
        &self,
        plugin: &str,
        hook: &'static str,
        level: LogLevel,
        message: &str,
        fields: Vec<(String, String)>,
    ) {
        let fields = fields.into_iter().map(|(name, value)| (plain(&name), plain(&value))).collect();
        self.write(plugin, hook, level, plain(message), fields);
    }

    pub(crate) fn write(
        &self,
        plugin: &str,
        hook: &'static str,
        level: LogLevel,
        message: String,
        fields: Vec<(String, String)>,
    ) {
        if self.accepts_level(plugin, level) {
            self.write_at(Instant::now(), false, LogLine::new(plugin, hook, level, message, fields));
        }
    }

    fn write_at(&self, now: Instant, of_the_host: bool, line: LogLine) {
        let plugin = line.plugin.clone();
        let size = line.size();
        let mut taken = Vec::with_capacity(2);
        let mut logs_by_plugin = self.logs_by_plugin.lock();
        if !logs_by_plugin.contains_key(&plugin) && logs_by_plugin.len() >= MAX_PLUGINS {
            let silent = logs_by_plugin
                .iter()
                .min_by_key(|(_, book)| book.guest.second.max(book.host.second))
                .map(|(name, _)| name.clone());
            silent.map(|name| logs_by_plugin.remove(&name));
        }
        let book = logs_by_plugin.entry(plugin.clone()).or_insert_with(|| PluginLog::new(now));
        let (bounds, lines) = match of_the_host {
            true => (Bounds::HOST, &mut book.host),
            false => (Bounds::of(&self.settings), &mut book.guest),
        };
        let fits = lines.count_line(&bounds, now, size);
        if !fits {
            book.dropped += 1;
            metrics::counter!("mortise_plugin_logs_dropped_total", "plugin" => plugin.to_string()).increment(1);
        }
        if book.dropped > 0
            && book.reported_at.is_none_or(|reported_at| now.saturating_duration_since(reported_at) >= RATE_PERIOD)
        {
            let message = "log lines dropped (limits plugin_logs.lines_per_second, bytes_per_second)".to_owned();
            let fields = vec![("dropped".to_owned(), std::mem::take(&mut book.dropped).to_string())];
            book.reported_at = Some(now);
            taken.push(Arc::new(LogLine { level: LogLevel::Warn, message, fields, hook: "", ..line.clone() }));
        }
        if fits {
            taken.push(Arc::new(line));
        }
        let lines = if of_the_host { &mut book.host } else { &mut book.guest };
        for line in &taken {
            lines.keep(&bounds, line.clone());
        }
        drop(logs_by_plugin);
        for line in taken {
            trace(&line);
            // Fails only without followers.
            let _ = self.live.send(line);
        }
    }
}

impl PluginLog {
    fn new(now: Instant) -> Self {
        Self { guest: Lines::new(now), host: Lines::new(now), dropped: 0, reported_at: None }
    }
}

impl Lines {
    fn new(now: Instant) -> Self {
        Self { ring: VecDeque::new(), bytes: 0, second: now, lines_in_second: 0, bytes_in_second: 0 }
    }

    /// Counts a line against the current second; answers whether it fits.
    fn count_line(&mut self, bounds: &Bounds, now: Instant, size: usize) -> bool {
        if now.saturating_duration_since(self.second) >= RATE_PERIOD {
            self.second = now;
            self.lines_in_second = 0;
            self.bytes_in_second = 0;
        }
        let fits = self.lines_in_second < bounds.lines_per_second
            && self.bytes_in_second.saturating_add(size) <= bounds.bytes_per_second;
        if fits {
            self.lines_in_second += 1;
            self.bytes_in_second += size;
        }
        fits
    }

    fn keep(&mut self, bounds: &Bounds, line: Arc<LogLine>) {
        self.bytes += line.size();
        self.ring.push_back(line);
        while self.ring.len() > bounds.kept_lines || self.bytes > bounds.kept_bytes {
            let Some(oldest) = self.ring.pop_front() else { break };
            self.bytes -= oldest.size();
        }
    }
}

/// Replaces characters that move a cursor or begin a line.
pub(crate) fn plain(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\t', "\u{2424}")
}

fn trace(line: &LogLine) {
    let (plugin, hook, text) = (&*line.plugin, line.hook, line.text());
    match line.level {
        LogLevel::Error => tracing::error!(target: "plugin", plugin, hook, "{text}"),
        LogLevel::Warn => tracing::warn!(target: "plugin", plugin, hook, "{text}"),
        LogLevel::Debug => tracing::debug!(target: "plugin", plugin, hook, "{text}"),
        LogLevel::Trace => tracing::trace!(target: "plugin", plugin, hook, "{text}"),
        LogLevel::Info => tracing::info!(target: "plugin", plugin, hook, "{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{LogLevel::*, *};
    use crate::health::log_level::threshold;

    fn logs(settings: LogSettings) -> Logs {
        Logs::new(settings, BTreeMap::from([("chatty".to_owned(), Some(Trace)), ("mute".to_owned(), None)]))
    }

    fn texts(lines: &[Arc<LogLine>]) -> Vec<String> {
        lines.iter().map(|line| line.text()).collect()
    }

    #[test]
    fn levels_are_by_plugin() {
        let logs = logs(LogSettings::default());
        for plugin in ["chatty", "usual", "mute"] {
            [Error, Warn, Info, Debug, Trace]
                .into_iter()
                .for_each(|level| logs.log_guest_line(plugin, "mutate", level, "reported_at", Vec::new()));
        }
        let counts = ["chatty", "usual", "mute", "nobody"].map(|plugin| logs.tail(plugin, 99, Trace).len());
        assert_eq!(counts, [5, 3, 0, 0]);
        logs.set_levels(BTreeMap::from([("usual".to_owned(), Some(Error))]));
        assert!(logs.accepts_level("usual", Error) && !logs.accepts_level("usual", Warn));
        assert!(
            logs.accepts_level("mute", Info) && !logs.accepts_level("chatty", Debug),
            "they have the default again"
        );
        assert_eq!(
            ["off", "error", "trace", "loud"].map(threshold),
            [Some(None), Some(Some(Error)), Some(Some(Trace)), None]
        );
    }

    #[test]
    fn the_ring_is_bounded_by_lines_and_by_bytes() {
        let logs = logs(LogSettings { kept_lines: 3, kept_bytes: 10, ..LogSettings::default() });
        for n in 0..9 {
            logs.log_guest_line("p", "", Info, &n.to_string(), Vec::new());
        }
        assert_eq!(texts(&logs.tail("p", 99, Trace)), ["6", "7", "8"]);
        assert_eq!(texts(&logs.tail("p", 2, Trace)), ["7", "8"]);
        logs.log_guest_line("p", "", Info, "ten bytes!", Vec::new());
        assert_eq!(texts(&logs.tail("p", 99, Trace)), ["ten bytes!"]);
        logs.log_guest_line("p", "", Info, "eleven byte", Vec::new());
        assert_eq!(texts(&logs.tail("p", 99, Trace)), [""; 0], "what does not fit is not kept");
    }

    #[test]
    fn the_rate_is_bounded_and_what_is_dropped_is_said_once_a_second() {
        let logs = logs(LogSettings { lines_per_second: 2, ..LogSettings::default() });
        let begun = Instant::now();
        let say = |ms| {
            logs.write_at(
                begun + Duration::from_millis(ms),
                false,
                LogLine::new("p", "", Info, format!("at {ms}"), Vec::new()),
            )
        };
        let others = |ms| {
            logs.write_at(begun + Duration::from_millis(ms), false, LogLine::new("q", "", Info, "q".into(), Vec::new()))
        };
        [0, 1, 2, 3, 4, 999].into_iter().for_each(say);
        others(5);
        [1_001, 1_002, 1_003, 1_500, 9_000].into_iter().for_each(say);
        let dropped =
            |n| format!("log lines dropped (limits plugin_logs.lines_per_second, bytes_per_second) dropped={n}");
        // At 1,001 ms the rate's second is over, that of the last report of dropped lines is not.
        let expected = ["at 0", "at 1", &dropped(1), "at 1001", &dropped(3), "at 1002", &dropped(2), "at 9000"];
        assert_eq!(texts(&logs.tail("p", 99, Trace)), expected);
        assert_eq!(logs.tail("q", 9, Trace).len(), 1, "a plugin's rate is its own");
    }

    /// A plugin's quarantine stays in the log, no matter how much the plugin writes before and after.
    #[test]
    fn no_plugin_hides_what_the_host_says_of_it() {
        let logs = logs(LogSettings { lines_per_second: 5, kept_lines: 5, ..LogSettings::default() });
        let flood = || (0..1_000).for_each(|n| logs.log_guest_line("p", "", Info, &n.to_string(), Vec::new()));
        flood();
        logs.log_host_line("p", "reconcile", Error, "hook reconcile is quarantined".into());
        flood();
        let lines = texts(&logs.tail("p", 99, Trace));
        assert!(lines.iter().any(|line| line == "hook reconcile is quarantined"), "{lines:?}");
        logs.log_host_line("mute", "", Warn, "a line about a plugin that logs nothing".into());
        assert_eq!(texts(&logs.tail("mute", 9, Trace)), ["a line about a plugin that logs nothing"]);
        (0..10_000).for_each(|n| logs.log_host_line("p", "", Error, n.to_string()));
        assert!(logs.tail("p", usize::MAX, Trace).len() <= 5 + HOST_LINES, "the host's are bounded, too");
    }

    /// The plugin cannot hide it by filling the shown lines either, unless more are requested.
    #[test]
    fn the_lines_that_are_shown_are_shared() {
        let logs = logs(LogSettings { lines_per_second: 2_000, ..LogSettings::default() });
        logs.log_host_line("p", "reconcile", Error, "hook reconcile is quarantined".into());
        (0..1_000).for_each(|n| logs.log_guest_line("p", "", Info, &n.to_string(), Vec::new()));
        let lines = texts(&logs.tail("p", 100, Trace));
        assert_eq!(
            (lines.len(), &*lines[0], &*lines[1], &*lines[99]),
            (100, "hook reconcile is quarantined", "901", "999")
        );
        assert_eq!(texts(&logs.tail("p", 100, Error)), ["hook reconcile is quarantined"], "others take no place");
        assert_eq!(texts(&logs.tail("p", 1, Info)), ["999"]);
        (0..50).for_each(|n| logs.log_host_line("p", "", Warn, format!("host {n}")));
        let count = |last| {
            let lines = texts(&logs.tail("p", last, Trace));
            (lines.len(), lines.iter().filter(|line| line.starts_with("host")).count())
        };
        assert_eq!([count(11), count(100), count(1_040)], [(11, 5), (100, 50), (1_040, 50)]);
        (0..20).for_each(|n| logs.log_host_line("q", "", Warn, n.to_string()));
        logs.log_guest_line("q", "", Info, "one", Vec::new());
        assert_eq!(texts(&logs.tail("q", 10, Trace)).len(), 10, "what the plugin does not need is the host's");
    }

    #[test]
    fn bytes_count_too() {
        let logs = logs(LogSettings { bytes_per_second: 100, ..LogSettings::default() });
        let begun = Instant::now();
        let say = |text: &str| {
            logs.write_at(begun, false, LogLine::new("p", "", Info, text.into(), vec![("k".into(), "v".into())]))
        };
        [60, 40, 36].into_iter().for_each(|size| say(&"x".repeat(size)));
        let sizes: Vec<_> = logs.tail("p", 9, Trace).iter().map(|line| line.message.len()).collect();
        assert_eq!((sizes.first(), sizes.last()), (Some(&60), Some(&36)));
    }

    #[tokio::test]
    async fn followers_hear_everything_or_how_much_they_missed() {
        let logs = logs(LogSettings { follow_lines: 4, ..LogSettings::default() });
        let mut follower = logs.follow();
        logs.log_guest_line("p", "validate", Warn, "careful", vec![("why".into(), "two words".into())]);
        let line = follower.recv().await.unwrap();
        assert_eq!((&*line.plugin, line.level, line.hook), ("p", Warn, "validate"));
        assert_eq!(line.text(), "careful why=\"two words\"");
        (0..10).for_each(|n| logs.log_guest_line("p", "", Info, &n.to_string(), Vec::new()));
        assert!(matches!(follower.recv().await, Err(broadcast::error::RecvError::Lagged(6))));
        assert_eq!(follower.recv().await.unwrap().message, "6");
    }

    #[test]
    fn guests_cannot_forge_lines() {
        let logs = logs(LogSettings::default());
        logs.log_guest_line("p", "", Info, "a\nb\u{1b}[2J", vec![("k\n".into(), "v\r".into())]);
        assert!(!logs.tail("p", 1, Trace)[0].text().contains(|c: char| c.is_control()));
    }

    #[test]
    fn many_plugins_do_not_fill_the_memory() {
        let logs = logs(LogSettings::default());
        (0..2 * MAX_PLUGINS).for_each(|n| logs.log_guest_line(&format!("p{n}"), "", Info, "x", Vec::new()));
        assert!(logs.logs_by_plugin.lock().len() <= MAX_PLUGINS);
        assert_eq!(logs.tail(&format!("p{}", 2 * MAX_PLUGINS - 1), 9, Trace).len(), 1);
    }
}
