//! Equality of decoded messages.

use prost_reflect::{DynamicMessage, FieldDescriptor, ReflectMessage as _, Value};

/// Whether two messages are the same: the same fields are present, with the same values. NaN equals NaN.
pub(crate) fn is_same(a: &DynamicMessage, b: &DynamicMessage) -> bool {
    compare(a, b, false)
}

/// Whether two messages mean the same: an absent message equals an empty one, a list of one empty message equals an
/// empty list, and entries of maps with empty messages count as absent.
pub(crate) fn is_equivalent(a: &DynamicMessage, b: &DynamicMessage) -> bool {
    compare(a, b, true)
}

/// Whether a field is absent in both messages, or has the same value in both.
pub(crate) fn is_same_field(a: &DynamicMessage, b: &DynamicMessage, field: &FieldDescriptor) -> bool {
    match (a.has_field(field), b.has_field(field)) {
        (true, true) => same_value(a.get_field(field).as_ref(), b.get_field(field).as_ref(), false),
        (a, b) => a == b,
    }
}

fn compare(a: &DynamicMessage, b: &DynamicMessage, leniently: bool) -> bool {
    let is_matched = |left: &DynamicMessage, other: &DynamicMessage| {
        left.fields().all(|(field, value)| {
            if other.has_field(&field) {
                return same_value(value, other.get_field(&field).as_ref(), leniently);
            }
            leniently && is_empty(value)
        })
    };
    // Both ways, since each message may have fields that the other lacks.
    a.descriptor() == b.descriptor()
        && is_matched(a, b)
        && b.fields()
            .all(|(field, value): (FieldDescriptor, &Value)| a.has_field(&field) || (leniently && is_empty(value)))
        && a.unknown_fields().eq(b.unknown_fields())
}

fn same_value(a: &Value, b: &Value, leniently: bool) -> bool {
    let same = |(a, b)| same_value(a, b, leniently);
    match (a, b) {
        (Value::Message(a), Value::Message(b)) => compare(a, b, leniently),
        (Value::F32(a), Value::F32(b)) => a == b || (a.is_nan() && b.is_nan()),
        (Value::F64(a), Value::F64(b)) => a == b || (a.is_nan() && b.is_nan()),
        // An empty list is absent, so both have elements.
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(same),
        (Value::Map(a), Value::Map(b)) => {
            let has = |key, value| match b.get(key) {
                Some(other) => same_value(value, other, leniently),
                None => leniently && is_empty_message(value),
            };
            (leniently || a.len() == b.len())
                && a.iter().all(|(key, value)| has(key, value))
                && b.iter().all(|(key, value)| a.contains_key(key) || (leniently && is_empty_message(value)))
        }
        (a, b) => a == b,
    }
}

/// Whether a present value means no more than an absent one.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Message(_) => is_empty_message(value),
        Value::List(items) => is_empty_list(items),
        Value::Map(entries) => entries.values().all(is_empty_message),
        _ => false,
    }
}

fn is_empty_message(value: &Value) -> bool {
    match value {
        Value::Message(message) => {
            message.fields().all(|(_, value)| is_empty(value)) && message.unknown_fields().next().is_none()
        }
        _ => false,
    }
}

fn is_empty_list(items: &[Value]) -> bool {
    match items {
        [] => true,
        [only] => is_empty_message(only),
        _ => false,
    }
}
