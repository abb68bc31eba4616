//! Ctrl-C ends a command, but not while another program has the terminal, which gets the signal, too.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of critical sections in progress.
static SECTIONS: AtomicUsize = AtomicUsize::new(0);

/// Guard: while one lives, Ctrl-C is left to the program that has the terminal, such as an editor.
#[derive(Debug)]
pub struct CriticalSection(());

impl CriticalSection {
    /// Enters a critical section, which lasts until the guard is dropped.
    #[must_use]
    pub fn enter() -> Self {
        SECTIONS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for CriticalSection {
    fn drop(&mut self) {
        SECTIONS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Resolves at a Ctrl-C that is meant for this program; never if signals cannot be received.
pub(crate) async fn interrupted() {
    loop {
        if tokio::signal::ctrl_c().await.is_err() {
            return std::future::pending().await;
        }
        if SECTIONS.load(Ordering::SeqCst) == 0 {
            return;
        }
    }
}
