//! The view of all events: builds, cases, the serving version, the plugin's conditions and its log.

use std::time::Duration;

use mortise_cli::{CliError, Session, Style, Ui, ui};
use mortise_resource::{data, pb, pb::watch_event::Event};
use tokio::{sync::mpsc, task::JoinHandle};

use super::install;

/// Pause before a lost connection is tried again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Older lines of the log to show first.
const LAST_LINES: u32 = 10;

/// Subject of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    Dev,
    Build,
    Test,
    Live,
    Plugin,
    Log,
    Fault,
}

impl LineKind {
    fn label(self) -> (&'static str, Style) {
        match self {
            Self::Dev => ("dev", Style::Dim),
            Self::Build => ("build", Style::Bold),
            Self::Test => ("test", Style::Bold),
            Self::Live => ("live", Style::Good),
            Self::Plugin => ("plugin", Style::Bold),
            Self::Log => ("log", Style::Dim),
            Self::Fault => ("FAULT", Style::Bad),
        }
    }
}

/// Prints lines, the first with their subject.
pub(super) fn say(on: &Ui, part: LineKind, text: &str) -> Result<(), CliError> {
    let (label, style) = part.label();
    let mut lines = text.lines();
    let mut out = format!("{} {}\n", on.paint(style, &format!("{label:<6}")), lines.next().unwrap_or_default());
    for line in lines {
        out.push_str(&format!("       {line}\n"));
    }
    ui::print(out)
}

/// Prints a plugin's log and its conditions until it is dropped.
pub(super) struct LiveView {
    tasks: Vec<JoinHandle<()>>,
    back: mpsc::Receiver<()>,
}

impl LiveView {
    pub(super) fn start(session: &Session, on: &Ui, name: &str) -> Self {
        // One waiting message suffices: the receiver looks at the server anyway.
        let (send, back) = mpsc::channel(1);
        let with_back = move |session, on, name, first| conditions(session, on, name, first, send.clone());
        let logs = tokio::spawn(again(session.clone(), *on, name.to_owned(), logs));
        let conditions = tokio::spawn(again(session.clone(), *on, name.to_owned(), with_back));
        Self { tasks: vec![logs, conditions], back }
    }

    /// Waits until a lost server is back; it may be another one, without the plugin.
    pub(super) async fn server_is_back(&mut self) {
        if self.back.recv().await.is_none() {
            // Both tasks ended since the output is closed. The next print of the caller fails for that reason.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Calls `follow` again after each lost connection, until the output is closed. Its last argument is true in the first
/// call.
async fn again<F>(session: Session, on: Ui, name: String, mut follow: impl FnMut(Session, Ui, String, bool) -> F)
where
    F: Future<Output = Result<(), CliError>>,
{
    let mut first = true;
    loop {
        // The loss was reported when it happened.
        if follow(session.clone(), on, name.clone(), first).await.is_err_and(|e| e.exit == mortise_cli::Exit::Closed) {
            return;
        }
        first = false;
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

async fn logs(session: Session, on: Ui, name: String, first: bool) -> Result<(), CliError> {
    let last = if first { LAST_LINES } else { 0 };
    let request = data::LogsRequest { name: name.clone(), last, follow: true, level: 0 };
    let mut client = session.plugins();
    let mut lines = session.call(format!("the log of {name}"), client.logs(request)).await?;
    while let Ok(Some(line)) = lines.message().await {
        say(&on, LineKind::Log, &log_line(&line))?;
    }
    Ok(())
}

fn log_line(line: &data::LogLine) -> String {
    let level = ["off", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"].get(line.level as usize).unwrap_or(&"?");
    let hook = if line.hook.is_empty() { String::new() } else { format!(" {}", line.hook) };
    let fields: String = line.fields.iter().map(|(name, value)| format!(" {name}={value:?}")).collect();
    format!("{level}{hook}: {}{fields}", line.message)
}

async fn conditions(
    session: Session,
    on: Ui,
    name: String,
    first: bool,
    back: mpsc::Sender<()>,
) -> Result<(), CliError> {
    let plugin_type = pb::Type { group: "mortise".into(), group_version: "v1".into(), kind: "Plugin".into() };
    let request =
        pb::WatchListRequest { r#type: Some(plugin_type), tenancy: None, name_prefix: name.clone(), after: None };
    let mut client = session.resources();
    let mut events = session.call(format!("plugin {name}"), client.watch_list(request)).await?;
    if !first {
        say(&on, LineKind::Dev, "the server is back")?;
        let _ = back.try_send(());
    }
    let mut known: Option<Vec<String>> = None;
    while let Ok(Some(event)) = events.message().await {
        let Some(Event::Upsert(upsert)) = event.event else { continue };
        let Some(plugin) = upsert.resource.filter(|resource| resource.id.as_ref().is_some_and(|id| id.name == name))
        else {
            continue;
        };
        let now = install::conditions(Some(&plugin));
        // Between two versions the conditions are not final.
        let passing = now.iter().any(|line| line.contains(" not yet"));
        if known.as_ref().is_some_and(|known| *known != now) && !passing {
            say(&on, LineKind::Plugin, &now.join("; "))?;
        }
        if !passing {
            known = Some(now);
        }
    }
    say(&on, LineKind::Dev, "the server is gone; waiting for it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_has_its_level_hook_and_fields() {
        let line = data::LogLine {
            level: 3,
            hook: "reconcile".into(),
            message: "accepted one".into(),
            fields: [("count".to_owned(), "2".to_owned())].into(),
            ..data::LogLine::default()
        };
        assert_eq!(log_line(&line), "INFO reconcile: accepted one count=\"2\"");
    }
}
