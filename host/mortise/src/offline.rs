//! Work on a data directory while no server uses it: `restore`, `check` and `compact`.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use clap::Args;
use mortise_backup::{Archive, BackupError, Manifest, Salvaged, Target, finish_interrupted, restore, salvage};
use mortise_cli::{
    CliError, Exit, Progress, Unit,
    ui::{line, print},
};
use mortise_store::{
    Compaction, SledBackend, StoreError,
    check::{Problem, Report},
};

use crate::{
    data_dir::make_private,
    settings::{Config, Engine, Overrides, Settings, flag_help},
};

/// Most problems listed.
const MAX_PROBLEMS: usize = 100;

/// Directories to work on. A flag beats the environment, which beats the file.
#[derive(Debug, Args)]
pub(crate) struct Directories {
    /// Configuration file that names the directories, where flags do not
    #[arg(long, value_name = "FILE", env = "MORTISE_CONFIG")]
    config: Option<PathBuf>,
    #[arg(long, value_name = "DIR", help = flag_help("data_dir", "The data directory", ""))]
    data_dir: Option<PathBuf>,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The backup; - is standard input. With --salvage also the data directory of a damaged store
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) options: RestoreOptions,
}

/// Options of `restore` and `backup restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreOptions {
    #[command(flatten)]
    directories: Directories,
    #[arg(long, value_name = "DIR", help = flag_help("plugin_dir", "The plugin folder", ""))]
    plugin_dir: Option<PathBuf>,
    /// Replaces the existing store, its plugins, and files of the plugin folder that have the same names
    #[arg(long)]
    force: bool,
    /// Reads all of the backup and shows its content; restores nothing
    #[arg(long, conflicts_with = "force")]
    dry_run: bool,
    /// Saves what can be read of a damaged backup or store into an empty directory, and lists what cannot
    #[arg(long, conflicts_with_all = ["force", "dry_run"])]
    salvage: bool,
    /// Keeps the store's id of the backup instead of a new one: the former store will never serve again
    #[arg(long, conflicts_with_all = ["dry_run", "salvage"])]
    keep_id: bool,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    directories: Directories,
    /// Directory for the copy to check, for a store on a read-only medium [default: in the store, or that for temporary
    /// files if the disk is full]
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,
}

/// Arguments of `compact`.
#[derive(Debug, Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    directories: Directories,
}

impl Directories {
    /// Returns the data directory and the plugin folder.
    fn resolve(self, plugin_dir: Option<PathBuf>) -> Result<(PathBuf, PathBuf), CliError> {
        let config = self.config(plugin_dir)?;
        Ok((config.data_dir, config.plugin_dir))
    }

    /// Returns the settings with these directories.
    pub(crate) fn config(self, plugin_dir: Option<PathBuf>) -> Result<Config, CliError> {
        let overrides = Overrides { data_dir: self.data_dir, plugin_dir, ..Overrides::default() };
        let env = |name: &str| std::env::var(name).ok();
        let settings = Settings::load(self.config.as_deref(), &env, overrides);
        Ok(settings.map_err(|e| CliError::because(Exit::Usage, e))?.config)
    }
}

impl Restore {
    /// Blocks until the restore is done.
    pub(crate) fn run(self) -> Result<Exit, CliError> {
        let Self { file: path, options } = self;
        let RestoreOptions { directories, plugin_dir, force, dry_run, salvage, keep_id } = options;
        let config = directories.config(plugin_dir)?;
        let is_shared = config.store.engine == Engine::Etcd;
        let Config { data_dir, plugin_dir, .. } = config;
        if salvage {
            return salvage_into(&path, &data_dir);
        }
        if dry_run {
            return verify(&path, "nothing was restored");
        }
        let archive = open(&path)?;
        let manifest = archive.manifest().clone();
        let target = Target { data_dir: data_dir.clone(), plugin_dir: plugin_dir.clone(), force, keep_id };
        let progress = Progress::begin("restoring", Some(manifest.head().resources() + manifest.events), Unit::Items);
        let mut before = 0;
        let done = restore(archive, &target, &mut |now| {
            // Progress is shown once in a thousand records.
            if now.records - before >= 1000 {
                progress.advance(now.records - before);
                before = now.records;
            }
        });
        drop(progress);
        let done = done.map_err(failure)?;
        keep_private(&data_dir)?;
        print(describe(&manifest))?;
        let replaced = if done.replaced { ", replacing what was there" } else { "" };
        line(format!("restored into {}{replaced}", data_dir.display()))?;
        if !done.folder.is_empty() {
            line(format!("plugin folder {}: {}", plugin_dir.display(), done.folder.join(", ")))?;
        }
        if is_shared {
            line("store.engine is etcd: `mortise migrate --to etcd` moves the content there, into an empty prefix")?;
        }
        if let Some(config) = done.config {
            line(format!("its configuration is in {}; it is not in use there", config.display()))?;
        }
        Ok(Exit::Done)
    }
}

impl Check {
    /// Blocks until the check is done.
    pub(crate) fn run(self) -> Result<Exit, CliError> {
        let (data_dir, _) = self.directories.resolve(None)?;
        let store = data_dir.join("store");
        let report = SledBackend::check_offline(&store, self.work_dir.as_deref())
            .map_err(|error| without_space(error.into()))?;
        let Report { format, sequence, events, bytes, problems, copied_to, .. } = report;
        if let Some(dir) = copied_to {
            line(format!("its disk has no space for a copy; checked one in {}", dir.display()))?;
        }
        let mb = bytes.div_ceil(1 << 20);
        line(format!("{}: format {format}, commit {sequence}, {events} events, {mb} MiB", store.display()))?;
        if problems.is_empty() {
            line("no problems found")?;
            return Ok(Exit::Done);
        }
        let error = CliError::failed(format!("{} is damaged; problems: {}", store.display(), problems.len()));
        Err(listed(error, &problems).remedy(remedy(&data_dir)))
    }
}

impl Compact {
    /// Blocks until the store is compacted.
    pub(crate) fn run(self) -> Result<Exit, CliError> {
        let (data_dir, _) = self.directories.resolve(None)?;
        finish_interrupted(&data_dir).map_err(failure)?;
        let store = data_dir.join("store");
        let Compaction { before, after } =
            SledBackend::compact(&store).map_err(|error| failure(error.into()).remedy("the store is as it was"))?;
        keep_private(&data_dir)?;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        line(format!("{}: {:.1} MiB before, {:.1} MiB now", store.display(), mib(before), mib(after)))?;
        Ok(Exit::Done)
    }
}

/// Keeps other users from the data directory, also if it was there before.
fn keep_private(data_dir: &Path) -> Result<(), CliError> {
    make_private(data_dir).map(drop).map_err(|fault| {
        CliError::failed(format!("the work is done, but other users may read {}: {fault}", data_dir.display()))
            .remedy("change its owner, or take the permissions of others: chmod -R go= DIR")
    })
}

/// Converts an error as [`failure`] does, with a remedy for a full disk.
fn without_space(error: BackupError) -> CliError {
    let is_full = matches!(&error, BackupError::Store(StoreError::Io { source, .. })
        if source.kind() == io::ErrorKind::StorageFull);
    let error = failure(error);
    if is_full { error.remedy("name a directory with space for a copy of the store: --work-dir DIR") } else { error }
}

/// Adds the problems to an error, or the first of them.
fn listed(mut error: CliError, problems: &[Problem]) -> CliError {
    for problem in problems.iter().take(MAX_PROBLEMS) {
        error = error.detail(problem.to_string());
    }
    match problems.len().checked_sub(MAX_PROBLEMS) {
        None | Some(0) => error,
        Some(more) => error.detail(format!("and {more} more")),
    }
}

/// Saves what can be read. Fails if anything is left out, and lists it.
fn salvage_into(source: &Path, data_dir: &Path) -> Result<Exit, CliError> {
    let Salvaged { resources, commit, kept_components, left_out } = salvage(source, data_dir).map_err(unsalvaged)?;
    keep_private(data_dir)?;
    for (type_key, count) in &resources {
        line(format!("  {type_key}: {count}"))?;
    }
    let count = resources.values().sum::<u64>();
    let into = data_dir.display();
    line(format!("saved into {into}: {count} resources, {kept_components} components; new versions follow {commit}"))?;
    if left_out.is_empty() {
        return Ok(Exit::Done);
    }
    let error =
        CliError::failed(format!("not everything of {} can be read; problems: {}", source.display(), left_out.len()));
    Err(listed(error, &left_out))
}

/// Opens a backup and reads all of it; `-` is standard input.
fn open(path: &Path) -> Result<Archive, CliError> {
    if path.as_os_str() == "-" {
        return from_stdin();
    }
    let opened = File::open(path).map_err(|e| CliError::file("cannot read", path, e))?;
    Archive::from_file(path.to_owned(), opened).map_err(failure)
}

/// Reads all of a backup and shows its content.
pub(crate) fn verify(path: &Path, outcome: &str) -> Result<Exit, CliError> {
    let archive = open(path)?;
    print(describe(archive.manifest()))?;
    line(format!("{}: a whole backup; {outcome}", path.display()))?;
    Ok(Exit::Done)
}

/// Reads a backup from standard input. A backup counts only once its end was seen, so it is kept in a file without a
/// name.
fn from_stdin() -> Result<Archive, CliError> {
    let dir = std::env::temp_dir();
    let failed = |e: io::Error| {
        CliError::failed(format!("cannot keep standard input in {}", dir.display()))
            .caused_by(e)
            .remedy("set TMPDIR to a directory with room for it; or save it as a file first")
    };
    let mut file = tempfile::tempfile_in(&dir).map_err(failed)?;
    io::copy(&mut io::stdin().lock(), &mut file).map_err(failed)?;
    Archive::from_file("standard input".into(), file).map_err(failure)
}

/// Remedy for a damaged store.
fn remedy(data_dir: &Path) -> String {
    format!(
        "mortise restore FILE --data-dir {0} --force puts a backup in its place; without one, mortise restore --salvage {0} \
         --data-dir EMPTY saves what can be read",
        data_dir.display()
    )
}

fn describe(manifest: &Manifest) -> String {
    let head = manifest.head();
    let mut text = format!(
        "taken {} by mortise {}: the state of commit {}, {} resources, {} events, {} components, {} files of the plugin folder\n",
        manifest.taken_at,
        manifest.mortise_version,
        manifest.commit,
        head.resources(),
        manifest.events,
        manifest.kept_components,
        manifest.folder_files,
    );
    for count in &manifest.resources {
        text.push_str(&format!("  {}.{}: {}\n", count.group, count.kind, count.count));
    }
    text
}

/// Converts an error as [`failure`] does, but does not advise to replace what is in the way, since that may be the
/// damaged store.
fn unsalvaged(error: BackupError) -> CliError {
    match error {
        BackupError::Occupied { path, what } => {
            CliError::usage(format!("{}: {what}; choose an empty directory", path.display()))
        }
        other => failure(other),
    }
}

/// Converts an error: to wrong usage, where something is in the way or is not a backup; to a failure, where something
/// broke.
fn failure(error: BackupError) -> CliError {
    let exit = match error {
        BackupError::Occupied { .. } | BackupError::Nested { .. } | BackupError::NotABackup { .. } => Exit::Usage,
        BackupError::Store(StoreError::Absent { .. }) => Exit::Usage,
        _ => Exit::Failed,
    };
    CliError::because(exit, error)
}
