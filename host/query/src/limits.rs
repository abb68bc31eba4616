//! Bounds of queries. They limit the time and memory that one text of a client takes.

/// Most bytes of a filter or an order. Page tokens have no such limit: a token holds values of a resource and is as
/// long as they are.
pub const TEXT_BYTES: usize = 64 << 10;
/// Most parentheses, or braces of a value, within each other.
pub const NESTING: usize = 64;
/// Most conditions of a filter.
pub const CONDITIONS: usize = 1_000;
/// Most values of one list or one value in braces.
pub const LIST_VALUES: usize = 1_000;
/// Most requirements of a selector, those of `match_labels` included.
pub const REQUIREMENTS: usize = 1_000;
/// Most values of one requirement of a selector.
pub const REQUIREMENT_VALUES: usize = 1_000;
/// Most keys of an order.
pub const ORDER_KEYS: usize = 32;
/// Most paths of a field mask.
pub const MASK_PATHS: usize = 1_000;
/// Most bytes of one path.
pub const PATH_BYTES: usize = 4 << 10;
/// Most segments of a path.
pub const PATH_SEGMENTS: usize = 64;
/// Items of a page when the request says 0.
pub const DEFAULT_PAGE_SIZE: usize = 100;
/// Most items of a page.
pub const MAX_PAGE_SIZE: usize = 1_000;
