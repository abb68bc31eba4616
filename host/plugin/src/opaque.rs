//! Values that rustc does not look into when it compiles the crates above.
//!
//! Whether a future may go to another thread is asked of everything that it holds, type by type down to the last field,
//! anew in each crate and for each kind of future. Behind a plugin lie some five hundred types of wasmtime: walking them
//! was half of the time that the crates above took to compile. A trait object ends the walk.
//!
//! # Cost
//! A call through a table and one more pointer each time that the value is looked at.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// A value that threads share.
pub(crate) type Shared<T> = Arc<dyn Deref<Target = T> + Send + Sync>;

/// A value with one owner.
pub(crate) type Owned<T> = Box<dyn DerefMut<Target = T> + Send>;

/// Shares a value.
pub(crate) fn share<T: Send + Sync + 'static>(value: T) -> Shared<T> {
    Arc::new(Box::new(value))
}

/// Owns a value.
pub(crate) fn own<T: Send + 'static>(value: T) -> Owned<T> {
    Box::new(Box::new(value))
}
