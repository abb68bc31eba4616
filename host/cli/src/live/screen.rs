//! The terminal while a page lasts. Every end restores it: a key, a signal, a fault, a panic.

use std::{
    io::{self, IsTerminal as _, Stdout},
    panic,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use ratatui::{
    Frame, Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::{Hide, Show},
        event::{self, Event, KeyEvent},
        execute,
        style::force_color_output,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use crate::{CliError, Exit};

/// Time after which the thread of the keyboard looks whether the page still lasts.
const KEYBOARD_WAIT: Duration = Duration::from_millis(200);

/// Keys that may wait for the page.
const MAX_KEYS: usize = 64;

/// True while the terminal is that of a page.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Returns true for a terminal that can show a page and has a keyboard.
pub(crate) fn is_there() -> bool {
    let is_dumb = crate::env::process("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && io::stdin().is_terminal() && !is_dumb
}

/// An event of the terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Input {
    Key(KeyEvent),
    /// The terminal has another size, or events without effect came: a frame has to be drawn.
    Redraw,
    /// The page has to end.
    End(Exit),
}

/// Guard: the terminal shows a page while one lives.
pub(crate) struct Screen {
    taken: Taken,
    events: mpsc::Receiver<io::Result<Event>>,
    terminate: Signal,
    hang_up: Signal,
}

impl Screen {
    /// Takes the terminal. `color` is the command's own decision, from `--color` and NO_COLOR.
    ///
    /// # Errors
    /// The terminal, a signal or a thread cannot be had.
    pub(crate) fn take(color: bool) -> Result<Self, CliError> {
        let (terminate, hang_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        let (sender, events) = mpsc::channel(MAX_KEYS);
        force_color_output(color);
        let taken = Taken::take()?;
        let keyboard = std::thread::Builder::new().name("keyboard".to_owned()).spawn(move || read_keyboard(&sender));
        keyboard.map_err(|error| CliError::failed("cannot start threads").caused_by(error))?;
        Ok(Self { taken, events, terminate, hang_up })
    }

    /// Draws a frame.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), CliError> {
        self.taken.0.draw(draw)?;
        Ok(())
    }

    /// Waits for the next event. A dropped wait loses none.
    pub(crate) async fn input(&mut self) -> Result<Input, CliError> {
        tokio::select! {
            event = self.events.recv() => match event {
                Some(Ok(Event::Key(key))) => Ok(Input::Key(key)),
                Some(Ok(_)) => Ok(Input::Redraw),
                Some(Err(error)) => Err(CliError::failed("cannot read the keyboard").caused_by(error)),
                None => Ok(Input::End(Exit::Done)),
            },
            _ = self.terminate.recv() => Ok(Input::End(Exit::Interrupted)),
            _ = self.hang_up.recv() => Ok(Input::End(Exit::Interrupted)),
        }
    }
}

/// Guard: the terminal is in the mode of a page while one lives.
struct Taken(Terminal<CrosstermBackend<Stdout>>);

impl Taken {
    fn take() -> Result<Self, CliError> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
        IS_TAKEN.store(true, Ordering::SeqCst);
        let taken = enable_raw_mode()
            .and_then(|()| execute!(io::stdout(), EnterAlternateScreen, Hide))
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match taken {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                restore();
                Err(error.into())
            }
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal, once.
fn restore() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        // A terminal that is gone has nothing to restore.
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// Sends keys and resizes until the receiver is gone.
fn read_keyboard(events: &mpsc::Sender<io::Result<Event>>) {
    while !events.is_closed() {
        let event = match event::poll(KEYBOARD_WAIT) {
            Ok(false) => continue,
            Ok(true) => event::read(),
            Err(error) => Err(error),
        };
        let is_end = event.is_err();
        if events.blocking_send(event).is_err() || is_end {
            return;
        }
    }
}
