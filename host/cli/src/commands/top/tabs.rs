//! The tabs, and the rows of each.

use std::{collections::BTreeMap, time::Duration};

use mortise_resource::data::server_status_response::{PluginState, Requests, TypeCount};

use super::{
    regions,
    sample::{Span, Times, bounds, since},
    sheet::{Align, Column, Field, Order, Sheet},
};
use crate::{commands::server_status::std_duration, output::ui::Style as Tone};

/// A tab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Requests,
    Plugins,
    Controllers,
    Types,
    Watches,
    Regions,
}

pub(super) const fn left(heading: &'static str) -> Column {
    Column { heading, align: Align::Left }
}

pub(super) const fn tail(heading: &'static str) -> Column {
    Column { heading, align: Align::Tail }
}

pub(super) const fn right(heading: &'static str) -> Column {
    Column { heading, align: Align::Right }
}

const REQUESTS: &[Column] = &[
    left("PORT"),
    tail("METHOD"),
    right("REQ/S"),
    right("P50"),
    right("P99"),
    right("ERR/S"),
    right("TOTAL"),
    left("CODES"),
];
const PLUGINS: &[Column] = &[
    left("PLUGIN"),
    left("VERSION"),
    left("STAGE"),
    left("HEALTH"),
    right("CALLS/S"),
    right("EACH"),
    right("BUSY"),
    right("FAULTS/S"),
    left("MESSAGE"),
];
const CONTROLLERS: &[Column] = &[
    tail("CONTROLLER"),
    left("STATE"),
    right("QUEUED"),
    right("REC/S"),
    right("ERR/S"),
    right("TOTAL"),
    right("ERRORS"),
];
const TYPES: &[Column] = &[tail("TYPE"), right("RESOURCES"), right("GROWTH/S"), right("WATCHES")];
const WATCHES: &[Column] = &[tail("TYPE"), right("WATCHES"), right("SHARE")];
impl Tab {
    pub(super) const ALL: [Self; 6] =
        [Self::Requests, Self::Plugins, Self::Controllers, Self::Types, Self::Watches, Self::Regions];

    /// The position among the tabs.
    pub(super) fn position(self) -> usize {
        Self::ALL.iter().position(|tab| *tab == self).unwrap_or(0)
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Requests => "Requests",
            Self::Plugins => "Plugins",
            Self::Controllers => "Controllers",
            Self::Types => "Types",
            Self::Watches => "Watches",
            Self::Regions => "Regions",
        }
    }

    /// The columns.
    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Self::Requests => REQUESTS,
            Self::Plugins => PLUGINS,
            Self::Controllers => CONTROLLERS,
            Self::Types => TYPES,
            Self::Watches => WATCHES,
            Self::Regions => regions::COLUMNS,
        }
    }

    /// The order before a key changes it: the busiest first.
    pub(super) fn order(self) -> Order {
        let (column, descending) = match self {
            Self::Requests => (2, true),
            Self::Plugins => (4, true),
            Self::Controllers => (3, true),
            Self::Types | Self::Watches => (1, true),
            Self::Regions => (0, false),
        };
        Order { column, descending }
    }

    /// The rows.
    pub(super) fn sheet(self, span: &Span<'_>) -> Sheet {
        match self {
            Self::Requests => requests(span),
            Self::Plugins => plugins(span),
            Self::Controllers => controllers(span),
            Self::Types => types(span),
            Self::Watches => watches(span),
            Self::Regions => regions::sheet(span),
        }
    }
}

fn requests(span: &Span<'_>) -> Sheet {
    let mut sheet = Sheet::new(REQUESTS);
    let (now, before) = (&span.now.status, &span.before.status);
    let bounds = bounds(now);
    for (port, now, before) in
        [("gRPC", &now.requests, &before.requests), ("HTTP", &now.http_requests, &before.http_requests)]
    {
        let was: BTreeMap<&str, &Requests> = before.iter().map(|entry| (entry.method.as_str(), entry)).collect();
        sheet.extend(now.iter().map(|entry| {
            let was = was.get(entry.method.as_str()).copied();
            request_row(port, entry, was, span, &bounds)
        }));
    }
    if sheet.rows.is_empty() {
        sheet.note = "no requests yet".to_owned();
    }
    sheet
}

fn request_row(port: &str, now: &Requests, was: Option<&Requests>, span: &Span<'_>, bounds: &[Duration]) -> Vec<Field> {
    // Times of the last interval, or of all answers, dimmed, if it had none.
    let recent = Times::between(now, was);
    let tone = if recent.is_some() { Tone::Plain } else { Tone::Dim };
    let times = recent.unwrap_or_else(|| Times::all(now));
    let quantile = |share| time(times.quantile(share, bounds)).toned(tone);
    let failed = |entry: Option<&Requests>| {
        let codes = entry.map(|entry| entry.codes.as_slice()).unwrap_or_default();
        codes.iter().filter(|code| is_fault(&code.code)).map(|code| code.count).fold(0, u64::saturating_add)
    };
    let errors = span.rate(failed(Some(now)), failed(was));
    let codes: Vec<_> = now.codes.iter().map(|code| format!("{} {}", code.code, code.count)).collect();
    vec![
        Field::text(port),
        Field::text(&now.method),
        Field::rate(span.rate(now.count, was.map_or(0, |was| was.count))),
        quantile(0.5),
        quantile(0.99),
        Field::rate(errors).toned(if errors > 0.0 { Tone::Bad } else { Tone::Plain }),
        Field::count(now.count),
        Field::text(codes.join(", ")),
    ]
}

/// Whether a code is one of a failure: all but OK, and those below 400 of HTTP.
fn is_fault(code: &str) -> bool {
    match code.parse::<u16>() {
        Ok(number) => number >= 400,
        Err(_) => code != "OK",
    }
}

/// A time of a quantile, as a field.
fn time(quantile: Option<Result<Duration, Duration>>) -> Field {
    match quantile {
        Some(Ok(time)) => Field::number(time.as_secs_f64(), short(time)),
        Some(Err(bound)) => Field::number(f64::MAX, format!(">{}", short(bound))),
        None => Field::number(-1.0, "-".to_owned()),
    }
}

/// A time in at most five letters up to an hour.
pub(super) fn short(time: Duration) -> String {
    let micros = time.as_micros() as f64;
    match micros {
        _ if micros < 1_000.0 => format!("{micros:.0}µs"),
        _ if micros < 10_000.0 => format!("{:.1}ms", micros / 1e3),
        _ if micros < 1_000_000.0 => format!("{:.0}ms", micros / 1e3),
        _ if micros < 10_000_000.0 => format!("{:.1}s", micros / 1e6),
        _ => format!("{:.0}s", micros / 1e6),
    }
}

fn plugins(span: &Span<'_>) -> Sheet {
    let mut sheet = Sheet::new(PLUGINS);
    let before = span.before.status.plugins.iter();
    let was: BTreeMap<&str, &PluginState> = before.map(|plugin| (plugin.name.as_str(), plugin)).collect();
    let nothing = PluginState::default();
    sheet.extend(span.now.status.plugins.iter().map(|plugin| {
        let was = was.get(plugin.name.as_str()).copied().unwrap_or(&nothing);
        let (time, time_was) = (std_duration(plugin.time.as_ref()), std_duration(was.time.as_ref()));
        let spent = time.checked_sub(time_was).unwrap_or(time);
        let calls = since(plugin.calls, was.calls);
        let each = (calls > 0).then(|| Ok(spent.div_f64(calls as f64)));
        let busy = spent.as_secs_f64() / span.seconds() * 100.0;
        let faults = span.rate(plugin.faults, was.faults);
        let stage = match plugin.stage.as_str() {
            "Serving" => Tone::Good,
            "Disabled" | "Removed" => Tone::Dim,
            "Waiting" | "Compiling" | "Checking" | "Swapping" => Tone::Warn,
            _ => Tone::Bad,
        };
        let health = match plugin.health.as_str() {
            health if health.contains("Quarantine") => Tone::Bad,
            health if health.contains("Probation") => Tone::Warn,
            _ => Tone::Plain,
        };
        vec![
            Field::text(&plugin.name),
            Field::text(&plugin.version),
            Field::text(&plugin.stage).toned(stage),
            Field::text(&plugin.health).toned(health),
            Field::rate(span.rate(plugin.calls, was.calls)),
            self::time(each),
            Field::number(busy, format!("{busy:.1}%")),
            Field::rate(faults).toned(if faults > 0.0 { Tone::Bad } else { Tone::Plain }),
            Field::text(&plugin.message),
        ]
    }));
    if sheet.rows.is_empty() {
        sheet.note = "the server has no plugins; `mortise plugin install FILE.wasm` adds one".to_owned();
    }
    sheet
}

fn controllers(span: &Span<'_>) -> Sheet {
    let mut sheet = Sheet::new(CONTROLLERS);
    let before = span.before.status.controllers.iter();
    let was: BTreeMap<&str, (u64, u64)> =
        before.map(|controller| (controller.name.as_str(), (controller.reconciles, controller.errors))).collect();
    sheet.extend(span.now.status.controllers.iter().map(|controller| {
        let (reconciles, errors) = was.get(controller.name.as_str()).copied().unwrap_or_default();
        let state = match controller.state.as_str() {
            "Running" => Tone::Good,
            "Paused" | "BackingOff" => Tone::Bad,
            _ => Tone::Warn,
        };
        let failing = span.rate(controller.errors, errors);
        vec![
            Field::text(&controller.name),
            Field::text(&controller.state).toned(state),
            Field::count(controller.queued),
            Field::rate(span.rate(controller.reconciles, reconciles)),
            Field::rate(failing).toned(if failing > 0.0 { Tone::Bad } else { Tone::Plain }),
            Field::count(controller.reconciles),
            Field::count(controller.errors),
        ]
    }));
    if sheet.rows.is_empty() {
        sheet.note = "the server has no controllers".to_owned();
    }
    sheet
}

/// Counts by type.
fn by_type(counts: &[TypeCount]) -> BTreeMap<(&str, &str), u64> {
    counts.iter().map(|entry| ((entry.group.as_str(), entry.kind.as_str()), entry.count)).collect()
}

fn types(span: &Span<'_>) -> Sheet {
    let mut sheet = Sheet::new(TYPES);
    let (now, before) = (&span.now.status, &span.before.status);
    let resources = now.store.as_ref().map(|store| store.resources.as_slice()).unwrap_or_default();
    let was = by_type(before.store.as_ref().map(|store| store.resources.as_slice()).unwrap_or_default());
    let watches = by_type(&now.watches_by_type);
    sheet.extend(resources.iter().map(|entry| {
        let key = (entry.group.as_str(), entry.kind.as_str());
        let growth = (entry.count as f64 - was.get(&key).copied().unwrap_or(0) as f64) / span.seconds();
        vec![
            Field::text(format!("{}.{}", entry.group, entry.kind)),
            Field::count(entry.count),
            Field::number(growth, format!("{growth:+.1}")),
            Field::count(watches.get(&key).copied().unwrap_or(0)),
        ]
    }));
    if sheet.rows.is_empty() {
        sheet.note = "the server stores no resources yet".to_owned();
    }
    sheet
}

fn watches(span: &Span<'_>) -> Sheet {
    let mut sheet = Sheet::new(WATCHES);
    let status = &span.now.status;
    let all = status.watches_by_type.iter().map(|entry| entry.count).fold(0, u64::saturating_add);
    sheet.extend(status.watches_by_type.iter().map(|entry| {
        let share = entry.count as f64 / all.max(1) as f64 * 100.0;
        vec![
            Field::text(format!("{}.{}", entry.group, entry.kind)),
            Field::count(entry.count),
            Field::number(share, format!("{share:.0}%")),
        ]
    }));
    if sheet.rows.is_empty() {
        sheet.note = match status.watches {
            0 => "no client watches now".to_owned(),
            open => format!("{open} watches are open; the server does not count them by type"),
        };
    }
    sheet
}
