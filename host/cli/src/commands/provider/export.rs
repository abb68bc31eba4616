//! `mortise provider export`: the provider as a file-system mirror, with its schemas for use without a server.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use clap::Args;
use mortise_durable_fs::AtomicFile;
use mortise_provider::{
    client::{ConnectionSettings, ResourceClient as _},
    schema::Snapshot,
};

use super::source::{SOURCE, Source, source};
use crate::{CliError, Connect, Exit, connect::provider::ProviderConnector, output::ui};

pub(super) const EXAMPLES: &str = "\
mortise provider export --out terraform-plugins
mortise provider export --out /usr/local/share/terraform/plugins --source example.org/platform/mortise";

/// Arguments of `provider export`.
#[derive(Debug, Args)]
pub(super) struct Export {
    /// The directory of the mirror; the provider is written to HOST/NAMESPACE/TYPE/VERSION/OS_ARCH in it
    #[arg(long, value_name = "DIR", default_value = "terraform-plugins")]
    out: PathBuf,
    /// The provider's address, as in required_providers
    #[arg(long, value_name = "HOST/NAMESPACE/TYPE", default_value = SOURCE, value_parser = source)]
    source: Source,
    #[command(flatten)]
    connect: Connect,
}

impl Export {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let client = ProviderConnector::of_flags(&self.connect).reach(&ConnectionSettings::default()).await?;
        let types = client.types().await.map_err(|status| CliError::rpc("types", &status))?;
        let functions = client.functions().await.map_err(|status| CliError::rpc("functions", &status))?;
        let Source { host, namespace, name } = &self.source;
        let version = env!("CARGO_PKG_VERSION");
        let platform = format!("{}_{}", std::env::consts::OS, architecture());
        let dir = self.out.join(host).join(namespace).join(name).join(version).join(platform);
        fs::create_dir_all(&dir).map_err(|e| CliError::file("cannot make", &dir, e))?;
        let program = std::env::current_exe().map_err(|e| CliError::failed("cannot find this program").caused_by(e))?;
        let provider = dir.join(format!("terraform-provider-{name}_v{version}"));
        let mut binary = File::open(&program).map_err(|e| CliError::file("cannot read", &program, e))?;
        put(&mut binary, 0o755, &provider)?;
        let schemas = dir.join(format!("terraform-provider-{name}_v{version}{}", super::launch::SNAPSHOT));
        put(&mut Snapshot { types, functions }.write().as_bytes(), 0o644, &schemas)?;
        ui::print(format!("{}\n{}\n", provider.display(), schemas.display()))?;
        Ok(Exit::Done)
    }
}

/// Replaces a file, even that of a running program; an interrupted write leaves nothing behind.
fn put(content: &mut impl Read, mode: u32, to: &Path) -> Result<(), CliError> {
    let mut file = AtomicFile::new_beside(to).map_err(CliError::fs)?;
    let written = io::copy(content, &mut file).and_then(|_| file.file().set_permissions(Permissions::from_mode(mode)));
    written.map_err(|e| CliError::file("cannot write", to, e))?;
    file.replace_durably().map_err(CliError::fs)
}

/// Name of this machine's architecture in Go.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}
