//! Queries over typed resources.
