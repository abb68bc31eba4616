//! The result type of all measurements.

use std::error::Error;

/// The result of a measurement; any error ends the run.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;
