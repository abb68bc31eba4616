//! The settings: a file, the environment, flags, in rising order of precedence; unset keys have defaults.
//!
//! Every key with a default has a variable: `MORTISE_` and its path in upper case, joined by underscores, such as
//! `MORTISE_STORE_CACHE_BYTES`. Unknown keys of the file are errors, and so are numbers outside their ranges: all is
//! checked before anything is opened. A setting is declared once, in `table`.
//!
//! | file | work |
//! |---|---|
//! | `table`, `declare`, `range` | the settings; the macro that declares them; ranges of numbers |
//! | `load`, `environment`, `renamed` | reads file, environment and flags; refuses old names |
//! | `live` | reads them again while the server runs |
//! | `rules`, `filter` | checks of settings that need each other, and of the log level |
//! | `plugin`, `region`, `sinks`, `store` | tables of plugins and of peers; sinks of the audit log; the store |
//! | `parts` | makes the options of each part of the server |
//! | `sample` | tests: prints `config.toml` |
//! | `test_limits` | limits that tests change, and operators cannot |

mod declare;
mod environment;
mod error;
mod filter;
mod flag;
mod live;
mod load;
pub(crate) mod parts;
pub(crate) mod plugin;
mod range;
pub(crate) mod region;
mod renamed;
mod rules;
#[cfg(test)]
mod sample;
mod sinks;
mod store;
mod table;
mod test_limits;

pub(crate) use environment::variables;
pub(crate) use error::{ConfigError, SettingError};
pub(crate) use flag::{flag_help, listen_address};
pub(crate) use live::LiveSettings;
pub(crate) use load::{Overrides, Settings};
pub(crate) use store::Engine;
pub(crate) use table::{Config, Log};
