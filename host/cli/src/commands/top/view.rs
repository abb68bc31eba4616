//! The drawing of a frame. It looks only at the rows that the frame has room for.

use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Style},
    text::{Line, Span},
    widgets::Sparkline,
};
use unicode_width::UnicodeWidthStr as _;

use super::{
    app::{App, Mode},
    keys::HELP,
    sample::Series,
    sheet::{Align, Column, Field},
    tabs::Tab,
};
use crate::{
    commands::server_status::std_duration,
    live::frame::{BOLD, Lines, REVERSED, cut_beginning, render, style},
    output::{
        table::{cut, one_line},
        ui::Style as Tone,
    },
};

/// Blanks between columns.
const GAP: usize = 2;

/// Least width to which a column of texts is cut before names lose their beginnings, and that of all columns.
const NARROW: usize = 8;
const NARROWEST: usize = 6;

/// Least heights of a frame with all lines of figures, and with sparklines.
const FIGURES_HEIGHT: u16 = 14;
const SPARKLINES_HEIGHT: u16 = 20;

/// Draws the page.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    let mut rest = Lines { area };
    let footer = if area.height >= 4 { rest.bottom(1) } else { None };
    head(frame, app, &mut rest, area.height);
    if let Some(area) = rest.top(1) {
        render(frame, tabs(app, usize::from(area.width)), area);
    }
    if app.mode == Mode::Help {
        help(frame, app, &mut rest);
    } else {
        table(frame, app, &mut rest);
    }
    if let Some(area) = footer {
        render(frame, foot(app, usize::from(area.width)), area);
    }
}

/// The server, its figures and its history, as far as there is room.
fn head(frame: &mut Frame<'_>, app: &App, rest: &mut Lines, height: u16) {
    if height >= 3
        && let Some(area) = rest.top(1)
    {
        render(frame, server(app, usize::from(area.width)), area);
    }
    let status = &app.sample().status;
    if height >= FIGURES_HEIGHT {
        let process = status.process.unwrap_or_default();
        let store = status.store.clone().unwrap_or_default();
        let lines = [
            format!(
                "{:.0}% cpu, {} memory, {} threads, {} open files, {} on disk",
                app.figures.cpu,
                indicatif::HumanBytes(app.figures.memory),
                process.threads,
                process.open_files,
                indicatif::HumanBytes(store.bytes_on_disk)
            ),
            format!(
                "{:.1} requests/s, {:.1} changes/s, version {}, watches {} of {}",
                app.figures.requests, app.figures.changes, store.commit, status.watches, status.max_watches
            ),
        ];
        for line in lines {
            if let Some(area) = rest.top(1) {
                render(frame, Line::from(cut(&line, usize::from(area.width))), area);
            }
        }
        if let Some((first, others)) = status.warnings.split_first()
            && let Some(area) = rest.top(1)
        {
            let more = if others.is_empty() { String::new() } else { format!(" (and {} more)", others.len()) };
            let room = usize::from(area.width).saturating_sub(more.width());
            let text = format!("{}{more}", cut(&one_line(&format!("warning: {first}")), room));
            render(frame, Line::styled(text, style(Tone::Warn, app.color)), area);
        }
    }
    if height >= SPARKLINES_HEIGHT {
        sparklines(frame, app, rest);
    }
}

/// The line of the server: its release, its state, and its address.
fn server(app: &App, width: usize) -> Line<'static> {
    let status = &app.sample().status;
    let (state, tone) = match (app.fault.is_empty(), app.is_paused) {
        (false, _) => (format!("no answer, trying again: {}", app.fault), Tone::Bad),
        (true, true) => ("paused".to_owned(), Tone::Warn),
        (true, false) => (String::new(), Tone::Plain),
    };
    let uptime = indicatif::HumanDuration(std_duration(status.uptime.as_ref()));
    let about = one_line(&format!("mortise {} ({}) at {}, up {uptime}", status.version, status.mode, app.url));
    // A fault takes at most two thirds of the line.
    let room = if state.is_empty() { 0 } else { (width * 2 / 3).min(state.width() + GAP) };
    let about = cut(&about, width.saturating_sub(room));
    let state = cut(&state, room.saturating_sub(GAP));
    Line::from(vec![
        Span::styled(about, BOLD),
        Span::raw(if state.is_empty() { "" } else { "  " }),
        Span::styled(state, style(tone, app.color)),
    ])
}

/// The histories beside each other, each below its name.
fn sparklines(frame: &mut Frame<'_>, app: &App, rest: &mut Lines) {
    let Some(area) = rest.top(3) else { return };
    let memory = indicatif::HumanBytes(app.figures.memory);
    let all: [(String, &Series, Color); 3] = [
        (format!("requests/s {:.1}", app.figures.requests), &app.history.requests, Color::Cyan),
        (format!("cpu {:.0}%", app.figures.cpu), &app.history.cpu, Color::Green),
        (format!("memory {memory}"), &app.history.memory, Color::Magenta),
    ];
    let each = area.width / 3;
    for (place, (name, series, color)) in (0u16..).zip(all) {
        let width = each.saturating_sub(1);
        let x = area.x.saturating_add(place.saturating_mul(each));
        let name_area = Rect { x, width, height: 1, ..area };
        let bars = Rect { x, y: area.y.saturating_add(1), width, height: area.height.saturating_sub(1) };
        render(frame, Line::from(cut(&name, usize::from(width))), name_area);
        let style = if app.color { Style::new().fg(color) } else { Style::new() };
        let data = series.last(usize::from(width));
        frame.render_widget(Sparkline::default().data(data).style(style), bars);
    }
}

/// The line of the tabs. Where not all of them have room, the shown one stands alone.
fn tabs(app: &App, width: usize) -> Line<'static> {
    let names: Vec<_> = (1..).zip(Tab::ALL).map(|(number, tab)| (tab, format!(" {number} {} ", tab.title()))).collect();
    let whole: usize = names.iter().map(|(_, name)| name.width()).sum();
    let is_narrow = whole > width;
    let mut spans = Vec::new();
    for (tab, name) in names {
        match (tab == app.tab, is_narrow) {
            (true, _) => spans.push(Span::styled(cut(&name, width), REVERSED)),
            (false, true) => {}
            (false, false) => spans.push(Span::raw(name)),
        }
    }
    Line::from(spans)
}

/// The headings and the rows.
fn table(frame: &mut Frame<'_>, app: &mut App, rest: &mut Lines) {
    let headings = if rest.area.height >= 2 { rest.top(1) } else { None };
    let note = if app.sheet.note.is_empty() { None } else { rest.bottom(1) };
    app.room = usize::from(rest.area.height);
    app.clamp();
    let columns = app.sheet.columns;
    let order = app.order();
    let visible: Vec<&Vec<Field>> = app
        .positions
        .iter()
        .skip(app.offset)
        .take(app.room)
        .filter_map(|position| app.sheet.rows.get(*position))
        .collect();
    let names: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| match (at == order.column, order.descending) {
            (true, true) => format!("{}▼", column.heading),
            (true, false) => format!("{}▲", column.heading),
            (false, _) => column.heading.to_owned(),
        })
        .collect();
    let widths = widths(columns, &visible, usize::from(rest.area.width));
    if let Some(area) = headings {
        let cells = names.iter().zip(columns).zip(&widths);
        let spans = cells.map(|((name, column), width)| Span::styled(padded(name, *column, *width), BOLD));
        render(frame, Line::from(spans.collect::<Vec<_>>()), area);
    }
    for row in visible {
        let Some(area) = rest.top(1) else { break };
        let cells = row.iter().zip(columns).zip(&widths);
        let spans = cells.map(|((field, column), width)| {
            Span::styled(padded(&field.text, *column, *width), style(field.tone, app.color))
        });
        render(frame, Line::from(spans.collect::<Vec<_>>()), area);
    }
    if let Some(area) = note {
        let text = cut(&app.sheet.note, usize::from(area.width));
        render(frame, Line::styled(text, style(Tone::Dim, app.color)), area);
    }
}

/// The widths of the columns: as wide as their texts and the sign of the order, the widest cut until all have room,
/// texts before names.
fn widths(columns: &[Column], rows: &[&Vec<Field>], available: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(|column| column.heading.width().saturating_add(1)).collect();
    for row in rows {
        for (width, field) in widths.iter_mut().zip(*row) {
            // A text wider than the frame is cut in any case.
            *width = (*width).max(field.text.width().min(available));
        }
    }
    let gaps = GAP * widths.len().saturating_sub(1);
    let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(available);
    while over > 0 {
        let texts = widths.iter_mut().zip(columns).filter(|(_, column)| column.align == Align::Left);
        let widest_text = texts.map(|(width, _)| width).max().filter(|widest| **widest > NARROW);
        let Some(widest) = (match widest_text {
            Some(widest) => Some(widest),
            None => widths.iter_mut().max().filter(|widest| **widest > NARROWEST),
        }) else {
            break;
        };
        *widest -= 1;
        over -= 1;
    }
    widths
}

/// A text in the width of its column, and the gap behind it.
fn padded(text: &str, column: Column, width: usize) -> String {
    let text = if column.align == Align::Tail { cut_beginning(text, width) } else { cut(text, width) };
    let blanks = " ".repeat(width.saturating_sub(text.width()));
    let gap = " ".repeat(GAP);
    match column.align {
        Align::Right => format!("{blanks}{text}{gap}"),
        Align::Left | Align::Tail => format!("{text}{blanks}{gap}"),
    }
}

/// The last line: the filter, the keys, and the place of the shown rows.
fn foot(app: &App, width: usize) -> Line<'static> {
    let count = app.positions.len();
    let last = app.offset.saturating_add(app.room).min(count);
    let place = if count == 0 { "no rows".to_owned() } else { format!("{}-{last} of {count}", app.offset + 1) };
    let room = width.saturating_sub(place.width() + GAP);
    let (text, tone) = match (app.mode, app.filter()) {
        (Mode::Filter, filter) => (cut_beginning(&format!("filter: {filter}_"), room), Tone::Warn),
        (_, "") => {
            let keys = "q quit  Tab tabs  s sort  / filter  p pause  ? help";
            (cut(keys, room), Tone::Dim)
        }
        (_, filter) => (cut(&format!("filter: {filter}  (Esc clears)"), room), Tone::Warn),
    };
    let blanks = " ".repeat(width.saturating_sub(text.width() + place.width()));
    Line::from(vec![Span::styled(text, style(tone, app.color)), Span::raw(blanks), Span::raw(cut(&place, width))])
}

fn help(frame: &mut Frame<'_>, app: &App, rest: &mut Lines) {
    let keys = HELP.iter().map(|(key, _)| key.width()).max().unwrap_or(0);
    for (key, effect) in HELP {
        let Some(area) = rest.top(1) else { break };
        let blanks = " ".repeat(keys.saturating_sub(key.width()) + GAP);
        let key = Span::styled((*key).to_owned(), if app.color { BOLD.fg(Color::Cyan) } else { BOLD });
        render(frame, Line::from(vec![Span::raw(" "), key, Span::raw(blanks), Span::raw(*effect)]), area);
    }
}
