//! Ctrl-C ends a command; but not while another program has the terminal, which gets the signal, too.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many parts of the program want to be left alone.
static SHIELDS: AtomicUsize = AtomicUsize::new(0);

/// While one lives, Ctrl-C is left to the program that has the terminal, such as an editor.
#[derive(Debug)]
pub struct Shield(());

impl Shield {
    /// From now until it is dropped.
    #[must_use]
    pub fn raise() -> Self {
        SHIELDS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        SHIELDS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Resolves at a Ctrl-C that is meant for this program; never when signals cannot be listened to.
pub(crate) async fn interrupted() {
    loop {
        if tokio::signal::ctrl_c().await.is_err() {
            return std::future::pending().await;
        }
        if SHIELDS.load(Ordering::SeqCst) == 0 {
            return;
        }
    }
}
