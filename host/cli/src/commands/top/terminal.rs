//! The page on the terminal: the questions to the server, and the frames.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::{
    app::App,
    keys::{Flow, press},
    sample::Sample,
    view::draw,
};
use crate::{
    CliError, Exit, Session,
    live::screen::{Input, Screen},
};

/// Time behind the interval after which a missing answer is named.
const ANSWER_WAIT: Duration = Duration::from_secs(3);

/// Shows the page until the user ends it.
pub(super) async fn run(session: &Session, interval: Duration, color: bool) -> Result<Exit, CliError> {
    let mut app = App::new(&session.url(), color, Sample::fetch_all(session).await?);
    let mut screen = Screen::take(color)?;
    let sample = |due: Instant| async move {
        sleep_until(due).await;
        Sample::fetch_all(session).await
    };
    let mut next = Box::pin(sample(Instant::now() + interval));
    let mut late = Instant::now() + interval + ANSWER_WAIT;
    loop {
        screen.draw(|frame| draw(frame, &mut app))?;
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
            input = screen.input() => match input? {
                Input::Key(key) if press(&mut app, key) == Flow::Quit => return Ok(Exit::Done),
                // A resize is drawn by the next frame.
                Input::Key(_) | Input::Redraw => {}
                Input::End(exit) => return Ok(exit),
            },
        }
    }
}
