//! `files`: granted directories. [`GrantedDir`] does the work, on threads that may wait.
//!
//! A call that took too long is answered with a failure, and may still take effect, since a system call cannot be
//! cancelled. At most [`MAX_FILE_THREADS`] threads wait for files at once, so that a hanging file system does not take
//! every thread. A check of the operator's runs a program within such a call ([`check`]).

use std::{sync::Arc, time::Instant};

use mortise_resource::Code;

use crate::{
    bindings::imports::mortise::plugin::files::Host,
    failure::Failure,
    grants::{Directory, Permit},
    host::{
        call_context::{HostCall, HostCallResult},
        check,
        granted_dir::{DirQuota, GrantedDir},
        state::State,
    },
};

/// Threads that work on files at once, for all plugins together.
pub(crate) const MAX_FILE_THREADS: usize = 16;

impl Host for State {
    async fn read(&mut self, directory: String, name: String) -> HostCallResult<Option<Vec<u8>>> {
        self.ask("files.read", |question| async move {
            let limit = question.limit;
            let granted = granted(&question.permit, &directory, false)?;
            blocking(question, move |_| open(&directory, &granted)?.read(&name, limit)).await
        })
        .await
    }

    async fn write(&mut self, directory: String, name: String, content: Vec<u8>) -> HostCallResult<()> {
        self.ask("files.write", |question| async move {
            question.check_size("files.write", content.len())?;
            let granted = granted(&question.permit, &directory, true)?;
            let quota = DirQuota { bytes: granted.bytes.map_or(question.quota.bytes, |size| size.0), ..question.quota };
            let key = question.permit.key(&format!("directories.{directory}.check"));
            blocking(question, move |until| {
                let verify = || {
                    let Some(command) = &granted.check else { return Ok(()) };
                    let candidate = check::Candidate { directory: &granted.path, name: &name, content: &content };
                    // The rest of the time is for the write and its answer.
                    let left = until.saturating_duration_since(Instant::now());
                    check::run(command, &candidate, &key, Instant::now() + left * 4 / 5)
                };
                open(&directory, &granted)?.write(&name, &content, quota, until, verify)
            })
            .await
        })
        .await
    }

    async fn remove(&mut self, directory: String, name: String) -> HostCallResult<()> {
        self.ask("files.remove", |question| async move {
            let granted = granted(&question.permit, &directory, true)?;
            blocking(question, move |_| open(&directory, &granted)?.remove(&name)).await
        })
        .await
    }

    async fn list(&mut self, directory: String) -> HostCallResult<Vec<String>> {
        self.ask("files.list", |question| async move {
            let limit = question.limit;
            let granted = granted(&question.permit, &directory, false)?;
            blocking(question, move |_| open(&directory, &granted)?.list(limit)).await
        })
        .await
    }
}

/// Runs work that waits for the system on a thread for blocking work, and passes it the deadline of its answer.
pub(super) async fn blocking<T: Send + 'static>(
    question: HostCall,
    work: impl FnOnce(Instant) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let until = question.until;
    let stopping = || Failure::new(Code::Unavailable, "the server is stopping; try again later");
    let turn = question.file_turns.acquire_owned().await.map_err(|_| stopping())?;
    let done = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work(until)
    });
    done.await
        .unwrap_or_else(|_| Err(Failure::new(Code::Internal, "the host's thread for files panicked; see the log")))
}

fn granted(permit: &Arc<Permit>, name: &str, write: bool) -> Result<Directory, Failure> {
    let denied = |text| Err(Failure::new(Code::PermissionDenied, text));
    match permit.directory(name) {
        None => denied(format!("directory {name:?} is not granted; {}", permit.directory_remedy(name))),
        Some(directory) if write && !directory.write => denied(format!(
            "directory {name:?} is granted for reading only; for writing, set {}.write = true in config.toml",
            permit.key(&format!("directories.{name}"))
        )),
        Some(directory) => Ok(directory.clone()),
    }
}

/// Opens a granted directory. Errors use the guest's name for it; the path is known to the operator only.
fn open(name: &str, directory: &Directory) -> Result<GrantedDir, Failure> {
    GrantedDir::open(&directory.path).map_err(|e| {
        let text = format!("directory {name:?} cannot be opened: {e}; see its path in the plugin's grants");
        Failure::new(Code::FailedPrecondition, text)
    })
}
