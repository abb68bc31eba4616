//! The drawing of a page. It looks only at the rows that the frame has room for.

use std::time::{Duration, UNIX_EPOCH};

use ratatui::{
    Frame,
    style::Modifier,
    text::{Line, Span},
};
use unicode_width::UnicodeWidthStr as _;

use super::{
    frame::{BOLD, Lines, cut_beginning, render, style},
    grid::{Row, Section},
    page::Page,
};
use crate::{
    Cell,
    output::{
        layout::fit,
        table::{GAP, cut, left_out},
        ui::Style as Tone,
    },
    resources::show::ago,
};

/// A line of the body of a page.
enum Entry<'s> {
    Heading(&'s Section),
    Row(&'s Section, &'s Row, bool),
    /// A table without rows.
    Nothing(&'s Section),
    Blank,
}

/// Draws the page.
pub(super) fn draw(frame: &mut Frame<'_>, page: &mut Page) {
    let area = frame.area();
    let width = usize::from(area.width);
    let mut rest = Lines { area };
    let footer = if area.height >= 3 { rest.bottom(1) } else { None };
    if area.height >= 4
        && let Some(area) = rest.top(1)
    {
        render(frame, title(page, width), area);
    }
    let notes = notes(page, width);
    if area.height >= 8
        && !notes.is_empty()
        && let Some(area) = rest.bottom(1)
    {
        render(frame, Line::styled(cut(&notes, width), style(Tone::Dim, page.color)), area);
    }
    let place = body(frame, page, &mut rest, width);
    if let Some(area) = footer {
        render(frame, foot(page, width, &place), area);
    }
}

/// The line at the top: the command, and the state of the connection.
fn title(page: &Page, width: usize) -> Line<'static> {
    let fault = page.sections.iter().map(|section| section.fault.as_str()).find(|fault| !fault.is_empty());
    let (state, tone) = match fault {
        Some(fault) => (fault.to_owned(), Tone::Bad),
        None if page.sections.iter().any(|section| !section.is_complete) => ("loading".to_owned(), Tone::Warn),
        None => (String::new(), Tone::Plain),
    };
    // A fault takes at most two thirds of the line.
    let room = if state.is_empty() { 0 } else { (width * 2 / 3).min(state.width() + GAP) };
    let about = cut(&page.title, width.saturating_sub(room));
    let state = cut(&state, room.saturating_sub(GAP));
    let gap = if state.is_empty() { String::new() } else { " ".repeat(GAP) };
    Line::from(vec![Span::styled(about, BOLD), Span::raw(gap), Span::styled(state, style(tone, page.color))])
}

/// The columns and rows that are left out.
fn notes(page: &Page, width: usize) -> String {
    let mut notes = Vec::new();
    for section in &page.sections {
        notes.extend(left_out(&section.headings, section.widths(), &layout(section, width)));
        match section.further() {
            (0, _) => {}
            (count, is_more) => {
                let more = if is_more { "or more " } else { "" };
                notes.push(format!("{count} {more}{} left out", section.things));
            }
        }
    }
    notes.dedup();
    notes.join("; ")
}

fn layout(section: &Section, width: usize) -> Vec<Option<usize>> {
    fit(section.widths(), section.name, GAP, width)
}

/// Place of the shown rows among all of them.
struct Place {
    first: usize,
    last: usize,
    count: usize,
}

/// Draws the rows that have room, below the headings of the table that the first one is of.
fn body(frame: &mut Frame<'_>, page: &mut Page, rest: &mut Lines, width: usize) -> Place {
    let mut entries = Vec::new();
    for section in &page.sections {
        if !entries.is_empty() {
            entries.extend([Entry::Blank, Entry::Heading(section)]);
        }
        let before = entries.len();
        entries.extend(section.matching(&page.filter).map(|(row, is_new)| Entry::Row(section, row, is_new)));
        if entries.len() == before {
            entries.push(Entry::Nothing(section));
        }
    }
    let headings = if rest.area.height >= 2 { rest.top(1) } else { None };
    let whole = usize::from(rest.area.height);
    // A last line says how many rows are below.
    let room = if entries.len() > whole && whole >= 3 { whole - 1 } else { whole };
    page.room = room;
    page.offset = page.offset.min(entries.len().saturating_sub(room.max(1)));
    let is_row = |entry: &&Entry<'_>| matches!(entry, Entry::Row(..));
    let rows = |entries: &[Entry<'_>]| entries.iter().filter(is_row).count();
    let (above, from_here) = entries.split_at(page.offset.min(entries.len()));
    let (visible, below) = from_here.split_at(room.min(from_here.len()));
    let place = Place { first: rows(above) + 1, last: rows(above) + rows(visible), count: rows(&entries) };
    let mut visible = visible;
    // The headings at the top are those of the first row.
    match visible {
        [Entry::Blank, Entry::Heading(_), others @ ..] | [Entry::Heading(_), others @ ..] => visible = others,
        _ => {}
    }
    let section = visible.first().or(from_here.first()).and_then(section_of);
    if let (Some(area), Some(section)) = (headings, section) {
        render(frame, heading(section, width), area);
    }
    for entry in visible {
        let Some(area) = rest.top(1) else { break };
        let line = match entry {
            Entry::Blank => continue,
            Entry::Heading(section) => heading(section, width),
            Entry::Nothing(section) => nothing(section, page, width),
            Entry::Row(section, row, is_new) => line(section, row, *is_new, page.color, width),
        };
        render(frame, line, area);
    }
    let below = rows(below);
    if below > 0
        && let Some(area) = rest.bottom(1)
    {
        render(frame, Line::styled(cut(&format!("… {below} more"), width), style(Tone::Dim, page.color)), area);
    }
    place
}

fn section_of<'s>(entry: &Entry<'s>) -> Option<&'s Section> {
    match entry {
        Entry::Heading(section) | Entry::Row(section, ..) | Entry::Nothing(section) => Some(section),
        Entry::Blank => None,
    }
}

fn nothing(section: &Section, page: &Page, width: usize) -> Line<'static> {
    let text = match (section.is_complete, page.filter.is_empty()) {
        (false, _) => String::new(),
        (true, true) => format!("no {}", section.things),
        (true, false) => format!("no {} with this text", section.things),
    };
    Line::styled(cut(&text, width), style(Tone::Dim, page.color))
}

fn heading(section: &Section, width: usize) -> Line<'static> {
    let widths = layout(section, width);
    let cells = section.headings.iter().zip(widths).filter_map(|(heading, width)| Some((heading, width?)));
    Line::from(cells.map(|(heading, width)| Span::styled(padded(heading, width), BOLD)).collect::<Vec<_>>())
}

fn line(section: &Section, row: &Row, is_new: bool, color: bool, width: usize) -> Line<'static> {
    let age = row.age.map(|(at, since)| (at, ago(UNIX_EPOCH + Duration::from_millis(since))));
    let text = |at: usize, cell: &Cell| match &age {
        Some((position, age)) if *position == at => age.clone(),
        _ => cell.text().to_owned(),
    };
    let widths = layout(section, width);
    let cells = row.cells.iter().enumerate().zip(widths).filter_map(|((at, cell), width)| Some((at, cell, width?)));
    let spans = cells.map(|(at, cell, width)| {
        let plain = style(cell.style(), color);
        let shown = if is_new && at == section.name { plain.add_modifier(Modifier::REVERSED) } else { plain };
        let text = cut(&text(at, cell), width);
        let blanks = " ".repeat(width.saturating_sub(text.width()) + GAP);
        [Span::styled(text, shown), Span::raw(blanks)]
    });
    Line::from(spans.flatten().collect::<Vec<_>>())
}

/// A text in the width of its column, and the gap behind it.
fn padded(text: &str, width: usize) -> String {
    let text = cut(text, width);
    let blanks = " ".repeat(width.saturating_sub(text.width()) + GAP);
    format!("{text}{blanks}")
}

/// The last line: the filter or the keys, and the place of the shown rows.
fn foot(page: &Page, width: usize, Place { first, last, count }: &Place) -> Line<'static> {
    let place = if last < first { format!("0 of {count}") } else { format!("{first}-{last} of {count}") };
    let room = width.saturating_sub(place.width() + GAP);
    let (text, tone) = match (page.is_typing, page.filter.as_str()) {
        (true, filter) => (cut_beginning(&format!("filter: {filter}_"), room), Tone::Warn),
        (false, "") => (cut("q quit  / filter  arrows scroll", room), Tone::Dim),
        (false, filter) => (cut(&format!("filter: {filter}  (Esc clears)"), room), Tone::Warn),
    };
    let blanks = " ".repeat(width.saturating_sub(text.width() + place.width()));
    Line::from(vec![Span::styled(text, style(tone, page.color)), Span::raw(blanks), Span::raw(cut(&place, width))])
}
