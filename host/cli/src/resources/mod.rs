//! Resources and types as the command line names and shows them. `catalog` is the list of the server's types; it is not
//! the plugin `catalog`, whose commands are in `commands/catalog`.

pub mod catalog;
pub(crate) mod deletion_plan;
pub(crate) mod go_template;
pub(crate) mod ids;
pub(crate) mod label_edits;
pub(crate) mod output;
pub(crate) mod places;
pub(crate) mod readiness;
pub(crate) mod search;
pub(crate) mod selector;
pub(crate) mod show;
pub(crate) mod state;
pub(crate) mod template;
pub(crate) mod tenancy;
pub(crate) mod wait;
