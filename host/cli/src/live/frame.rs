//! Parts of a frame that pages share.

use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::Line,
};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::output::ui::Style as Tone;

/// The lines of an area that nothing uses yet.
pub(crate) struct Lines {
    pub(crate) area: Rect,
}

impl Lines {
    /// Takes lines from the top; `None` without room.
    pub(crate) fn top(&mut self, height: u16) -> Option<Rect> {
        let rest = self.area.height.checked_sub(height)?;
        let taken = Rect { height, ..self.area };
        self.area = Rect { y: self.area.y.saturating_add(height), height: rest, ..self.area };
        Some(taken)
    }

    /// Takes lines from the bottom; `None` without room.
    pub(crate) fn bottom(&mut self, height: u16) -> Option<Rect> {
        let rest = self.area.height.checked_sub(height)?;
        let taken = Rect { y: self.area.y.saturating_add(rest), height, ..self.area };
        self.area.height = rest;
        Some(taken)
    }
}

/// Draws a line.
pub(crate) fn render(frame: &mut Frame<'_>, line: Line<'_>, area: Rect) {
    frame.render_widget(line, area);
}

/// The style of a meaning. Without colours only the brightness differs.
pub(crate) fn style(tone: Tone, color: bool) -> Style {
    let paint = |paint: Color| if color { Style::new().fg(paint) } else { Style::new() };
    match tone {
        Tone::Plain => Style::new(),
        Tone::Bold => Style::new().add_modifier(Modifier::BOLD),
        Tone::Name => paint(Color::Cyan),
        Tone::Dim => Style::new().add_modifier(Modifier::DIM),
        Tone::Good => paint(Color::Green),
        Tone::Warn => paint(Color::Yellow),
        Tone::Bad => paint(Color::Red).add_modifier(Modifier::BOLD),
    }
}

pub(crate) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(crate) const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Cuts the beginning of a text, so that its end has at most a width; a cut text begins with an ellipsis.
pub(crate) fn cut_beginning(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let mut kept: Vec<char> = Vec::new();
    for letter in text.chars().rev() {
        used += letter.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(letter);
    }
    std::iter::once('…').chain(kept.into_iter().rev()).collect()
}
