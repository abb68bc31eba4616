//! The terminal during the page. Every end restores it: a key, a signal, a fault, a panic.

use std::{
    io::{self, Stdout},
    panic,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::{Hide, Show},
        event::{self, Event},
        execute,
        style::force_color_output,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    app::App,
    keys::{Flow, press},
    sample::Sample,
    view::draw,
};
use crate::{CliError, Exit, Session};

/// Time after which the thread of the keyboard looks whether the page still lasts.
const KEYBOARD_WAIT: Duration = Duration::from_millis(200);

/// Time behind the interval after which a missing answer is named.
const ANSWER_WAIT: Duration = Duration::from_secs(3);

/// Keys that may wait for the page.
const MAX_KEYS: usize = 64;

/// Whether the terminal is that of the page now.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Guard: the terminal shows the page while one lives.
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

/// Shows the page until the user ends it.
pub(super) async fn run(session: &Session, interval: Duration, color: bool) -> Result<Exit, CliError> {
    let mut app = App::new(&session.url(), color, Sample::fetch_all(session).await?);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let (sender, mut events) = mpsc::channel(MAX_KEYS);
    // The command's own decision, from --color and NO_COLOR, counts.
    force_color_output(color);
    let mut taken = Taken::take()?;
    let keyboard = std::thread::Builder::new().name("keyboard".to_owned()).spawn(move || read_keyboard(&sender));
    keyboard.map_err(|error| CliError::failed("cannot start threads").caused_by(error))?;
    let sample = |due: Instant| async move {
        sleep_until(due).await;
        Sample::fetch_all(session).await
    };
    let mut next = Box::pin(sample(Instant::now() + interval));
    let mut late = Instant::now() + interval + ANSWER_WAIT;
    loop {
        taken.0.draw(|frame| draw(frame, &mut app))?;
        tokio::select! {
            sampled = &mut next => {
                match sampled {
                    Ok(sampled) => app.take(sampled),
                    Err(error) => app.miss(&error.message),
                }
                next = Box::pin(sample(Instant::now() + interval));
                late = Instant::now() + interval + ANSWER_WAIT;
            }
            () = sleep_until(late) => {
                app.miss("the last question has no answer yet");
                late = Instant::now() + ANSWER_WAIT;
            }
            event = events.recv() => match event {
                Some(Ok(Event::Key(key))) if press(&mut app, key) == Flow::Quit => return Ok(Exit::Done),
                // A resize is drawn by the next frame.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(CliError::failed("cannot read the keyboard").caused_by(error)),
                None => return Ok(Exit::Done),
            },
            _ = terminate.recv() => return Ok(Exit::Interrupted),
            _ = hang_up.recv() => return Ok(Exit::Interrupted),
        }
    }
}
