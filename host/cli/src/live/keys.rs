//! Keys that all pages share.

use ratatui::crossterm::event::KeyCode;

use crate::output::table::one_line;

/// Most letters of a filter.
const MAX_FILTER: usize = 100;

/// State of the typing of a filter after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Typing {
    GoesOn,
    /// Enter kept the filter, or Esc cleared it.
    Ended,
    /// The key is not one of typing.
    Other,
}

/// Applies a key to a filter, which has at most [`MAX_FILTER`] letters without control characters.
pub(crate) fn edit(filter: &mut String, code: KeyCode, is_control: bool) -> Typing {
    match code {
        KeyCode::Enter => return Typing::Ended,
        KeyCode::Esc => {
            filter.clear();
            return Typing::Ended;
        }
        KeyCode::Backspace => {
            filter.pop();
        }
        KeyCode::Char('u') if is_control => filter.clear(),
        KeyCode::Char(letter) if !is_control => {
            filter.push(letter);
            *filter = one_line(filter).chars().take(MAX_FILTER).collect();
        }
        _ => return Typing::Other,
    }
    Typing::GoesOn
}

/// Returns the number of rows by which a key scrolls a page with room for so many; `None` for other keys.
pub(crate) fn steps(code: KeyCode, room: usize) -> Option<isize> {
    let page = isize::try_from(room.saturating_sub(1).max(1)).unwrap_or(1);
    match code {
        KeyCode::Up => Some(-1),
        KeyCode::Down => Some(1),
        KeyCode::PageUp => Some(-page),
        KeyCode::PageDown => Some(page),
        KeyCode::Home => Some(isize::MIN),
        KeyCode::End => Some(isize::MAX),
        _ => None,
    }
}
