//! Ctrl-C ends a command, but not while another program has the terminal, which gets the signal, too.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of living shields.
static SHIELDS: AtomicUsize = AtomicUsize::new(0);

/// Guard: while one lives, Ctrl-C is left to the program that has the terminal, such as an editor.
#[derive(Debug)]
pub struct Shield(());

impl Shield {
    /// Raises a shield; it holds until it is dropped.
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

/// Resolves at a Ctrl-C that is meant for this program; never if signals cannot be received.
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
