//! Errors of the author's commands. Each one names the fault and the next step.

use std::{io, path::Path};

use mortise_cli::CliError;
use mortise_plugin_host::LoadError;

/// Makes an error about the command line or a file of the user. `next` is the step to take.
pub(crate) fn usage(what: impl Into<String>, next: impl Into<String>) -> CliError {
    CliError::usage(what).remedy(next)
}

/// Makes an error about a failed attempt. `next` is the step to take.
pub(crate) fn failed(what: impl Into<String>, next: impl Into<String>) -> CliError {
    CliError::failed(what).remedy(next)
}

/// Makes an error about a file that cannot be read or written; `verb` names the attempt.
pub(crate) fn file(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CliError {
    let path = path.display().to_string();
    move |fault| {
        let next = match fault.kind() {
            io::ErrorKind::NotFound => format!("see with `ls` whether {path} is spelled right"),
            io::ErrorKind::PermissionDenied => format!("see with `ls -ld` who may {verb} {path}"),
            io::ErrorKind::StorageFull => "make room on the disk; `df -h` shows where".into(),
            _ => format!("look at {path} with `ls -ld`"),
        };
        failed(format!("cannot {verb} {path}"), next).caused_by(fault)
    }
}

/// Makes an error about a component that this host cannot load.
pub(crate) fn load(path: &Path, fault: LoadError) -> CliError {
    failed(path.display().to_string(), remedy(path, &fault)).caused_by(fault)
}

/// Returns the step to take. The error itself names the fault, and often the change.
fn remedy(path: &Path, fault: &LoadError) -> String {
    let path = path.display();
    match fault {
        LoadError::Unreadable { .. } => format!("see with `ls -l {path}` whether it exists and can be read"),
        LoadError::TooCostly { .. } => "split the plugin, or generate less code: nothing raises this limit".into(),
        LoadError::TooLarge { .. } => {
            "build it by `mortise plugin build`, without --lines; or raise sandbox.component_bytes in the server's \
             config.toml"
                .into()
        }
        LoadError::NotAComponent { .. } => {
            "`mortise plugin build` makes a component of a crate; `wasm-tools component new IN.wasm -o OUT.wasm` makes \
             one of a core module that was built against wit/"
                .into()
        }
        LoadError::UnknownImport { .. } | LoadError::Contract { .. } => {
            format!("`mortise plugin inspect {path}` compares all imports and exports with this host")
        }
        LoadError::ExceedsLimit(exceeded) if exceeded.iter().all(|limit| limit.setting.is_some()) => {
            let settings: Vec<_> = exceeded.iter().filter_map(|limit| limit.setting).collect();
            format!("let it need less at the start, or raise {} in config.toml", settings.join(" and "))
        }
        LoadError::ExceedsLimit(_) => {
            "let it need less at the start: no setting raises a fixed limit; `mortise plugin build` makes components below it"
                .into()
        }
        LoadError::Describe(_) => {
            "fix what the plugin does in `describe` (its static table) or in its check of settings, and run `mortise \
             plugin build` again"
                .into()
        }
        LoadError::Settings { key, .. } => format!("set {key} in config.toml, or `settings` in the case"),
        LoadError::Manifest(_) => {
            "change it in the plugin's static table in src/lib.rs, and run `mortise plugin build` again".into()
        }
        LoadError::NotGranted(_) => "grant it in config.toml, or by `grants` in the case".into(),
        LoadError::Host { .. } => "free memory or address space (`ulimit -v`), and try again".into(),
    }
}

#[cfg(test)]
mod tests {
    use mortise_plugin_host::ExceededLimit;

    use super::*;

    #[test]
    fn the_advice_for_a_limit_names_its_setting_or_that_it_is_fixed() {
        let advice = |setting| {
            let what = "3 memories".to_owned();
            remedy(Path::new("a.wasm"), &LoadError::ExceedsLimit(vec![ExceededLimit { what, limit: 2, setting }]))
        };
        let adjustable = advice(Some("sandbox.memory_bytes"));
        assert!(adjustable.ends_with("or raise sandbox.memory_bytes in config.toml"), "{adjustable}");
        let fixed = advice(None);
        assert!(fixed.contains("no setting raises a fixed limit") && !fixed.contains("config.toml"), "{fixed}");
    }
}
