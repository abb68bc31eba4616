//! Faults while a filter is read: a place and a text.

use winnow::{
    error::{ErrMode, ParserError},
    stream::Stream,
};

use crate::QueryError;

/// A fault with the byte of the text where it is. `None` stands for a place that the parser's caller knows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub(crate) offset: Option<usize>,
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn new(offset: usize, text: impl Into<String>) -> Self {
        Self { offset: Some(offset), text: text.into() }
    }

    /// Makes an error that stops the parser from trying other branches.
    pub(crate) fn cut(offset: usize, text: impl Into<String>) -> ErrMode<Self> {
        ErrMode::Cut(Self::new(offset, text))
    }

    /// Converts the fault; the place becomes a character of the filter, from 1.
    pub(crate) fn into_error(self, filter: &str) -> QueryError {
        let offset = self.offset.unwrap_or(filter.len());
        QueryError::Filter { character: character(filter, offset), fault: self.text }
    }
}

/// The character, from 1, that a byte of a text belongs to.
pub(crate) fn character(text: &str, offset: usize) -> usize {
    1 + text.char_indices().take_while(|(start, _)| *start < offset).count()
}

impl<I: Stream> ParserError<I> for Fault {
    type Inner = Self;

    fn from_input(_: &I) -> Self {
        Self { offset: None, text: "the filter cannot be read".to_owned() }
    }

    fn into_inner(self) -> Result<Self, Self> {
        Ok(self)
    }
}
