//! The effect of each key.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{
    app::{App, Mode},
    tabs::Tab,
};
use crate::live::keys::{Typing, edit, steps};

/// The lines of the help.
pub(super) const HELP: &[(&str, &str)] = &[
    ("1-6, Tab, Shift-Tab", "show another tab"),
    ("s, S", "sort by the next column; reverse the order"),
    ("/", "show rows with a text; Enter keeps, Esc clears"),
    ("p, Space", "pause, and go on"),
    ("Arrows, PgUp, PgDn, Home, End", "scroll; Left, Right: another tab"),
    ("?", "show this help"),
    ("q, Esc, Ctrl-C", "quit"),
    ("", ""),
    ("P50, P99", "of the last interval; dimmed: since the start"),
    ("CODES, TOTAL, ERRORS", "counts since the start of the server"),
    ("BUSY", "time in calls, in percent of one thread"),
];

/// The effect of a key on the page as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    GoOn,
    Quit,
}

/// Applies a key.
pub(super) fn press(app: &mut App, key: KeyEvent) -> Flow {
    if key.kind == KeyEventKind::Release {
        return Flow::GoOn;
    }
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if is_control && matches!(key.code, KeyCode::Char('c' | 'C')) {
        return Flow::Quit;
    }
    match app.mode {
        Mode::Filter => type_filter(app, key.code, is_control),
        Mode::Help => app.mode = Mode::Commands,
        Mode::Commands => return command(app, key.code),
    }
    Flow::GoOn
}

fn type_filter(app: &mut App, code: KeyCode, is_control: bool) {
    let mut filter = app.filter().to_owned();
    let typed = edit(&mut filter, code, is_control);
    if filter != app.filter() {
        app.set_filter(|shown| *shown = filter);
    }
    match typed {
        Typing::GoesOn => {}
        Typing::Ended => app.mode = Mode::Commands,
        Typing::Other => scroll(app, code),
    }
}

fn command(app: &mut App, code: KeyCode) -> Flow {
    match code {
        KeyCode::Char('q') => return Flow::Quit,
        KeyCode::Esc if app.filter().is_empty() => return Flow::Quit,
        KeyCode::Esc => app.set_filter(String::clear),
        KeyCode::Char(digit @ '1'..='6') => {
            let position = digit.to_digit(10).and_then(|digit| digit.checked_sub(1)).unwrap_or(0);
            if let Some(tab) = Tab::ALL.get(position as usize) {
                app.open(*tab);
            }
        }
        KeyCode::Tab | KeyCode::Right => app.turn(1),
        KeyCode::BackTab | KeyCode::Left => app.turn(-1),
        KeyCode::Char('s') => app.sort_next(),
        KeyCode::Char('S') => app.reverse(),
        KeyCode::Char('/') => app.mode = Mode::Filter,
        KeyCode::Char('p' | ' ') => app.pause(),
        KeyCode::Char('?' | 'h') => app.mode = Mode::Help,
        _ => scroll(app, code),
    }
    Flow::GoOn
}

fn scroll(app: &mut App, code: KeyCode) {
    if let Some(rows) = steps(code, app.room) {
        app.scroll(rows);
    }
}
