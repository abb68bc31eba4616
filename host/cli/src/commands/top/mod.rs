//! `mortise top`: a server's activity, refreshed at intervals.
//!
//! On a terminal it is a page with tabs ([`terminal`]). With `--once`, or where standard output is a file or a pipe, it is
//! text ([`page`]).
//!
//! | file | content |
//! |---|---|
//! | `sample` | the figures of a moment, rates between two of them, and the bounded history |
//! | `tabs`, `regions`, `sheet` | the rows of each tab; sorting and filtering |
//! | `app` | the state of the page: the tab, the order, the filter, the pause |
//! | `keys` | the effect of each key |
//! | `view` | the drawing of a frame |
//! | `terminal` | the page on a terminal |
//! | `page` | the page as text |

mod app;
#[cfg(test)]
mod fixtures;
mod keys;
mod page;
mod regions;
mod sample;
mod sheet;
mod tabs;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::{io::IsTerminal as _, time::Duration};

use clap::Args;

use self::sample::Sample;
use crate::{CliError, Connect, Exit, live::screen, output::ui};

pub(super) const EXAMPLES: &str = "mortise top\nmortise top --once --interval 10s";

/// Clears the terminal and moves to its corner.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct Top {
    /// Prints once, after one interval, and ends
    #[arg(long)]
    once: bool,
    /// The time over which rates are measured
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration, default_value = "2s")]
    interval: Duration,
    #[command(flatten)]
    connect: Connect,
}

impl Top {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let ui = self.connect.ui();
        if !self.once && screen::is_there() {
            return terminal::run(&session, self.interval, ui.color).await;
        }
        let mut before = Sample::fetch(&session).await?;
        loop {
            tokio::time::sleep(self.interval).await;
            let now = Sample::fetch(&session).await?;
            // A terminal without a keyboard shows one page at a time, too.
            let clear = if !self.once && std::io::stdout().is_terminal() { CLEAR } else { "" };
            ui::print(format!("{clear}{}", page::render(&before, &now, &ui)))?;
            if self.once {
                return Ok(Exit::Done);
            }
            before = now;
        }
    }
}
