//! Resources from files, for `apply`, `diff`, `plan`, `delete` and others.
//!
//! | file | work |
//! |---|---|
//! | `files` | reads and checks all files before the first call |
//! | `order` | sorts resources into levels: owners and tenancy units first |
//! | `plan` | compares a resource with the stored one, by a dry run of the server |
//! | `report` | prints plans and warnings |
//! | `url` | fetches a file from the web |

pub(crate) mod files;
pub(crate) mod order;
pub(crate) mod plan;
pub(crate) mod report;
mod url;
