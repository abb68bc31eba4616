//! The terminal: colours, width, questions, and output that its reader may close.

use std::io::{self, IsTerminal as _, Write as _};

use clap::ValueEnum;

use crate::{env, error::CliError};

/// When output is coloured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// Prints colours on a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How output is shown.
#[derive(Debug, Clone, Copy)]
pub struct Ui {
    /// Whether standard output is coloured.
    pub color: bool,
    /// Whether standard error is coloured.
    pub color_err: bool,
    /// How wide standard output is, columns; `None` when it is no terminal, and nothing is cut.
    pub width: Option<usize>,
}

/// What a text is to say by its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As it is.
    Plain,
    /// Headings and names.
    Bold,
    /// Of less interest.
    Dim,
    /// As it should be; added.
    Good,
    /// Not known, or to be looked at.
    Warn,
    /// Not as it should be; taken away.
    Bad,
}

impl Ui {
    /// By the wish of the caller, NO_COLOR, and whether there is a terminal.
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

    /// A text for standard output, coloured if that is.
    #[must_use]
    pub fn paint(&self, style: Style, text: &str) -> String {
        if self.color { painted(style, text) } else { text.to_owned() }
    }

    /// A line on standard error, for people.
    pub fn note(&self, text: &str) {
        // With standard error closed the message has no reader.
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// A warning on standard error.
    pub fn warn(&self, text: &str) {
        let head = if self.color_err { painted(Style::Warn, "warning:") } else { "warning:".to_owned() };
        self.note(&format!("{head} {text}"));
    }
}

fn painted(style: Style, text: &str) -> String {
    let code = match style {
        Style::Plain => return text.to_owned(),
        Style::Bold => "1",
        Style::Dim => "2",
        Style::Good => "32",
        Style::Warn => "33",
        Style::Bad => "31",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Writes to standard output, all of it, now.
///
/// # Errors
/// [`Exit::Closed`](crate::Exit::Closed) when its reader closed it.
pub fn print(text: impl AsRef<str>) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_ref().as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes a line to standard output, now.
///
/// # Errors
/// As [`print()`].
pub fn line(text: impl AsRef<str>) -> Result<(), CliError> {
    print(format!("{}\n", text.as_ref()))
}

/// Asks a question on the terminal, to be answered by y or yes; anything else, the end of the input included, is no.
///
/// # Errors
/// [`Exit::Usage`](crate::Exit::Usage) when there is no terminal to ask on; `instead` says what to give then, such as
/// `--yes`.
pub fn confirm(question: &str, instead: &str) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(
            CliError::usage(format!("{question} There is no terminal to ask on")).remedy(format!("give {instead}"))
        );
    }
    let mut err = io::stderr().lock();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
