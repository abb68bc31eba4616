//! `mortise plugin install`.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    pin::pin,
    time::Duration,
};

use clap::Args;
use mortise_keys::signature::read_signature;
use mortise_registry::{Reference, version};
use mortise_resource::{data::InstallRequest, name};
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinHandle},
};
use tokio_stream::wrappers::ReceiverStream;

use super::{
    registry::{Fetch, Keys, Way},
    summary::PluginSummary,
};
use crate::{CliError, Connect, Exit, Progress, Unit, output::ui};

pub(super) const EXAMPLES: &str = "mortise plugin install target/demo.wasm\n\
                                   mortise plugin install build/my_plugin.wasm --name demo\n\
                                   mortise plugin install oci://ghcr.io/acme/demo:1.2.0 --key acme.pub";

/// Bytes of the component in one message.
const CHUNK: usize = 256 << 10;

/// Arguments of `plugin install`.
#[derive(Debug, Args)]
pub struct Install {
    /// The component, a file or oci://HOST/NAME[:TAG][@sha256:DIGEST] in a registry; its signature is sent along if it
    /// has one, as FILE.minisig or in the registry
    #[arg(value_name = "FILE|REFERENCE")]
    file: PathBuf,
    /// The plugin's own name [default: the file's name without .wasm, or its own if that is not a plugin's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Have the server check the component as an install does, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    keys: Keys,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    way: Way,
}

impl Install {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        match self.file.to_str().filter(|text| Reference::is_one(text)).map(str::to_owned) {
            Some(reference) => self.fetch(&reference).await,
            None if self.keys.is_given() => {
                let error = CliError::usage("--key is for plugins of a registry");
                Err(error.remedy(
                    "`mortise plugin verify` compares a file with keys; the server trusts plugins.trusted_keys",
                ))
            }
            None => self.send().await,
        }
    }

    /// Pulls the component into files for the time of the install.
    async fn fetch(self, reference: &str) -> Result<Exit, CliError> {
        let reference: Reference = reference.parse().map_err(|e| CliError::because(Exit::Usage, e))?;
        let folder =
            tempfile::tempdir().map_err(|e| CliError::failed("cannot make a folder for the component").caused_by(e))?;
        let file = folder.path().join(format!("{}.wasm", reference.repository.short_name()));
        Fetch::pull(&self.way, &reference, &self.keys).await?.write(&file, false)?;
        Self { file, ..self }.send().await
    }

    async fn send(self) -> Result<Exit, CliError> {
        let stem = self.file.file_stem().and_then(|stem| stem.to_str()).map(|stem| stem.replace('_', "-"));
        // The server takes the manifest's name for none, as of `tool-1.2.wasm`.
        let stem = stem.filter(|stem| name::is_valid(stem)).unwrap_or_default();
        let name = self.name.clone().unwrap_or(stem);
        let (sha256, bytes) = digest(&self.file)?;
        let signature = read_signature(&self.file)
            .map_err(|e| CliError::usage(format!("reading the signature of {}", self.file.display())).caused_by(e))?;
        let session = self.connect.session().await?;
        let (messages, outgoing) = mpsc::channel(4);
        let reading = tokio::task::spawn_blocking({
            let (path, signature) = (self.file.clone(), signature.unwrap_or_default());
            let (named_by_manifest, dry_run) = (name.is_empty(), self.dry_run);
            let mut first =
                InstallRequest { name: name.clone(), sha256, named_by_manifest, dry_run, ..InstallRequest::default() };
            // Earlier servers know the text alone.
            match String::from_utf8(signature) {
                Ok(text) => first.signature = text,
                Err(bytes) => first.signature_file = bytes.into_bytes(),
            }
            let progress = Progress::begin("sending", Some(bytes), Unit::Bytes);
            move || send(&path, first, &progress, &messages)
        });
        let thing = match name.as_str() {
            "" => self.file.display().to_string(),
            name => format!("plugin {name}"),
        };
        let mut plugins = session.plugins();
        let call = session.call(&thing, plugins.install(ReceiverStream::new(outgoing)));
        let (sent, answer) = until_answered(reading, call).await;
        let answer = answer.map_err(|error| match &error.remedy {
            None if error.message.contains(", but the install is for ") => {
                error.remedy("give its own name: --name NAME")
            }
            // Only a component that arrived whole is installed.
            _ if error.exit == Exit::TimedOut && !self.dry_run && matches!(sent, Ok(Ok(()))) => given_up(error, &thing),
            _ => error,
        });
        // The upload ends when the server has answered; a read error here explains a failure better.
        match (sent, answer) {
            (Ok(Err(error)), _) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(CliError::file("cannot read", &self.file, error))
            }
            (_, answer) => {
                let answer = answer?;
                let seen = PluginSummary::from(&answer.plugin.unwrap_or_default());
                if self.dry_run && !answer.dry_run && !answer.unchanged {
                    let error =
                        CliError::failed(format!("the server knows no dry runs, and has installed {}", seen.name));
                    return Err(
                        error.remedy(format!("`mortise plugin rollback {}` goes back, or remove it", seen.name))
                    );
                }
                let name = &seen.name;
                let before = match seen.plugin.previous_version.as_str() {
                    "" => String::new(),
                    previous if version(previous) > version(&seen.plugin.version) => {
                        format!("; the newer version {previous} is kept for a rollback")
                    }
                    previous => format!("; version {previous} is kept for a rollback"),
                };
                ui::line(match (answer.unchanged, answer.dry_run) {
                    (true, _) => format!("plugin {name}: {} serves already, nothing changed", seen.what()),
                    (false, true) => format!("plugin {name}: {} would serve; nothing changed (dry run)", seen.what()),
                    (false, false) => format!("plugin {name}: {} serves{before}", seen.what()),
                })?;
                Ok(Exit::Done)
            }
        }
    }
}

/// Result of the task that sends the component.
type Sent = Result<io::Result<()>, JoinError>;

/// Waits for the answer, and shows that the server works once the component is sent. Answers the end of the upload, too.
async fn until_answered<T>(
    mut sending: JoinHandle<io::Result<()>>,
    call: impl Future<Output = Result<T, CliError>>,
) -> (Sent, Result<T, CliError>) {
    let mut call = pin!(call);
    let sent = tokio::select! {
        sent = &mut sending => sent,
        // The call is over, so nothing is sent any more.
        answer = &mut call => return (sending.await, answer),
    };
    let working = Progress::begin("the server compiles and checks it; seconds:", None, Unit::Items);
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.tick().await;
    loop {
        tokio::select! {
            answer = &mut call => return (sent, answer),
            _ = second.tick() => working.advance(1),
        }
    }
}

/// Error for an install that goes on without this command.
fn given_up(error: CliError, thing: &str) -> CliError {
    let message = format!("{}; the component was sent, and the server goes on with it", error.message);
    CliError { message, ..error }.remedy(format!(
        "`mortise plugin list` shows the stage of {thing} and the end; --timeout DURATION waits for longer, such as 10m"
    ))
}

/// SHA-256 and length of a file.
fn digest(path: &Path) -> Result<(String, u64), CliError> {
    let fault = |e: io::Error| CliError::file("cannot read", path, e);
    let mut file = File::open(path).map_err(fault)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer).map_err(fault)?;
        if read == 0 {
            return Ok((format!("{:x}", hasher.finalize()), bytes));
        }
        bytes += read as u64;
        hasher.update(buffer.get(..read).unwrap_or_default());
    }
}

fn send(
    path: &Path,
    first: InstallRequest,
    progress: &Progress,
    messages: &mpsc::Sender<InstallRequest>,
) -> io::Result<()> {
    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    messages.blocking_send(first).map_err(gone)?;
    let mut file = File::open(path)?;
    loop {
        let mut chunk = Vec::with_capacity(CHUNK);
        let read = (&mut file).take(CHUNK as u64).read_to_end(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        messages.blocking_send(InstallRequest { chunk, ..InstallRequest::default() }).map_err(gone)?;
        progress.advance(read as u64);
    }
}
