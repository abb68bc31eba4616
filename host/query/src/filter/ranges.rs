//! Ranges that a filter requires of every match: of single values in `data`, and of names.
//!
//! Only conditions that are joined by AND give ranges; those of one path are intersected.

use std::ops::Bound;

use super::{
    evaluate::{Node, Test},
    literal::Literal,
    syntax::Comparison,
};
use crate::{
    FieldRange, Path, Subject,
    filter::facts::subject,
    index_path::{PRESENT_KEY, key},
    path::Root,
    scalar::Scalar,
    value_type::Shape,
};

pub(super) fn required_ranges(node: &Node) -> Vec<FieldRange> {
    match node {
        Node::All(parts) => {
            let mut ranges: Vec<FieldRange> = Vec::new();
            for range in parts.iter().flat_map(required_ranges) {
                match ranges.iter_mut().find(|known| known.path == range.path) {
                    Some(known) => known.intersect(range),
                    None => ranges.push(range),
                }
            }
            ranges
        }
        Node::Test { path, test } => range(path, test).into_iter().collect(),
        _ => Vec::new(),
    }
}

pub(super) fn name_prefix(node: &Node) -> &str {
    match node {
        Node::All(parts) => parts.iter().map(name_prefix).max_by_key(|prefix| prefix.len()).unwrap_or_default(),
        Node::Test { path, test: Test::Like(pattern) } if subject(path) == Some(Subject::Name) => pattern.prefix(),
        _ => "",
    }
}

fn range(path: &Path, test: &Test) -> Option<FieldRange> {
    if path.root != Root::Data || path.is_through_list() || !matches!(path.shape, Shape::One(_)) {
        return None;
    }
    let present = || Bound::Included(PRESENT_KEY.to_owned());
    let (low, high, with_absent) = match test {
        Test::Compare(comparison, Literal::Scalar(literal)) => {
            let bound = key(Some(literal))?;
            let (low, high) = match comparison {
                Comparison::Equal => (Bound::Included(bound.clone()), Bound::Included(bound)),
                Comparison::Less => (present(), Bound::Excluded(bound)),
                Comparison::LessOrEqual => (present(), Bound::Included(bound)),
                Comparison::Greater => (Bound::Excluded(bound), Bound::Unbounded),
                Comparison::GreaterOrEqual => (Bound::Included(bound), Bound::Unbounded),
            };
            // An absent value compares as zero; without a zero value, it precedes all others.
            let order = path.zero.as_ref().map_or(Some(std::cmp::Ordering::Less), |zero| zero.order(literal));
            (low, high, comparison.holds(order))
        }
        Test::Like(pattern) => {
            let prefix = format!("{PRESENT_KEY}{}", pattern.prefix());
            let high = successor(&prefix).map_or(Bound::Unbounded, Bound::Excluded);
            let zero = matches!(&path.zero, Some(Scalar::Text(zero)) if pattern.matches(zero));
            (Bound::Included(prefix), high, zero)
        }
        _ => return None,
    };
    Some(FieldRange { path: path.to_string(), low, high, with_absent })
}

/// The smallest text that follows all texts with a beginning.
fn successor(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_successor_follows_all_texts_with_the_beginning() {
        for (prefix, expected) in [
            ("a", Some("b")),
            ("az\u{10ffff}", Some("a{")),
            ("\u{d7ff}", Some("\u{e000}")),
            ("\u{10ffff}", None),
            ("", None),
        ] {
            assert_eq!(successor(prefix).as_deref(), expected, "{prefix:?}");
        }
    }
}
