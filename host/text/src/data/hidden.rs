//! Values that are not printed: a number stands for each, and for the same value the same number, so that a diff shows
//! that one changed.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
};

use mortise_redaction::Redaction;
use prost_reflect::{FieldDescriptor, Value};

use crate::tree::Tree;

/// The values of redacted fields that were met so far.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    values: RefCell<Vec<Value>>,
    /// The redacted fields of each message that was met, by name.
    fields: RefCell<HashMap<String, BTreeSet<u32>>>,
}

impl Hidden {
    /// Whether a field's values are not to be printed.
    pub(crate) fn covers(&self, field: &FieldDescriptor) -> bool {
        let message = field.parent_message();
        let mut fields = self.fields.borrow_mut();
        let covered = fields.entry(message.full_name().to_owned()).or_insert_with(|| {
            let Some(redaction) = Redaction::of(message.parent_pool()) else { return BTreeSet::new() };
            message.fields().filter(|field| redaction.covers(field)).map(|field| field.number()).collect()
        });
        covered.contains(&field.number())
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
