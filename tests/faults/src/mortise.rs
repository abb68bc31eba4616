//! The `mortise` binary: servers, their backups and compiled code, and the effect of flipped bits on the latter two.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc::RecvTimeoutError,
    time::Duration,
};

use mortise_store::{Backend as _, Options, RecordKind, SledBackend};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Outcome, files, process::lines_of};

/// Time to start after which a server counts as hanging.
const PATIENCE: Duration = Duration::from_secs(50);
/// The name of a backup in its directory.
const BACKUP: &str = "backup.tar.gz";
/// A resource whose genre the bundled plugin sets, and one that it refuses.
const GOOD: &str = "id: {name: korn, type: demo.v2.Artist}\ndata: {name: Korn}\n";
const BAD: &str = "id: {name: none, type: demo.v2.Artist}\ndata: {genre: GENRE_JAZZ}\n";

/// Path of the binary.
#[derive(Debug, Clone)]
pub(crate) struct Mortise(pub(crate) PathBuf);

/// A running server, killed when dropped.
struct Server {
    process: Child,
    grpc: String,
}

/// Content of a restored data directory: records by kind and commit, and the files beside the store.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Restored {
    records: BTreeMap<(RecordKind, u64), Vec<u8>>,
    beside: BTreeMap<PathBuf, Vec<u8>>,
}

impl Mortise {
    fn command(&self, arguments: &[&str]) -> Outcome<Output> {
        let no_log = [("MORTISE_LOG_LEVEL", "error"), ("NO_COLOR", "1")];
        Ok(Command::new(&self.0).args(arguments).envs(no_log).stdin(Stdio::null()).output()?)
    }

    fn serve(&self, data: &Path) -> Outcome<Server> {
        let log = data.with_extension("log");
        let mut process = Command::new(&self.0)
            .args(["dev", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--data-dir"])
            .arg(data)
            .arg("--plugin-dir")
            .arg(data.with_extension("plugins"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log)?)
            .spawn()?;
        let lines = lines_of(&mut process)?;
        let mut server = Server { process, grpc: String::new() };
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    if let Some((_, rest)) = line.split_once("mortise ready: grpc=") {
                        server.grpc = rest.split(' ').next().unwrap_or_default().to_owned();
                        return Ok(server);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Err("the server does not become ready".into()),
                Err(RecvTimeoutError::Disconnected) => {
                    let (status, log) = (server.process.wait()?, fs::read_to_string(&log)?);
                    let last = log.lines().last().unwrap_or_default();
                    return Err(format!("the server ended with {status}: {last}").into());
                }
            }
        }
    }

    /// Takes a backup of a store into a directory.
    pub(crate) fn make_backup(&self, store: &Path, to: &Path) -> Outcome<()> {
        let data = to.with_extension("data");
        files::copy(store, &data.join("store"))?;
        fs::create_dir_all(to)?;
        let server = self.serve(&data)?;
        let made = self.command(&["backup", &to.join(BACKUP).to_string_lossy(), "--grpc-addr", &server.grpc])?;
        server.stop()?;
        fs::remove_dir_all(&data)?;
        if made.status.success() { Ok(()) } else { Err(said(&made).into()) }
    }

    /// Restores the backup in a directory; the inner error is the text of the command.
    pub(crate) fn restore(&self, dir: &Path) -> Outcome<Result<Restored, String>> {
        let (data, plugins) = (dir.join("data"), dir.join("plugins"));
        let (file, to, folder) = (dir.join(BACKUP), data.to_string_lossy(), plugins.to_string_lossy());
        let arguments = ["restore", &file.to_string_lossy(), "--data-dir", &to, "--plugin-dir", &folder];
        let made = self.command(&arguments)?;
        if !made.status.success() {
            return Ok(Err(said(&made)));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let records = runtime.block_on(async {
            let store = SledBackend::open(Options::new(data.join("store")))?;
            let mut snapshot = store.snapshot().await?;
            let mut records = BTreeMap::new();
            while let Some(page) = snapshot.next().await? {
                records.extend(page.into_iter().map(|record| ((record.kind, record.sequence), record.payload)));
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(records)
        })?;
        let beside = data.join("plugins");
        let read = |file: PathBuf| fs::read(beside.join(&file)).map(|bytes| (file, bytes));
        let beside = files::list(&beside)?.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(Ok(Restored { records, beside }))
    }

    /// Judges a backup with a flipped bit.
    pub(crate) fn judge_backup(&self, dir: &Path, before: &Restored) -> Outcome<(&'static str, String)> {
        let file = dir.join(BACKUP);
        let nowhere = dir.join("nowhere");
        let (file, to) = (file.to_string_lossy(), nowhere.to_string_lossy());
        let dry = self.command(&["restore", &file, "--dry-run", "--data-dir", &to, "--plugin-dir", &to])?;
        let restored = self.restore(dir)?;
        Ok(match (dry.status.success(), restored) {
            (false, _) if said(&dry).contains("panicked") => ("panics", said(&dry)),
            (false, Err(_)) if said(&dry).contains(BACKUP) => ("refused", said(&dry)),
            (false, Err(_)) => ("unnamed", said(&dry)),
            (true, Err(fault)) => ("WRONG", format!("--dry-run accepts the backup, and restore fails: {fault}")),
            (false, Ok(_)) => ("WRONG", format!("the backup is restored, and --dry-run fails: {}", said(&dry))),
            (true, Ok(restored)) if restored == *before => ("right", String::new()),
            (true, Ok(_)) => ("WRONG", "something else is restored".to_owned()),
        })
    }

    /// Makes a data directory with compiled code in it.
    pub(crate) fn make_code(&self, to: &Path) -> Outcome<()> {
        self.answers(to).map(drop)
    }

    /// Starts a server and asks the bundled plugin: returns the value that it sets and its refusal.
    pub(crate) fn answers(&self, data: &Path) -> Outcome<String> {
        let (good, bad) = (data.with_extension("good"), data.with_extension("bad"));
        fs::write(&good, GOOD)?;
        fs::write(&bad, BAD)?;
        let server = self.serve(data)?;
        let ask = |arguments: &[&str]| {
            let arguments: Vec<_> = arguments.iter().copied().chain(["--grpc-addr", &server.grpc]).collect();
            self.command(&arguments)
        };
        let (good, bad) = (good.to_string_lossy(), bad.to_string_lossy());
        let applied = ask(&["apply", "-f", &good])?;
        let stored = ask(&["get", "demo.v2.Artist", "korn", "-o", "yaml"])?;
        let refused = ask(&["apply", "-f", &bad])?;
        server.stop()?;
        if !applied.status.success() {
            return Err(said(&applied).into());
        }
        let stored = String::from_utf8_lossy(&stored.stdout).into_owned();
        // Its id and its version differ each time.
        let stored = stored.split_once("data:").map(|(_, data)| data.to_owned()).ok_or("nothing was stored")?;
        let refused = said(&refused).replace(&*bad, "FILE");
        Ok(format!("{stored}{refused}"))
    }

    /// Judges a data directory with a flipped bit in its compiled code, or beside it.
    pub(crate) fn judge_code(&self, data: &Path, file: &Path, before: &str) -> Outcome<(&'static str, String)> {
        let flipped = fs::read(data.join(file))?;
        let answers = match self.answers(data) {
            Ok(answers) => answers,
            Err(error) => return Ok(("WRONG", format!("the server: {error}"))),
        };
        if answers != before {
            return Ok(("WRONG", format!("the plugin answers {answers:?}")));
        }
        let stays = fs::read(data.join(file)).is_ok_and(|now| now == flipped);
        Ok(match file.extension().is_some_and(|extension| extension == "bin") {
            true if stays => ("WRONG", "compiled code with another bit counts".to_owned()),
            true => ("refused", "it was compiled again".to_owned()),
            false => ("right", if stays { "the file is as it was" } else { "the file was made again" }.to_owned()),
        })
    }
}

impl Server {
    fn stop(mut self) -> Outcome<()> {
        if let Some(id) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            kill_process(id, Signal::TERM)?;
        }
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Returns the error text of a command.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}
