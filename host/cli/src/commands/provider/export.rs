//! `mortise provider export`: the provider as a mirror for Terraform and OpenTofu, with the server's schemas beside it.
//!
//! A package holds the program alone, so that its hashes and its version change with the release and never with the
//! types of a server. The schemas are in the version's directory, which is in no package.

mod mirror;
mod oci;
mod package;
mod platform;
mod zip;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::Args;
use mirror::Lists;
pub(super) use mirror::put;
use oci::OciLayout;
use package::{Checked, Places, Unplaced};
use platform::{Binary, binary};

use super::{
    launch::SNAPSHOT,
    source::{SOURCE, Source, source},
};
use crate::{CliError, Connect, Exit, output::ui};

pub(super) const EXAMPLES: &str = "\
mortise provider export --out terraform-plugins
mortise provider export --out mirror --binary darwin_arm64=mortise-mac --oci layout
mortise provider export --out /usr/local/share/terraform/plugins --source example.org/platform/mortise";

/// Arguments of `provider export`.
#[derive(Debug, Args)]
pub(super) struct Export {
    /// The directory of the mirror; HOST/NAMESPACE/TYPE in it gets a folder VERSION/OS_ARCH and a zip for each
    /// platform, with index.json and VERSION.json for network mirrors
    #[arg(long, value_name = "DIR", default_value = "terraform-plugins")]
    out: PathBuf,
    /// The provider's address, as in required_providers
    #[arg(long, value_name = "HOST/NAMESPACE/TYPE", default_value = SOURCE, value_parser = source)]
    source: Source,
    /// The mortise binary of this release for another platform, such as linux_arm64; may be repeated
    #[arg(long, value_name = "OS_ARCH=FILE", value_parser = binary)]
    binary: Vec<Binary>,
    /// Also writes an OCI image layout to this directory, for OpenTofu's oci_mirror
    #[arg(long, value_name = "DIR")]
    oci: Option<PathBuf>,
    #[command(flatten)]
    connect: Connect,
}

impl Export {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let binaries = self.binaries()?;
        let snapshot = super::types::snapshot(&self.connect).await?;
        let Source { host, namespace, name } = &self.source;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let places = Places { dir: self.out.join(host).join(namespace).join(name), name: name.clone(), version };
        let mut lists = Lists::open(&places)?;
        let layout = self.oci.as_deref().map(OciLayout::open).transpose()?;
        let checked: Vec<_> = binaries.iter().map(|binary| Checked::new(binary, &places)).collect::<Result<_, _>>()?;
        let packages: Vec<_> =
            checked.into_iter().map(|program| Unplaced::make(program, &places)).collect::<Result<_, _>>()?;
        lists.add(&packages);
        let mut written: Vec<_> = packages.iter().flat_map(|package| package.paths.clone()).collect();
        for package in packages {
            package.place()?;
        }
        let schemas = places.version_dir().join(SNAPSHOT);
        put(snapshot.write().as_bytes(), 0o644, &schemas)?;
        lists.place(&places, &self.source.to_string())?;
        if let Some(layout) = layout {
            layout.add(&lists.packages, &places)?;
        }
        written.push(schemas);
        written.extend(["lock.hcl", "json"].map(|end| places.dir.join(format!("{}.{end}", places.version))));
        written.push(places.dir.join("index.json"));
        written.extend(self.oci);
        ui::print(written.iter().map(|path: &PathBuf| format!("{}\n", path.display())).collect::<String>())?;
        Ok(Exit::Done)
    }

    /// The program of each platform: this one for this machine, unless another is given.
    fn binaries(&self) -> Result<Vec<Binary>, CliError> {
        let mut all = BTreeMap::new();
        for binary in &self.binary {
            if let Some(first) = all.insert(binary.platform.clone(), binary.clone()) {
                return Err(twice(&first.platform, &first.program, &binary.program));
            }
        }
        let own = Binary::own()?;
        all.entry(own.platform.clone()).or_insert(own);
        Ok(all.into_values().collect())
    }
}

fn twice(platform: &str, first: &Path, second: &Path) -> CliError {
    CliError::usage(format!("--binary: {platform} is {} and {}", first.display(), second.display()))
        .remedy("give one binary for each platform")
}
