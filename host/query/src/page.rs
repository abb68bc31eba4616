//! Pages: their size, and the tokens for positions in a query's results.
//!
//! A token is `<direction>.<inclusion>.<kind>.<value>`: `r` or `l` (right or left of the position), `i` or `e` (the
//! position included or excluded), `S` (the only kind), and the standard base64 of a digest of the query followed by
//! the position. A token of another query is rejected. Tokens are neither secret nor proof: a made-up token reaches
//! only positions of a query that the caller may make anyway.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};

use crate::{OrderBy, QueryError, SortKey, limits};

/// Bytes of a digest in a token.
const DIGEST_BYTES: usize = 16;

/// Direction of a page from its boundary, in the order of the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Towards the first resource: a previous page.
    Left,
    /// Towards the last resource: a next page.
    Right,
}

/// Digest of the parts of a query that decide which resources it finds and in which order. A token is bound to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding([u8; DIGEST_BYTES]);

/// The boundary at which a page begins, and the page's direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageToken {
    /// Direction of the page.
    pub direction: Direction,
    /// Whether the resource at the boundary belongs to the page.
    pub is_inclusive: bool,
    /// The boundary.
    pub boundary: SortKey,
}

/// Items of a page for the size that a request asks for: 0 stands for [`limits::DEFAULT_PAGE_SIZE`]; sizes above
/// [`limits::MAX_PAGE_SIZE`] are reduced to it.
///
/// # Errors
/// The requested size is negative.
pub fn page_size(requested: i32) -> Result<usize, QueryError> {
    match usize::try_from(requested) {
        Ok(0) => Ok(limits::DEFAULT_PAGE_SIZE),
        Ok(size) => Ok(size.min(limits::MAX_PAGE_SIZE)),
        Err(_) => Err(QueryError::PageSize(requested)),
    }
}

impl Binding {
    /// Digests the parts of a query; the same parts in the same order make the same binding.
    #[must_use]
    pub fn new(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        let mut digest = [0; DIGEST_BYTES];
        digest.iter_mut().zip(hash.finalize()).for_each(|(byte, hashed)| *byte = hashed);
        Self(digest)
    }

    /// The digest, for a token of another kind.
    #[must_use]
    pub fn digest(&self) -> &[u8] {
        &self.0
    }
}

impl PageToken {
    /// The token of the page after a resource.
    #[must_use]
    pub fn after(boundary: SortKey) -> Self {
        Self { direction: Direction::Right, is_inclusive: false, boundary }
    }

    /// The token of the page up to and including a resource.
    #[must_use]
    pub fn up_to(boundary: SortKey) -> Self {
        Self { direction: Direction::Left, is_inclusive: true, boundary }
    }

    /// The page on the other side of the same boundary.
    #[must_use]
    pub fn flipped(&self) -> Self {
        let direction = match self.direction {
            Direction::Left => Direction::Right,
            Direction::Right => Direction::Left,
        };
        Self { direction, is_inclusive: !self.is_inclusive, boundary: self.boundary.clone() }
    }

    /// Whether a resource lies on the page's side of the boundary.
    #[must_use]
    pub fn admits(&self, key: &SortKey) -> bool {
        let order = key.cmp(&self.boundary);
        match self.direction {
            _ if order.is_eq() => self.is_inclusive,
            Direction::Left => order.is_lt(),
            Direction::Right => order.is_gt(),
        }
    }

    /// Writes the token for a query.
    #[must_use]
    pub fn encode(&self, binding: &Binding) -> String {
        let direction = match self.direction {
            Direction::Left => 'l',
            Direction::Right => 'r',
        };
        let inclusion = if self.is_inclusive { 'i' } else { 'e' };
        let value = STANDARD.encode([binding.0.as_slice(), &self.boundary.encode()].concat());
        format!("{direction}.{inclusion}.S.{value}")
    }

    /// Reads a token that was written for the same query.
    ///
    /// # Errors
    /// The text is not a token, or belongs to another query.
    pub fn decode(text: &str, binding: &Binding, order: &OrderBy) -> Result<Self, QueryError> {
        let fault =
            |fault: &str| QueryError::Token(format!("{fault}; use a token from an answer to the same query, or none"));
        let mut parts = text.split('.');
        let (Some(direction), Some(inclusion), Some(kind), Some(value), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(fault("it does not have four parts"));
        };
        let direction = match direction {
            "l" => Direction::Left,
            "r" => Direction::Right,
            _ => return Err(fault("its direction is neither l nor r")),
        };
        let is_inclusive = match inclusion {
            "i" => true,
            "e" => false,
            _ => return Err(fault("its inclusion is neither i nor e")),
        };
        if kind != "S" {
            return Err(fault("its kind is not S"));
        }
        let value = STANDARD.decode(value).map_err(|_| fault("its value is not base64"))?;
        let (digest, boundary) = value.split_at_checked(DIGEST_BYTES).ok_or_else(|| fault("its value is too short"))?;
        if digest != binding.0 {
            return Err(fault("it belongs to another query"));
        }
        Ok(Self { direction, is_inclusive, boundary: order.decode(boundary)? })
    }
}
