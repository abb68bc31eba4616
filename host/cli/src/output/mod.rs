//! What a command prints: text and colours, tables, progress bars, and answers as JSON.

pub(crate) mod json;
pub mod progress;
pub mod table;
pub mod ui;
