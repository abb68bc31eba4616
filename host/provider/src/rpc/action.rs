//! Actions: a check before the changes of the run, then the change of the server with its steps for people. Core keeps
//! no state of it.

use std::{io, path::Path, sync::Arc, time::Duration};

use mortise_backup::SealChecker;
use mortise_durable_fs::AtomicFile;
use mortise_resource::{
    data::{self, BackupRequest, BackupResponse, backup_response::Begins},
    pb,
};
use prost::Message as _;
use tokio::{
    sync::mpsc,
    task::spawn_blocking,
    time::{Instant, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::{
    answer::Faults,
    diagnostic::{error, error_at},
    session::{Server, Session},
    wire::{decode, decode_object},
};
use crate::{
    proto::tfplugin6::{
        Diagnostic, DynamicValue,
        invoke_action::{
            Event, Request,
            event::{Completed, Progress, Type as Step},
        },
    },
    schema::{Action, PluginChange, ProviderSchema},
    value::{self, Value},
};

/// Steps that wait for core at most.
const MAX_WAITING_STEPS: usize = 16;
/// Longest wait for the next piece of a backup.
const MAX_SILENCE: Duration = Duration::from_secs(60);
/// Time between two steps of a backup.
const STEP_INTERVAL: Duration = Duration::from_secs(5);

/// The steps of an action.
pub(super) type Steps = ReceiverStream<Result<Event, Status>>;

type Sender = mpsc::Sender<Result<Event, Status>>;

/// The action of a name.
pub(super) fn named(schema: &ProviderSchema, name: &str) -> Result<Action, Faults> {
    schema.action(name).ok_or_else(|| vec![error(format!("the provider has no action {name}"), "")])
}

fn at(attribute: &str, summary: impl Into<String>) -> Diagnostic {
    error_at(&[value::Step::Attribute(attribute.to_owned())], summary)
}

/// Checks a configuration; skips unknown parts.
pub(super) fn check(action: Action, config: Option<&DynamicValue>) -> Result<Faults, Faults> {
    let config = decode(config, &action.to_type())?;
    Ok(faults(action, &config))
}

fn faults(action: Action, config: &Value) -> Faults {
    let (name, fault): (_, fn(&str) -> Option<String>) = match action {
        Action::Backup => ("file", |file| {
            let is_fit = Path::new(file).is_absolute() && !file.ends_with('/');
            (!is_fit).then(|| format!("{file:?} is not the absolute path of a file"))
        }),
        Action::Plugin(_) => ("plugin", |plugin| plugin.is_empty().then(|| "the name of a plugin is empty".to_owned())),
    };
    config.get(name).as_str().and_then(fault).map(|fault| at(name, fault)).into_iter().collect()
}

/// Checks that the action can begin: its plugin exists, and the token may look at it.
pub(super) async fn plan(action: Action, server: &Server, config: Option<&DynamicValue>) -> Result<(), Faults> {
    let config = decode_object(config, &action.to_type())?;
    let found = faults(action, &config);
    if !found.is_empty() {
        return Err(found);
    }
    match (action, config.get("plugin").as_str()) {
        (Action::Plugin(_), Some(plugin)) => {
            server.client.plugin(plugin).await.map(drop).map_err(|status| plugin_faults(server, plugin, &status))
        }
        _ => Ok(()),
    }
}

fn plugin_faults(server: &Server, plugin: &str, status: &Status) -> Faults {
    match status.code() {
        Code::NotFound => {
            vec![at("plugin", format!("the plugin {plugin:?} does not exist; `mortise plugin list` lists the plugins"))]
        }
        _ => server.faults(&format!("the plugin {plugin}"), status),
    }
}

/// Acts. The last step has the faults.
pub(super) fn invoke(session: Arc<Session>, request: Request) -> Steps {
    let (steps, receiver) = mpsc::channel(MAX_WAITING_STEPS);
    tokio::spawn(async move {
        let done = tokio::select! {
            done = act(&session, &request, &steps) => done,
            () = steps.closed() => return,
        };
        let completed = Completed { diagnostics: done.err().unwrap_or_default() };
        // Core went away.
        _ = steps.send(Ok(Event { r#type: Some(Step::Completed(completed)) })).await;
    });
    ReceiverStream::new(receiver)
}

async fn step(steps: &Sender, message: String) {
    // Core went away; the action is dropped.
    _ = steps.send(Ok(Event { r#type: Some(Step::Progress(Progress { message })) })).await;
}

async fn act(session: &Session, request: &Request, steps: &Sender) -> Result<(), Faults> {
    let action = named(&*session.schema().await?, &request.action_type)?;
    let config = decode_object(request.config.as_ref(), &action.to_type())?;
    let found = faults(action, &config);
    if !found.is_empty() {
        return Err(found);
    }
    let server = session.server().await?;
    let text = |name: &str| config.get(name).as_str().unwrap_or_default();
    match action {
        Action::Plugin(change) => change_plugin(change, &server, text("plugin"), steps).await,
        Action::Backup => {
            let is_set = |name: &str| *config.get(name) == Value::Bool(true);
            let request = BackupRequest { without_config: is_set("without_config") };
            backup(session, &server, request, text("file"), is_set("replace"), steps).await
        }
    }
}

async fn change_plugin(change: PluginChange, server: &Server, plugin: &str, steps: &Sender) -> Result<(), Faults> {
    let (doing, done) = match change {
        PluginChange::Disable => ("disabling", "disabled"),
        PluginChange::Enable => ("enabling", "enabled"),
        PluginChange::Reset => ("resetting", "its hooks are called again"),
        PluginChange::Rollback => ("rolling back", "rolled back"),
    };
    step(steps, format!("plugin {plugin}: {doing}")).await;
    let changed = server.client.change_plugin(change, plugin).await;
    let changed = changed.map_err(|status| plugin_faults(server, plugin, &status))?;
    step(steps, format!("plugin {plugin}: {done}{}", version(&changed))).await;
    Ok(())
}

/// The version of a plugin, for people.
fn version(plugin: &pb::Resource) -> String {
    let bytes = plugin.data.as_ref().map(|data| data.value.as_slice()).unwrap_or_default();
    match data::Plugin::decode(bytes) {
        Ok(plugin) if !plugin.version.is_empty() => format!("; version {}", plugin.version),
        _ => String::new(),
    }
}

/// A file under construction, and the check of its content.
struct Part {
    file: AtomicFile,
    checker: SealChecker,
    bytes: u64,
}

impl Part {
    /// The file and its size, if the answer was not cut off.
    fn whole(self) -> Result<(AtomicFile, u64), Faults> {
        if self.checker.is_whole() {
            return Ok((self.file, self.bytes));
        }
        let detail = "The server's log has the cause. Nothing is written.";
        Err(vec![error("backup: the server's answer ended early", detail)])
    }
}

async fn backup(
    session: &Session,
    server: &Server,
    request: BackupRequest,
    file: &str,
    replaces: bool,
    steps: &Sender,
) -> Result<(), Faults> {
    let path = Path::new(file).to_owned();
    let failed = |fault: String| vec![at("file", format!("cannot write {file}: {fault}"))];
    if !replaces && path.symlink_metadata().is_ok() {
        return Err(vec![at("file", format!("{file} exists already; `replace = true` replaces it"))]);
    }
    // The file appears whole or not at all.
    let new = spawn_blocking(move || AtomicFile::new_beside(&path)).await.map_err(|fault| failed(fault.to_string()))?;
    let new = new.map_err(|fault| failed(fault.to_string()))?;
    let mut part = Part { file: new, checker: SealChecker::default(), bytes: 0 };
    let mut stream = server.client.backup(request).await.map_err(|status| server.faults("backup", &status))?;
    let (mut begins, mut next_step) = (Begins::default(), Instant::now() + STEP_INTERVAL);
    loop {
        let next = timeout(MAX_SILENCE, stream.message()).await;
        let next = next.unwrap_or_else(|_| Err(Status::deadline_exceeded(format!("nothing within {MAX_SILENCE:?}"))));
        let Some(piece) = next.map_err(|status| server.faults("backup", &status))? else { break };
        if session.is_stopped() {
            return Err(vec![error("the backup was stopped, and nothing is written", "")]);
        }
        let BackupResponse { begins: first, chunk, records } = piece;
        if let Some(first) = first {
            begins = first;
            step(steps, format!("backup of commit {}: {} records", begins.commit, begins.records)).await;
        } else if Instant::now() >= next_step {
            next_step = Instant::now() + STEP_INTERVAL;
            step(steps, format!("backup: {records} of {} records", begins.records)).await;
        }
        part = added(part, chunk).await.map_err(|fault| failed(fault.to_string()))?;
    }
    let (written, bytes) = part.whole()?;
    let place = move || if replaces { written.replace_durably() } else { written.create_durably() };
    let placed = spawn_blocking(place).await.map_err(|fault| failed(fault.to_string()))?;
    placed.map_err(|fault| failed(fault.to_string()))?;
    let Begins { commit, resources, .. } = begins;
    step(steps, format!("backup of commit {commit} in {file}: {resources} resources, {bytes} bytes")).await;
    Ok(())
}

/// The part with the next piece of the content. The disk has a thread of its own.
async fn added(mut part: Part, chunk: Vec<u8>) -> io::Result<Part> {
    let write = move || {
        part.checker.update(&chunk);
        part.bytes = part.bytes.saturating_add(chunk.len() as u64);
        io::Write::write_all(part.file.file(), &chunk).map(|()| part)
    };
    spawn_blocking(write).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An end without an error, such as that of a stopped proxy in between.
    #[tokio::test]
    async fn a_backup_that_ends_early_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = AtomicFile::new_beside(&dir.path().join("b.tar.gz")).unwrap();
        let part = Part { file, checker: SealChecker::default(), bytes: 0 };
        let part = added(part, b"the first piece".to_vec()).await.unwrap();
        let faults = part.whole().err().unwrap();
        assert_eq!(faults[0].summary, "backup: the server's answer ended early");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
    }
}
