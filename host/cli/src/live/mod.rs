//! Pages on a terminal that are kept up to date: `mortise top`, `mortise get --watch`, `mortise controllers --watch`.
//!
//! | file | content |
//! |---|---|
//! | `screen` | the terminal itself, which every end restores; keys, signals and resizes |
//! | `frame` | parts of a frame |
//! | `keys` | the keys that all pages share: scrolling, and the typing of a filter |
//! | `grid` | the rows of a table, changed one by one, in bounded memory |
//! | `view` | the drawing of a page of such tables |
//! | `page` | a page of such tables, from the first frame to its end |

pub(crate) mod frame;
mod grid;
pub(crate) mod keys;
pub(crate) mod page;
pub(crate) mod screen;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use grid::{Row, Section, Update};
