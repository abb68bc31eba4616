//! `mortise plugin logs`.

use clap::{Args, ValueEnum};
use mortise_resource::data::{LogLine, LogsRequest};

use crate::{CliError, Connect, Exit, Style, Ui, output::ui};

pub(super) const EXAMPLES: &str = "mortise plugin logs demo\nmortise plugin logs demo -f --last 0 --level warn";

/// Arguments of `plugin logs`.
#[derive(Debug, Args)]
pub struct Logs {
    /// The plugin
    #[arg(value_name = "NAME")]
    name: String,
    /// Continues with new lines, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Number of past lines to show first
    #[arg(long, value_name = "LINES", default_value_t = 100)]
    last: u32,
    /// The least severe level to show [default: all that the server keeps]
    #[arg(long, value_name = "LEVEL")]
    level: Option<Level>,
    #[command(flatten)]
    connect: Connect,
}

/// Severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Level {
    Error = 1,
    Warn = 2,
    Info = 3,
    Debug = 4,
    Trace = 5,
}

impl Logs {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let request = LogsRequest {
            name: self.name.clone(),
            last: self.last,
            follow: self.follow,
            level: self.level.map_or(0, |level| level as u32),
        };
        let thing = format!("plugin {}", self.name);
        let mut lines = session.call(&thing, session.plugins().logs(request)).await?;
        let ui = self.connect.ui();
        // No timeout: the next line may never come.
        while let Some(line) = lines.message().await.map_err(|status| CliError::rpc(&thing, &status))? {
            ui::line(log_line(&line, &ui))?;
        }
        Ok(Exit::Done)
    }
}

/// Renders a line of a plugin's log.
pub(crate) fn log_line(line: &LogLine, ui: &Ui) -> String {
    let (style, level) = match line.level {
        1 => (Style::Bad, "ERROR"),
        2 => (Style::Warn, "WARN"),
        3 => (Style::Good, "INFO"),
        4 => (Style::Plain, "DEBUG"),
        _ => (Style::Dim, "TRACE"),
    };
    let time = line.at.as_ref().map(|time| time.to_string()).unwrap_or_default();
    let hook = if line.hook.is_empty() { String::new() } else { format!(" {}:", line.hook) };
    let mut text = format!("{hook} {}", line.message);
    for (key, value) in &line.fields {
        text.push_str(&format!(" {key}={value:?}"));
    }
    // A plugin's text must not control the terminal.
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{} {}{text}", ui.paint(Style::Dim, &time), ui.paint(style, &format!("{level:<5}")))
}
