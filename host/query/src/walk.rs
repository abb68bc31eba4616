//! The values that a path leads to in one resource.

use std::borrow::Cow;

use prost_reflect::{FieldDescriptor, Value};

use crate::path::{Step, passes_list};

/// A finding at the end of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Slot<'v> {
    /// A value.
    Value(&'v Value),
    /// A scalar without presence that has its zero value.
    Unset,
    /// An absent value (NULL).
    Absent,
}

/// Whether `is_sought` holds for a value at the end of the steps. A path through a list of messages shows the values of
/// each message; any other path shows exactly one.
pub(crate) fn any<'v>(slot: Slot<'v>, steps: &[Step], is_sought: &mut dyn FnMut(Slot<'v>) -> bool) -> bool {
    let Some((step, rest)) = steps.split_first() else { return is_sought(slot) };
    let next = match (step, slot) {
        (Step::Field(_), Slot::Value(Value::List(items))) => {
            return items.iter().any(|item| any(Slot::Value(item), steps, is_sought));
        }
        (Step::Field(field), Slot::Value(Value::Message(message))) => match message.get_field(field) {
            Cow::Borrowed(value) if message.has_field(field) => Slot::Value(value),
            _ if has_zero(field) => Slot::Unset,
            _ => Slot::Absent,
        },
        (Step::Key(key), Slot::Value(Value::Map(entries))) => entries.get(key).map_or(Slot::Absent, Slot::Value),
        _ => Slot::Absent,
    };
    match next {
        Slot::Absent if passes_list(steps) => false,
        Slot::Absent => is_sought(Slot::Absent),
        next => any(next, rest, is_sought),
    }
}

/// Whether a field is never absent when its message is there: a scalar or enum of proto3 without `optional`.
fn has_zero(field: &FieldDescriptor) -> bool {
    !field.supports_presence() && !field.is_list() && !field.is_map()
}
