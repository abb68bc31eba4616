//! The provider as core starts it: this program under another name, or with core's variable in its environment.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use mortise_provider::serve;

use crate::{
    CliError, Exit,
    connect::provider::{ProviderConnector, SchemaFile},
    env::{self, Env},
};

/// Name of an export's schema file, in the directory of the version.
pub(super) const SNAPSHOT: &str = "schema.json";

/// Variable that names a schema file, for a provider that was installed without one.
const SNAPSHOT_VARIABLE: &str = "MORTISE_PROVIDER_SCHEMA";

/// Serves as a provider if this process was started as one, and returns the exit code. Ctrl-C does not end it: core
/// gets the signal, too, and has calls to finish.
#[must_use]
pub fn launch() -> Option<ExitCode> {
    let arguments: Vec<_> = std::env::args_os().collect();
    if !serve::is_launched(&arguments, &env::process) {
        return None;
    }
    let program = arguments.into_iter().next().map(PathBuf::from).unwrap_or_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return Some(crate::report(Err(CliError::failed("cannot start threads").caused_by(e)))),
    };
    let served = runtime.block_on(async {
        let connector = Arc::new(ProviderConnector::of_environment(snapshot(&program, &env::process)));
        serve::launch(connector, &prefix(&program), &env::process).await
    });
    runtime.shutdown_background();
    Some(crate::report(served.map(|()| Exit::Done).map_err(|e| CliError::failed("provider").caused_by(e))))
}

/// The schema file for a provider without a server: that of the variable, or that of the export from which core
/// installed the program by a link.
fn snapshot(program: &Path, env: Env<'_>) -> Option<SchemaFile> {
    if let Some(named) = env(SNAPSHOT_VARIABLE) {
        return Some(SchemaFile::Named(named.into()));
    }
    let folder = program.parent()?.canonicalize().ok()?;
    Some(SchemaFile::Expected(folder.parent()?.join(SNAPSHOT)))
}

/// Prefix of the names of resources: the type in `terraform-provider-TYPE_v0.1.0`.
fn prefix(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let kind =
        name.strip_prefix("terraform-provider-").map(|rest| rest.split_once("_v").map_or(rest, |(kind, _)| kind));
    kind.filter(|kind| !kind.is_empty()).unwrap_or("mortise").replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_those_of_the_variable_or_of_the_mirror_behind_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(dir.join("mirror/0.1.0/linux_amd64")).unwrap();
        std::os::unix::fs::symlink(dir.join("mirror/0.1.0/linux_amd64"), dir.join("link")).unwrap();
        let program = dir.join("link/terraform-provider-mortise_v0.1.0");
        assert_eq!(snapshot(&program, &|_| None), Some(SchemaFile::Expected(dir.join("mirror/0.1.0/schema.json"))));
        let named = |name: &str| (name == "MORTISE_PROVIDER_SCHEMA").then(|| "/x/schema.json".to_owned());
        assert_eq!(snapshot(&program, &named), Some(SchemaFile::Named("/x/schema.json".into())));
        assert_eq!(snapshot(&dir.join("away/program"), &|_| None), None);
    }

    #[test]
    fn names_of_resources_begin_with_the_programs() {
        for (program, expected) in [
            ("/x/terraform-provider-mortise_v0.1.0", "mortise"),
            ("terraform-provider-edge", "edge"),
            ("/usr/bin/mortise", "mortise"),
            ("terraform-provider-", "mortise"),
        ] {
            assert_eq!(prefix(Path::new(program)), expected);
        }
    }
}
