//! Hooks of plugins: hostile ones and their neighbours, wrong answers, searches, quarantine, WASI.

mod answers;
mod hostile;
mod neighbours;
mod quarantine;
mod reuse;
mod search;
mod wasi;
