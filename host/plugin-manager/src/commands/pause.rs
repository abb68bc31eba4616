//! Holds up every transition, for a backup.

use std::path::PathBuf;

use mortise_resource::Error;
use tokio::sync::oneshot;

use crate::core::Core;

/// A pause of the manager. Transitions wait until it is dropped, so files, resources and serving plugins agree.
#[derive(Debug)]
pub struct Pause {
    /// The plugin folder.
    pub plugin_dir: PathBuf,
    /// Directory of kept components: `<dir>/<plugin>/<sha256>.wasm`.
    pub component_dir: PathBuf,
    /// The configuration's file, if there is one.
    pub config: Option<PathBuf>,
    /// Ends the pause when dropped.
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
            tracing::warn!(
                "a backup holds up changes of plugins for more than {longest:?}; they go on without waiting for it"
            );
        }
        drop(state);
    });
    Ok(pause)
}
