//! The builder of guests: source, target and destination of a build.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

use crate::{
    Error, StopHandle, Target,
    cargo::{self, Examples, NESTED_BUILD_VARIABLE, Request},
    component, depinfo,
    metadata::{Package, PackageSelector},
    origins,
    toolchain::Toolchain,
};

/// A build to run.
#[derive(Debug, Clone)]
pub struct Build {
    which: PackageSelector,
    target: Target,
    examples: Examples,
    lines: bool,
    features: Vec<String>,
    target_dir: Option<PathBuf>,
    out_dir: OutDir,
    live: bool,
    locked: bool,
    stop: Option<StopHandle>,
}

/// Destination of components.
#[derive(Debug, Clone, PartialEq, Eq)]
enum OutDir {
    /// A directory below cargo's artifacts of the guest; stale components in it are removed.
    Default,
    /// The given directory.
    Explicit(PathBuf),
    /// A folder of the workspace's target directory.
    InTarget(String),
}

/// Components of one build, and the files that went into them.
#[derive(Debug, Clone)]
pub struct BuildOutput {
    /// Directory of the components.
    pub dir: PathBuf,
    /// Components, in the order of their names.
    pub components: Vec<Component>,
    /// Local files and directories that went into them, with the manifests of their packages.
    pub inputs: Vec<PathBuf>,
}

/// A component.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Component {
    /// Name of the package, or of the example.
    pub name: String,
    /// Path: the file `<name>.wasm` in [`BuildOutput::dir`].
    pub path: PathBuf,
}

impl Build {
    /// Builds a package of the workspace of the calling package (`CARGO_MANIFEST_DIR`, else the current directory).
    pub fn package(name: impl Into<String>) -> Self {
        Self::new(PackageSelector::Named(name.into()))
    }

    /// Builds the package whose Cargo.toml is in `dir`, in any workspace.
    pub fn manifest_dir(dir: impl Into<PathBuf>) -> Self {
        Self::new(PackageSelector::At(dir.into()))
    }

    fn new(which: PackageSelector) -> Self {
        Self {
            which,
            target: Target::Bare,
            examples: Examples::None,
            lines: false,
            features: Vec::new(),
            target_dir: None,
            out_dir: OutDir::Default,
            live: false,
            locked: true,
            stop: None,
        }
    }

    /// Also builds the package's examples that are cdylibs, in the same call of cargo.
    #[must_use]
    pub fn examples(mut self) -> Self {
        self.examples = Examples::All;
        self
    }

    /// Also builds this example of the package. Set an [`out_dir`](Self::out_dir) with it: all other components are
    /// removed from the default one.
    #[must_use]
    pub fn example(mut self, name: impl Into<String>) -> Self {
        self.examples = Examples::One(name.into());
        self
    }

    /// Sets the target.
    #[must_use]
    pub fn target(mut self, target: Target) -> Self {
        self.target = target;
        self
    }

    /// Keeps files and line numbers (DWARF) for backtraces. The component is about ten times as large.
    #[must_use]
    pub fn lines(mut self) -> Self {
        self.lines = true;
        self
    }

    /// Enables features of the package.
    #[must_use]
    pub fn features<T: Into<String>>(mut self, features: impl IntoIterator<Item = T>) -> Self {
        self.features.extend(features.into_iter().map(Into::into));
        self
    }

    /// Sets the directory of cargo's artifacts. The default is `<target directory of the workspace>/guest`, so that
    /// every build script and test of a workspace shares one. It must never be that of the outer cargo.
    #[must_use]
    pub fn target_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.target_dir = Some(dir.into());
        self
    }

    /// Sets the directory of the components. The default is `<target dir>/components/<package>` (`components-wasip2`
    /// for that target). Components that are no longer built are removed from the default directory, and stay in a
    /// given one.
    #[must_use]
    pub fn out_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.out_dir = OutDir::Explicit(dir.into());
        self
    }

    /// Puts components into this folder of the workspace's target directory, keeps stale ones, and compiles in that
    /// directory, too: for commands, which must ignore `OUT_DIR` if it happens to be set.
    #[must_use]
    pub fn out_in_target(mut self, folder: impl Into<String>) -> Self {
        self.out_dir = OutDir::InTarget(folder.into());
        self
    }

    /// Shows cargo's progress and the compiler's messages on standard error while it works; the error does not repeat
    /// them.
    #[must_use]
    pub fn live(mut self) -> Self {
        self.live = true;
        self
    }

    /// Lets another thread end the build.
    #[must_use]
    pub fn stopped_by(mut self, stop: &StopHandle) -> Self {
        self.stop = Some(stop.clone());
        self
    }

    /// Lets cargo update Cargo.lock, as after a dependency was added.
    #[must_use]
    pub fn unlocked(mut self) -> Self {
        self.locked = false;
        self
    }

    /// Compiles the modules and makes components of them.
    ///
    /// # Errors
    /// Faults of cargo, rustup, wit-component or the file system; see [`Error`].
    pub fn run(&self) -> Result<BuildOutput, Error> {
        let dir = self.dir()?;
        let package = Package::find(&dir, &self.which)?;
        let target_dir = match &self.target_dir {
            Some(given) => std::path::absolute(given).map_err(Error::file("find", given))?,
            None => self.out_dir.target_base(&package).join("guest"),
        };
        if env::var_os(NESTED_BUILD_VARIABLE).is_some_and(|held| Path::new(&held) == target_dir) {
            return Err(Error::Nested { target_dir });
        }
        let out_dir = match &self.out_dir {
            OutDir::Explicit(given) => std::path::absolute(given).map_err(Error::file("find", given))?,
            OutDir::InTarget(folder) => package.target_directory.join(folder),
            OutDir::Default => target_dir.join(format!("components{}", self.target.suffix())).join(&package.name),
        };
        fs::create_dir_all(&target_dir).map_err(Error::file("create", &target_dir))?;
        fs::create_dir_all(&out_dir).map_err(Error::file("create", &out_dir))?;

        // Held to the end: rustup does not lock, and a second cargo must not replace a module while it is read here.
        let lock = target_dir.join(".guest-build.lock");
        let held = fs::File::create(&lock).map_err(Error::file("create", &lock))?;
        held.lock().map_err(Error::file("lock", &lock))?;

        let toolchain = Toolchain::find(&dir, self.target)?;
        let request = Request {
            package: &package,
            target: self.target,
            target_dir: &target_dir,
            examples: &self.examples,
            lines: self.lines,
            features: &self.features,
            live: self.live,
            locked: self.locked,
            stop: self.stop.as_ref(),
        };
        origins::claim(&target_dir, &package.local, |others| cargo::clean(&request, others))?;
        let modules = cargo::compile(&request, &toolchain)?;
        if modules.is_empty() {
            return Err(Error::NoLibrary { package: package.name });
        }

        let mut components = Vec::new();
        let mut inputs = BTreeSet::from([package.root.join("Cargo.toml"), package.manifest.clone()]);
        inputs.extend(Some(package.root.join("Cargo.lock")).filter(|lock| lock.exists()));
        for module in modules {
            let bytes = fs::read(&module.path).map_err(Error::file("read", &module.path))?;
            let path = out_dir.join(&module.name).with_added_extension("wasm");
            component::write(&path, &component::encode(&module.name, &bytes)?)?;
            inputs.extend(inputs_of(&module.path, &target_dir));
            components.push(Component { name: module.name, path });
        }
        components.sort();
        if self.out_dir == OutDir::Default {
            component::remove_stale_components(
                &out_dir,
                &components.iter().map(|component| &component.path).collect::<Vec<_>>(),
            )?;
        }
        Ok(BuildOutput { dir: out_dir, components, inputs: inputs.into_iter().collect() })
    }

    /// Compiles the package's library in a build script, copies the component into `OUT_DIR`, and sets `variable` for
    /// the crate, so that `include_bytes!(env!("…"))` is the component. Names the inputs for cargo to rebuild on
    /// change.
    ///
    /// # Errors
    /// Those of [`Build::run`].
    pub fn embed(&self, variable: &str) -> Result<(), Error> {
        let built = self.run()?;
        let component = built.components.first().ok_or_else(|| Error::NoLibrary { package: variable.to_owned() })?;
        let bytes = fs::read(&component.path).map_err(Error::file("read", &component.path))?;
        // Another build may replace the shared copy while the compiler reads it; this copy is private.
        let out = env::var_os("OUT_DIR").map_or_else(|| built.dir.clone(), PathBuf::from);
        let path = out.join(&component.name).with_added_extension("wasm");
        component::write(&path, &bytes)?;
        print_cargo_instruction("rustc-env", &format!("{variable}={}", path_as_str(&path)?));
        built.emit_rerun_if_changed()
    }

    /// Directory in which cargo is asked about the workspace.
    fn dir(&self) -> Result<PathBuf, Error> {
        match &self.which {
            PackageSelector::At(dir) => Ok(dir.clone()),
            PackageSelector::Named(_) => match env::var_os("CARGO_MANIFEST_DIR") {
                Some(dir) => Ok(dir.into()),
                None => env::current_dir().map_err(Error::file("find", ".")),
            },
        }
    }
}

impl BuildOutput {
    /// Path of the component of that name.
    #[must_use]
    pub fn component(&self, name: &str) -> Option<&Path> {
        self.components.iter().find(|component| component.name == name).map(|component| component.path.as_path())
    }

    /// Prints a `cargo::rerun-if-changed` line for every input.
    ///
    /// # Errors
    /// [`Error::NotUnicode`]: cargo cannot take the path.
    pub fn emit_rerun_if_changed(&self) -> Result<(), Error> {
        for input in &self.inputs {
            print_cargo_instruction("rerun-if-changed", path_as_str(input)?);
        }
        Ok(())
    }
}

impl OutDir {
    /// The target directory that holds the guests'. In build scripts and tests it comes from `OUT_DIR`, which follows
    /// `--target-dir`: it is the nearest directory above that cargo tagged. Elsewhere it is the one that cargo names.
    fn target_base(&self, package: &Package) -> PathBuf {
        let out = env::var_os("OUT_DIR").map(PathBuf::from).filter(|_| !matches!(self, Self::InTarget(_)));
        let tagged = out.as_deref().and_then(|out| out.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file()));
        tagged.unwrap_or(&package.target_directory).to_owned()
    }
}

/// Files that went into a module, with the manifests of their packages. Generated files are left out: they follow from
/// the rest.
fn inputs_of(module: &Path, target_dir: &Path) -> BTreeSet<PathBuf> {
    let text = fs::read_to_string(module.with_extension("d")).unwrap_or_default();
    let mut inputs = BTreeSet::new();
    for file in depinfo::parse(&text).into_iter().filter(|file| !file.starts_with(target_dir)) {
        let manifest = file.ancestors().skip(1).map(|dir| dir.join("Cargo.toml")).find(|path| path.is_file());
        inputs.extend(manifest);
        inputs.insert(file);
    }
    inputs
}

/// Prints an instruction for cargo, which reads the standard output of build scripts.
#[allow(clippy::print_stdout, reason = "cargo reads the standard output")]
fn print_cargo_instruction(key: &str, value: &str) {
    println!("cargo::{key}={value}");
}

fn path_as_str(path: &Path) -> Result<&str, Error> {
    path.to_str().ok_or_else(|| Error::NotUnicode { path: path.to_owned() })
}
