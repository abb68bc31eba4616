//! The provider as core starts it: this program under another name, or with core's variable in its environment.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use mortise_provider::serve;

use crate::{CliError, Exit, connect::provider::ProviderConnector, env};

/// Ending of the schema file's name, after the program's name.
pub(super) const SNAPSHOT: &str = ".schema.json";

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
        let connector = Arc::new(ProviderConnector::of_environment(Some(snapshot(&program))));
        serve::launch(connector, &prefix(&program), &env::process).await
    });
    runtime.shutdown_background();
    Some(crate::report(served.map(|()| Exit::Done).map_err(|e| CliError::failed("provider").caused_by(e))))
}

fn snapshot(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(SNAPSHOT);
    name.into()
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
