//! Filters: texts such as `data.genre = "GENRE_JAZZ" AND meta.labels.region IN ("eu", "us")`.
//!
//! # Contract
//! A filter is compiled once against a [`Schema`]: paths are resolved and values converted to the types of their
//! fields, so every fault of the text is found then. An empty text, and `()`, match everything.
//!
//! An absent value compares as its zero value; absent timestamps and durations precede all others, and absent messages
//! differ from all. `IS NULL` finds absent messages, lists, maps, entries of maps, fields with presence, and everything
//! below an absent message. A test through a list of messages holds if it holds for one of them; the negated tests
//! `!=`, `NOT IN` and `IS NOT NAN`, and `IS NULL`, hold if the test that they negate holds for none.
//!
//! # Limits
//! A list as a value of a field cannot be written.
//!
//! # Cost
//! Compiling takes time in proportion to the text, which [`limits`] bounds. An evaluation visits the values at the
//! paths of its conditions, and stops as soon as the result is certain.

mod compile;
mod evaluate;
mod facts;
mod fault;
mod lexer;
mod literal;
mod parser;
mod pattern;
mod ranges;
mod syntax;
#[cfg(test)]
mod tests;
mod values;

use crate::{Candidate, Fact, FieldRange, QueryError, Schema, Undecodable, limits};
use compile::Beginning;
use evaluate::{Node, Subject};

/// A compiled filter.
#[derive(Debug, Clone)]
pub struct Filter {
    root: Node,
}

impl Filter {
    /// Compiles a filter.
    ///
    /// # Errors
    /// The text does not parse, does not fit the schema, or exceeds [`limits`].
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, QueryError> {
        if text.len() > limits::TEXT_BYTES {
            let fault = format!("it has {} bytes; at most {} are allowed", text.len(), limits::TEXT_BYTES);
            return Err(QueryError::TooLarge(fault));
        }
        if matches!(text, "" | "()") {
            return Ok(Self { root: Node::Constant(true) });
        }
        let words = lexer::lex(text).map_err(|fault| fault.into_error(text))?;
        let expression = parser::parse(&words, text.len()).map_err(|fault| fault.into_error(text))?;
        let root =
            compile::compile(&expression, Beginning::Resource(schema)).map_err(|fault| fault.into_error(text))?;
        Ok(Self { root })
    }

    /// Whether a resource matches.
    ///
    /// # Errors
    /// A part of the resource that the filter looks at does not decode.
    pub fn matches(&self, candidate: &Candidate<'_>) -> Result<bool, Undecodable> {
        self.root.matches(Subject::Resource(candidate))
    }

    /// The facts that hold for every resource that matches. Each holds by itself.
    #[must_use]
    pub fn required(&self) -> Vec<Fact> {
        facts::required_facts(&self.root)
    }

    /// The ranges of single values that every match has, one for each path.
    #[must_use]
    pub fn ranges(&self) -> Vec<FieldRange> {
        ranges::required_ranges(&self.root)
    }

    /// The text that the name of every match begins with.
    #[must_use]
    pub fn name_prefix(&self) -> &str {
        ranges::name_prefix(&self.root)
    }

    /// Whether everything matches, so that evaluation can be skipped.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        matches!(self.root, Node::Constant(true))
    }
}
