//! Redacted values in diffs: a number stands for each value, the same number for the same value, so that a diff shows
//! changes of it.
//!
//! # Cost
//! A value is compared with all different values before it.

use std::cell::RefCell;

use mortise_resource::redaction::RedactedFields;
use prost_reflect::{FieldDescriptor, Value};

use crate::tree::Tree;

/// The values of redacted fields so far.
#[derive(Debug, Default)]
pub(crate) struct RedactedValues {
    values: RefCell<Vec<Value>>,
    fields: RefCell<RedactedFields>,
}

impl RedactedValues {
    /// Whether a field's values must not be printed.
    pub(crate) fn covers(&self, field: &FieldDescriptor) -> bool {
        self.fields.borrow_mut().contain(field)
    }

    /// The text to print in place of a value.
    pub(crate) fn value(&self, value: &Value) -> Tree {
        let mut values = self.values.borrow_mut();
        let known = values.iter().position(|known| known == value);
        let number = known.unwrap_or_else(|| {
            values.push(value.clone());
            values.len() - 1
        });
        Tree::Text(format!("(redacted {})", number + 1))
    }
}
