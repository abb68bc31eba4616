//! Output of commands: text and colours, tables, progress bars, and answers as JSON.

pub(crate) mod json;
pub(crate) mod layout;
pub(crate) mod paint;
pub(crate) mod progress;
pub(crate) mod table;
pub mod ui;
