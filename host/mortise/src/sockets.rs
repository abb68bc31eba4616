//! Names of the unix sockets: a removed one is logged, once, since no client finds it until a restart makes it again.
//! Open connections serve on.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

/// Time between two looks at the names.
const PAUSE: Duration = Duration::from_secs(2);

/// Follows the names for ever.
pub(crate) async fn follow(paths: Vec<PathBuf>) {
    let mut gone = BTreeSet::new();
    loop {
        tokio::time::sleep(PAUSE).await;
        for path in &paths {
            match std::fs::symlink_metadata(path) {
                Ok(_) => drop(gone.remove(path)),
                Err(_) if gone.insert(path) => {
                    tracing::warn!(
                        "the unix socket {} was removed: new clients do not find it; restart mortise to make it again",
                        path.display()
                    );
                }
                Err(_) => {}
            }
        }
    }
}
