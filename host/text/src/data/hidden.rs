//! Values that are not printed: a number stands for each, and for the same value the same number, so that a diff shows
//! that one changed.

use std::cell::RefCell;

use mortise_redaction::RedactedFields;
use prost_reflect::{FieldDescriptor, Value};

use crate::tree::Tree;

/// The values of redacted fields that were met so far.
#[derive(Debug, Default)]
pub(crate) struct RedactedValues {
    values: RefCell<Vec<Value>>,
    fields: RefCell<RedactedFields>,
}

impl RedactedValues {
    /// Whether a field's values are not to be printed.
    pub(crate) fn covers(&self, field: &FieldDescriptor) -> bool {
        self.fields.borrow_mut().contain(field)
    }

    /// What is printed in the place of a value.
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
