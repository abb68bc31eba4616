//! Errors of queries and of resources that a query cannot decode.

use mortise_resource::{EncodingError, wire::WireError};

/// The error of a rejected query. The text names the part of the request, the place, the fault and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// A filter does not parse, or does not fit the schema. Characters count from 1.
    #[error("filter, at character {character}: {fault}")]
    Filter {
        /// Character of the text.
        character: usize,
        /// Subject, fault and remedy.
        fault: String,
    },
    /// A filter is too large.
    #[error("filter: {0}")]
    TooLarge(String),
    /// A path leads to no field.
    #[error("path {path:?}: {fault}")]
    Path {
        /// The path, cut off if it is long.
        path: String,
        /// Fault and remedy.
        fault: String,
    },
    /// A label selector contradicts itself or is too large.
    #[error("selector: {0}")]
    Selector(String),
    /// An order does not parse, or names a path without an order.
    #[error("order_by: {0}")]
    Order(String),
    /// A page token of another query, or no page token.
    #[error("page_token: {0}")]
    Token(String),
    /// A text that cannot be decoded as a resume token.
    #[error("resume_token: {0}")]
    Resume(String),
    /// A negative page size.
    #[error("page_size: {0} is negative; use 0 for the default, or at least 1")]
    PageSize(i32),
    /// A field mask that cannot be applied.
    #[error("field mask: {0}")]
    Mask(String),
}

impl QueryError {
    pub(crate) fn path(path: &str, fault: impl Into<String>) -> Self {
        Self::Path { path: shown(path), fault: fault.into() }
    }
}

/// A resource that a query cannot look into. The caller adds the resource's id.
#[derive(Debug, thiserror::Error)]
pub enum Undecodable {
    /// The resource itself.
    #[error("the stored resource cannot be decoded: {0}")]
    Resource(#[from] EncodingError),
    /// Its encoding.
    #[error("the resource cannot be decoded: {0}")]
    Encoding(#[from] prost::DecodeError),
    /// A part of its encoding.
    #[error("the resource cannot be decoded: {0}")]
    Malformed(#[from] WireError),
    /// The data does not decode as the message of the type.
    #[error("its data cannot be decoded as {message}: {source}")]
    Data {
        /// Message of the type.
        message: String,
        /// Fault of the bytes.
        source: prost::DecodeError,
    },
    /// The data is of another message than the type's.
    #[error("its data is a {found:?}, but the type's message is {expected}")]
    OtherMessage {
        /// Message of the type.
        expected: String,
        /// Message that `type_url` names.
        found: String,
    },
}

/// Cuts a text off where it becomes long, for error messages.
pub(crate) fn shown(text: &str) -> String {
    const MAX_SHOWN_CHARACTERS: usize = 80;
    if text.chars().nth(MAX_SHOWN_CHARACTERS).is_none() {
        return text.to_owned();
    }
    text.chars().take(MAX_SHOWN_CHARACTERS).chain("...".chars()).collect()
}
