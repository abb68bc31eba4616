//! A call: its caller and origin, its rates and record, its share of scarce things, and the errors of the store.
//!
//! # Contract
//! An RPC begins with [`Call::begin`], which counts the rate and reserves the place in the audit log, and ends with
//! [`Call::end`], which writes the record. Only a caller without a share waits for one ([`FairPool`]).
//!
//! # Limits
//! Requests per second, and open watches, of all callers and of each; waiting calls of a pool; waiting writers of a
//! resource.

mod audit;
mod caller;
mod caller_counts;
mod fair;
mod origin;
mod reader;
pub(crate) mod request_id;
mod retry;
mod ruled_caller;
pub(crate) mod store_fault;
mod writer_queue;

pub use audit::Call;
pub(crate) use audit::Method;
pub(crate) use caller::QueueKey;
pub use caller::{AT_LEAST_HEADER, Caller, Source};
pub use caller_counts::{CallerCounts, OpenCount};
pub(crate) use fair::{FairPool, NoShare, Share};
pub use origin::{Origin, Remote, Surface};
pub use reader::Reader;
pub(crate) use retry::{Failure, Retry};
pub(crate) use ruled_caller::RuledCaller;
pub(crate) use writer_queue::WriterQueues;
