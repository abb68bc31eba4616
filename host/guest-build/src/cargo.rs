//! Call of the inner cargo, and the modules that it reports.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde::Deserialize;

use crate::{Error, StopHandle, Target, environment, error::last_lines, metadata::Package, toolchain::Toolchain};

/// Environment variable that marks a running build, against a guest whose build script builds guests in the directory
/// that is locked here.
pub(crate) const NESTED_BUILD_VARIABLE: &str = "MORTISE_GUEST_BUILD";

/// Shadow stack of a guest. Rust's default of 1 MiB makes a fresh instance three times dearer, since the host clears it
/// for every call.
const STACK_SIZE_FLAG: &str = "link-arg=-zstack-size=32768";

/// A core module that cargo built.
pub(crate) struct Module {
    /// Name of the component: that of the example, or for the library that of the package.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Examples of a package to compile, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Examples {
    None,
    One(String),
    All,
}

/// Parameters of a compilation.
pub(crate) struct Request<'a> {
    pub(crate) package: &'a Package,
    pub(crate) target_dir: &'a Path,
    pub(crate) target: Target,
    pub(crate) examples: &'a Examples,
    /// Whether files and line numbers are kept.
    pub(crate) lines: bool,
    pub(crate) features: &'a [String],
    /// Whether cargo's messages go to the user.
    pub(crate) live: bool,
    /// Whether Cargo.lock must not change.
    pub(crate) locked: bool,
    /// Handle that may end the build.
    pub(crate) stop: Option<&'a StopHandle>,
}

/// Compiles; answers the modules in cargo's order.
pub(crate) fn compile(request: &Request<'_>, toolchain: &Toolchain) -> Result<Vec<Module>, Error> {
    let mut command = command(request, "build");
    command
        .args(["--target", request.target.name(), "--message-format", "json-render-diagnostics", "--lib"])
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags(request, toolchain)?)
        .env(NESTED_BUILD_VARIABLE, request.target_dir);
    match request.examples {
        Examples::None => {}
        Examples::One(name) => {
            command.args(["--example", name]);
        }
        Examples::All => {
            command.arg("--examples");
        }
    }
    if !request.features.is_empty() {
        command.arg("--features").arg(request.features.join(","));
    }
    if request.live {
        command.stderr(Stdio::inherit());
    } else {
        command.args(["--color", "never"]).stderr(Stdio::piped());
    }
    if let Some(jobs) = env::var_os("NUM_JOBS") {
        // Set in build scripts only, from `--jobs` of the outer cargo.
        command.arg("--jobs").arg(jobs);
    }
    if request.lines {
        for setting in ["strip='none'", "debug='line-tables-only'"] {
            command.arg("--config").arg(format!("profile.guest.{setting}"));
        }
    }

    let output = run(request, &mut command)?;
    Ok(modules(&String::from_utf8_lossy(&output.stdout), request.package))
}

/// Removes the artifacts of packages: those for the target, then those for this machine, such as build scripts.
pub(crate) fn clean(request: &Request<'_>, packages: &[&str]) -> Result<(), Error> {
    for target in [Some(request.target.name()), None] {
        let mut command = command(request, "clean");
        command.arg("--quiet").stderr(Stdio::piped());
        for name in packages {
            command.args(["--package", name]);
        }
        command.args(target.map(|name| format!("--target={name}")));
        run(request, &mut command)?;
    }
    Ok(())
}

/// Begins a call of cargo for the package, its target directory and the profile `guest`.
fn command(request: &Request<'_>, subcommand: &str) -> Command {
    let Request { package, target_dir, .. } = request;
    let mut command = Command::new(environment::program("CARGO", "cargo"));
    environment::remove_outer_environment(&mut command);
    command
        .current_dir(&package.root)
        .args([subcommand, "--profile", "guest", "--manifest-path"])
        .arg(&package.manifest)
        .arg("--target-dir")
        .arg(target_dir);
    if request.locked && package.root.join("Cargo.lock").exists() {
        command.arg("--locked");
    }
    if !package.has_guest_profile() {
        add_guest_profile(&mut command);
    }
    command
}

/// Runs cargo, and requires its success.
fn run(request: &Request<'_>, command: &mut Command) -> Result<Output, Error> {
    let output = match request.stop {
        None => command.output(),
        Some(stop) => stop.output(command),
    };
    let output = output.map_err(|source| Error::Run { program: "cargo".into(), source })?;
    if !output.status.success() {
        let stderr = last_lines(&output.stderr);
        return Err(Error::Compile { package: request.package.name.clone(), status: output.status, stderr });
    }
    Ok(output)
}

/// Passes the profile to cargo, for workspaces that do not define it: `[profile.guest]` of this repository's
/// Cargo.toml, as far as it affects the output.
fn add_guest_profile(command: &mut Command) {
    for setting in
        ["inherits='release'", "opt-level=3", "lto='fat'", "codegen-units=1", "panic='abort'", "strip='debuginfo'"]
    {
        command.arg("--config").arg(format!("profile.guest.{setting}"));
    }
}

/// Flags in cargo's encoding, which allows spaces in paths. The last matching mapping wins.
///
/// Cargo compiles everything again whose flags differ, so they are the same for all packages of a target directory. The
/// folder of the package is mapped only where it would show: cargo names the sources below it relatively, and lines have
/// it besides.
fn rustflags(request: &Request<'_>, toolchain: &Toolchain) -> Result<String, Error> {
    let Request { package, target_dir, .. } = *request;
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")));
    let mut maps = Vec::new();
    maps.extend(request.lines.then_some((package.root.as_path(), "/src")));
    maps.push((target_dir, "/target"));
    maps.extend(home.as_deref().map(|home| (home, "/cargo")));
    maps.push((&toolchain.sources, &toolchain.virtual_sources));

    let mut flags = match request.target {
        Target::Bare => vec!["-C".to_owned(), STACK_SIZE_FLAG.to_owned()],
        // The standard library's files and sockets need more; and the stack is not at the bottom there.
        Target::WasiP2 => Vec::new(),
    };
    for (from, to) in maps {
        let from = from.to_str().ok_or_else(|| Error::NotUnicode { path: from.to_owned() })?;
        flags.push(format!("--remap-path-prefix={from}={to}"));
    }
    Ok(flags.join("\u{1f}"))
}

/// A line of `--message-format json` of the reason `compiler-artifact`, as far as it is used.
#[derive(Deserialize)]
struct Artifact {
    reason: String,
    manifest_path: PathBuf,
    target: ArtifactTarget,
    filenames: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct ArtifactTarget {
    name: String,
    kind: Vec<String>,
    crate_types: Vec<String>,
}

/// Picks the package's own cdylibs from cargo's messages. Lines of other reasons have other fields, and are skipped.
fn modules(messages: &str, package: &Package) -> Vec<Module> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Artifact>(line).ok())
        .filter_map(|artifact| module(artifact, package))
        .collect()
}

fn module(artifact: Artifact, package: &Package) -> Option<Module> {
    let Artifact { reason, manifest_path, target, filenames } = artifact;
    let has = |all: &[String], what: &str| all.iter().any(|value| value == what);
    if reason != "compiler-artifact" || manifest_path != package.manifest || !has(&target.crate_types, "cdylib") {
        return None;
    }
    let path = filenames.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "wasm"))?;
    let name = if has(&target.kind, "example") { target.name } else { package.name.clone() };
    Some(Module { name, path })
}
