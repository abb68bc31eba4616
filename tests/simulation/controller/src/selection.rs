//! `tokio::select!` in the order of the branches, since its own choice does not follow from the seed.

/// Awaits the first branch that is ready.
#[macro_export]
macro_rules! select {
    (biased; $($branches:tt)*) => { tokio_itself::select! { biased; $($branches)* } };
    ($($branches:tt)*) => { tokio_itself::select! { biased; $($branches)* } };
}
