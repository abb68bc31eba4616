//! manifests

mod common;
