//! The command line, and the errors of a server's start. Transcripts of most commands are in `tests/golden/cli`.

mod catalog;
mod changes;
mod commands;
mod completion;
mod compose;
mod connection;
mod consul;
mod edit;
mod errors;
mod errors_covered;
mod errors_files;
mod events;
mod export;
mod flags;
mod help;
mod operators;
mod order;
mod output;
mod plugins;
mod query;
mod resources;
mod start;
mod tls;
mod urls;
mod validate;
mod words;
