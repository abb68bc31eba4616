//! A plugin's manifest, read and checked: types, controllers, permissions, and the fields that they name.

pub mod controllers;
pub(crate) mod descriptors;
pub(crate) mod document;
pub(crate) mod error;
pub(crate) mod exports;
pub(crate) mod field_path;
pub(crate) mod functions;
pub(crate) mod permission;
pub(crate) mod references;
pub(crate) mod scope;
pub(crate) mod type_name;
