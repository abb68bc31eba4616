//! Values that rustc does not look into when it compiles the crates that use this one.
//!
//! A trait object ends rustc's walk over wasmtime's types, which took half of the compile time of those crates:
//! docs/decisions/0008-the-types-of-wasmtime-stand-behind-a-trait-object.md.
//!
//! # Cost
//! A call through a table and one more pointer at each access.

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
