//! Values of a list in a filter, each once and sorted for fast look-ups: both the list and the field may hold many.

use std::cmp::Ordering;

use super::literal::Literal;
use crate::{equality::is_same, scalar::Scalar, walk::Slot};
use prost_reflect::Value;

/// Values of one type, without duplicates. Scalars are sorted; messages, which have no order, follow them.
#[derive(Debug, Clone)]
pub(super) struct Values(Vec<Literal>);

impl Values {
    pub(super) fn new(mut literals: Vec<Literal>) -> Self {
        let compare = |a: &Literal, b: &Literal| match (a, b) {
            (Literal::Scalar(a), Literal::Scalar(b)) => a.total_order(b),
            (Literal::Scalar(_), Literal::Message(_)) => Ordering::Less,
            (Literal::Message(_), Literal::Scalar(_)) => Ordering::Greater,
            (Literal::Message(_), Literal::Message(_)) => Ordering::Equal,
        };
        literals.sort_by(compare);
        literals.dedup_by(|b, a| match (a, b) {
            (Literal::Scalar(a), Literal::Scalar(b)) => a.total_order(b).is_eq(),
            _ => false,
        });
        let mut values: Vec<Literal> = Vec::with_capacity(literals.len());
        for literal in literals {
            let is_known =
                matches!(&literal, Literal::Message(message) if values.iter().any(|value| is_message(value, message)));
            if !is_known {
                values.push(literal);
            }
        }
        Self(values)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn as_slice(&self) -> &[Literal] {
        &self.0
    }

    /// The index of the value that equals the one at a path.
    pub(super) fn find(&self, slot: Slot<'_>, zero: Option<&Scalar>) -> Option<usize> {
        if matches!(self.0.first(), Some(Literal::Message(_))) {
            return self.0.iter().position(|literal| order(slot, zero, literal) == Some(Ordering::Equal));
        }
        // NaN follows all values, and equals none.
        let place = |literal: &Literal| order(slot, zero, literal).map_or(Ordering::Greater, Ordering::reverse);
        self.0.binary_search_by(place).ok()
    }
}

fn is_message(value: &Literal, message: &prost_reflect::DynamicMessage) -> bool {
    matches!(value, Literal::Message(value) if is_same(value, message))
}

/// Compares the value at a path with a filter's value; `None` if they differ without an order.
pub(super) fn order(slot: Slot<'_>, zero: Option<&Scalar>, literal: &Literal) -> Option<Ordering> {
    match (slot, literal) {
        (Slot::Value(Value::Message(message)), Literal::Message(literal)) => {
            is_same(message, literal).then_some(Ordering::Equal)
        }
        (Slot::Value(value), Literal::Scalar(literal)) => literal.compare(value),
        (Slot::Unset | Slot::Absent, Literal::Scalar(literal)) => match zero {
            Some(zero) => zero.order(literal),
            // An absent timestamp or duration precedes all others.
            None => Some(Ordering::Less),
        },
        (_, Literal::Message(_)) => None,
    }
}
