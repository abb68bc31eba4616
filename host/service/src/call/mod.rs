//! One call: its caller and origin, its rates and its record, its share of what is scarce, and the errors of the store.

mod audit;
mod caller;
mod caller_counts;
mod fair;
mod origin;
pub(crate) mod request_id;
mod retry;
mod ruled_caller;
pub(crate) mod store_fault;

pub use audit::Call;
pub(crate) use audit::Method;
pub use caller::{Caller, Source};
pub(crate) use caller::{Turn, caller_number};
pub use caller_counts::{CallerCounts, CountedOne};
pub(crate) use fair::{FairPool, NoShare, Share};
pub use origin::{Origin, Remote, Surface};
pub(crate) use retry::{Failure, Retry};
pub(crate) use ruled_caller::RuledCaller;
