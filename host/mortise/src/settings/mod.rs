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
//! | `findings`, `places` | all faults of a configuration; lines of its keys |
//! | `live` | reads them again while the server runs |
//! | `rules`, `filter` | checks of settings that need each other, and of the log level |
//! | `plugin`, `region`, `sinks` | tables of plugins and of peers; sinks of the audit log |
//! | `store`, `backup` | the store; scheduled backups |
//! | `parts` | makes the options of each part of the server |
//! | `sample` | tests: prints `config.toml` |
//! | `test_limits` | limits that tests change, and operators cannot |

mod backup;
mod declare;
mod environment;
mod error;
mod filter;
mod findings;
mod flag;
mod live;
mod load;
pub(crate) mod parts;
mod places;
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
pub(crate) use findings::{Examined, Finding, Origin, Sources, examine, sort as sort_findings};
pub(crate) use flag::{flag_help, listen_address};
pub(crate) use live::{Effects, LiveSettings, LiveState, without_excerpt};
pub(crate) use load::{Overrides, Reload, Settings};
pub(crate) use places::Places;
pub(crate) use store::Engine;
pub(crate) use table::{Config, Log, SECTIONS};
