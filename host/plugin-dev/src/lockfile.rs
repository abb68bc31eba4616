//! The lock file of a new plugin, so that its first build uses the versions that this binary was tested with.

/// A plugin's dependencies in cargo's format, in the order of their names, without the plugin's own crate.
const LOCK: &str = include_str!("../template/Cargo.lock.in");

/// Builds the lock file of a new crate: the template's, with the crate at its place in the order of the names.
pub(crate) fn lock_file(name: &str) -> String {
    let own =
        format!("\nname = \"{name}\"\nversion = \"0.1.0\"\ndependencies = [\n \"mortise-plugin\",\n \"prost\",\n]\n");
    let mut packages = LOCK.split("\n[[package]]").map(str::to_owned);
    let head = packages.next().unwrap_or_default();
    let mut packages: Vec<String> = packages.map(|package| package.trim_end().to_owned() + "\n").collect();
    let place = packages.iter().position(|package| package_name(package) > name).unwrap_or(packages.len());
    packages.insert(place, own);
    format!("{}\n\n[[package]]{}", head.trim_end(), packages.join("\n[[package]]"))
}

fn package_name(package: &str) -> &str {
    package.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).unwrap_or_default()
}

/// Whether a crate of that name is among the template's dependencies.
pub(crate) fn is_dependency(name: &str) -> bool {
    LOCK.split("\n[[package]]").skip(1).any(|package| package_name(package) == name)
}

#[cfg(test)]
mod tests {
    use std::{path::Path, process::Command};

    use super::*;

    #[test]
    fn the_lock_file_has_the_versions_of_the_workspace() {
        let whole = include_str!("../../../Cargo.lock");
        let known: Vec<_> = whole.split("\n[[package]]").skip(1).map(heading).collect();
        for package in LOCK.split("\n[[package]]").skip(1).map(heading) {
            assert!(
                known.contains(&package),
                "{package:?} is not in the workspace's Cargo.lock: delete template/Cargo.lock.in's entries and let cargo \
                 write them again in a new plugin"
            );
        }
    }

    #[test]
    fn the_lock_file_has_what_the_sdk_depends_on() {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plugin-from-scratch");
        // Unlike `cargo metadata`, it needs no package of another platform on this machine.
        let args = ["update", "--workspace", "--locked", "--offline"];
        let done = Command::new(env!("CARGO")).args(args).current_dir(&example).output().unwrap();
        let faults = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "run `cargo update --workspace` in {}: {faults}", example.display());
        let lock = std::fs::read_to_string(example.join("Cargo.lock")).unwrap();
        assert_eq!(
            lock_file("jukebox"),
            lock,
            "template/Cargo.lock.in is the example's lock file without its own crate"
        );
    }

    /// Name and version.
    fn heading(package: &str) -> String {
        package.lines().filter(|line| line.starts_with("name") || line.starts_with("version")).collect()
    }

    #[test]
    fn the_new_crate_stands_in_order() {
        for name in ["aaa", "guest-book", "zzz"] {
            let text = lock_file(name);
            let names: Vec<_> = text.split("\n[[package]]").skip(1).map(package_name).collect();
            assert!(names.is_sorted() && names.contains(&name), "{names:?}");
        }
    }
}
