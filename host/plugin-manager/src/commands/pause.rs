//! Holds every transition up, for a backup.

use std::path::PathBuf;

use mortise_resource::Error;
use tokio::sync::oneshot;

use crate::core::Core;

/// As long as it is there, the manager makes no transition: files, resources and what serves agree.
#[derive(Debug)]
pub struct Pause {
    /// The plugin folder.
    pub plugin_dir: PathBuf,
    /// Where components are kept: `<dir>/<plugin>/<sha256>.wasm`.
    pub component_dir: PathBuf,
    /// The configuration's file, if there is one.
    pub config: Option<PathBuf>,
    /// Dropped with it.
    _until: oneshot::Sender<()>,
}

pub(crate) async fn pause(core: &Core) -> Result<Pause, Error> {
    let state = core.lock().await;
    let options = core.options.clone();
    let (until, dropped) = oneshot::channel();
    let pause = Pause {
        plugin_dir: options.plugin_dir.clone(),
        component_dir: options.component_dir.clone(),
        config: options.config.path.clone(),
        _until: until,
    };
    core.work.spawn(async move {
        let longest = options.limits.pause;
        if tokio::time::timeout(longest, dropped).await.is_err() {
            tracing::warn!("a backup holds plugins up for more than {longest:?}; they go on without it");
        }
        drop(state);
    });
    Ok(pause)
}
