//! `mortise plugin install`.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use clap::Args;
use mortise_keys::signature::read_signature;
use mortise_resource::{data::InstallRequest, name};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::summary::PluginSummary;
use crate::{CliError, Connect, Exit, Progress, Unit, output::ui};

pub(super) const EXAMPLES: &str = "mortise plugin install target/demo.wasm\n\
                                   mortise plugin install build/my_plugin.wasm --name demo";

/// Bytes of the component in one message.
const CHUNK: usize = 256 << 10;

/// Arguments of `plugin install`.
#[derive(Debug, Args)]
pub struct Install {
    /// The component; its signature, FILE.minisig, is sent along if it exists
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The plugin's own name [default: the file's name without .wasm, or its own if that is not a plugin's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

impl Install {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
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
            let named_by_manifest = name.is_empty();
            let mut first =
                InstallRequest { name: name.clone(), sha256, named_by_manifest, ..InstallRequest::default() };
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
        let answer = session.call(&thing, session.plugins().install(ReceiverStream::new(outgoing))).await;
        let answer = answer.map_err(|error| match &error.remedy {
            None if error.message.contains(", but the install is for ") => {
                error.remedy("give its own name: --name NAME")
            }
            _ => error,
        });
        // The upload ends when the server has answered; a read error here explains a failure better.
        match (reading.await, answer) {
            (Ok(Err(error)), _) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(CliError::file("cannot read", &self.file, error))
            }
            (_, answer) => {
                let answer = answer?;
                let seen = PluginSummary::from(&answer.plugin.unwrap_or_default());
                let name = &seen.name;
                let before = match seen.plugin.previous_version.as_str() {
                    "" => String::new(),
                    previous => format!("; version {previous} is kept for a rollback"),
                };
                ui::line(match answer.unchanged {
                    true => format!("plugin {name}: {} serves already, nothing changed", seen.what()),
                    false => format!("plugin {name}: {} serves{before}", seen.what()),
                })?;
                Ok(Exit::Done)
            }
        }
    }
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
