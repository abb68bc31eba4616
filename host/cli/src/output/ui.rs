//! The terminal: colours, width, questions, and output that its reader may close.

use std::{
    borrow::Cow,
    io::{self, IsTerminal as _, Write as _},
};

use clap::ValueEnum;
use mortise_resource::Diagnostic;

use crate::{env, error::CliError};

/// Use of colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// Prints colours on a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always prints colours.
    Always,
    /// Prints without colours.
    Never,
}

/// Settings of output.
#[derive(Debug, Clone, Copy)]
pub struct Ui {
    /// Whether standard output is coloured.
    pub color: bool,
    /// Whether standard error is coloured.
    pub color_err: bool,
    /// Width of standard output in columns; `None` off a terminal, where nothing is cut.
    pub width: Option<usize>,
}

/// Meaning of a text, shown by its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Plain text.
    Plain,
    /// Headings.
    Bold,
    /// Names of resources, and keys of YAML and JSON.
    Name,
    /// Text of less interest.
    Dim,
    /// Good state, or an addition.
    Good,
    /// Unknown state, or one that needs a look.
    Warn,
    /// Bad state, or a removal.
    Bad,
}

impl Ui {
    /// Decides by the caller's wish, NO_COLOR, and whether there is a terminal.
    #[must_use]
    pub fn new(color: Color) -> Self {
        let allowed = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                terminal && env::process("NO_COLOR").is_none() && env::process("TERM").is_none_or(|term| term != "dumb")
            }
        };
        let width = io::stdout()
            .is_terminal()
            .then(|| rustix::termios::tcgetwinsize(io::stdout()).ok())
            .flatten()
            .map(|size| usize::from(size.ws_col))
            .filter(|columns| *columns > 0);
        Self { color: allowed(io::stdout().is_terminal()), color_err: allowed(io::stderr().is_terminal()), width }
    }

    /// Returns a text of a user as it is for files and pipes; for a terminal, with controls as their numbers, except line
    /// breaks and tabs.
    pub(crate) fn users_text(&self, text: String) -> String {
        match self.width {
            Some(_) => numbered(&text, |letter| letter.is_control() && !matches!(letter, '\n' | '\t')).into_owned(),
            None => text,
        }
    }

    /// Colours a text, if standard output is coloured.
    #[must_use]
    pub fn paint(&self, style: Style, text: &str) -> String {
        if self.color { painted(style, text) } else { text.to_owned() }
    }

    /// Prints a line on standard error, for people.
    pub fn note(&self, text: &str) {
        let text = if io::stderr().is_terminal() { visible(text) } else { Cow::Borrowed(text) };
        // With standard error closed the message has no reader.
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Prints a warning on standard error.
    pub fn warn(&self, text: &str) {
        let head = if self.color_err { painted(Style::Warn, "warning:") } else { "warning:".to_owned() };
        self.note(&format!("{head} {text}"));
    }
}

/// Prints the server's warnings about a resource on standard error.
pub(crate) fn warn(title: &str, warnings: &[Diagnostic], ui: &Ui) {
    for Diagnostic { path, summary, .. } in warnings {
        let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
        ui.warn(&format!("{title}: {path}{summary}"));
    }
}

fn painted(style: Style, text: &str) -> String {
    let code = match style {
        Style::Plain => return text.to_owned(),
        Style::Bold => "1",
        Style::Name => "36",
        Style::Dim => "2",
        Style::Good => "32",
        Style::Warn => "33",
        Style::Bad => "31",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Writes characters that change a terminal or the direction of a text as their numbers; colours of this program stay.
fn visible(text: &str) -> Cow<'_, str> {
    numbered(text, |letter| changes_direction(letter) || matches!(letter, '\u{80}'..='\u{9f}'))
}

/// Writes some letters as their numbers.
fn numbered(text: &str, is_hidden: impl Fn(char) -> bool + Copy) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().map(|letter| match is_hidden(letter) {
        true => format!("<U+{:04X}>", u32::from(letter)),
        false => letter.to_string(),
    });
    Cow::Owned(shown.collect())
}

/// Returns true for a character that ends a line or changes the direction of letters.
pub(crate) fn changes_direction(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes all of a text to standard output, and flushes it. On a terminal, characters that change the direction of a text
/// or are controls beyond ASCII are written as their numbers.
///
/// # Errors
/// [`Exit::Closed`](crate::Exit::Closed) when the reader closed the output.
pub fn print(text: impl AsRef<str>) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    let text = text.as_ref();
    let text = if out.is_terminal() { visible(text) } else { Cow::Borrowed(text) };
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes a line to standard output, and flushes it.
///
/// # Errors
/// Those of [`print()`].
pub fn line(text: impl AsRef<str>) -> Result<(), CliError> {
    print(format!("{}\n", text.as_ref()))
}

/// Asks a question on the terminal. Only the answers y and yes agree; the end of the input does not.
///
/// # Errors
/// [`Exit::Usage`](crate::Exit::Usage) without a terminal; `instead` is the option to give then, such as `--yes`.
pub fn confirm(question: &str, instead: &str) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(
            CliError::usage(format!("{question} Cannot ask without a terminal")).remedy(format!("give {instead}"))
        );
    }
    let mut err = io::stderr().lock();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
