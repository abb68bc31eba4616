//! What every room of the service gets: the store, the table of types, the options, the rates and the signal to stop.

pub(crate) mod ids;
pub(crate) mod options;
pub(crate) mod rates;
