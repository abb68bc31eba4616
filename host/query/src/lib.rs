//! Queries over typed resources: filters, label selectors, orders, page tokens and field masks.
//!
//! Queries look into a `hashicorp.consul.resource.Resource`. A [`Schema`] names the message of its `data`; paths go
//! into `data` as though it were a field of that message. docs/query.md describes the language for users.
//!
//! # Contract
//! Everything here is pure: no I/O, no clock, no state except the cache [`RecentlyDecoded`]. A query is compiled once
//! against a [`Schema`]; a faulty query is rejected with a [`QueryError`] that names the place, the fault and the
//! remedy. It is evaluated against one [`Candidate`] at a time. Evaluation fails only for a resource that does not
//! decode ([`Undecodable`]). Input of any size and shape is safe: see [`limits`].
//!
//! ```
//! use mortise_query::{Candidate, Filter, Schema};
//! use mortise_resource::{EncodedResource, pb};
//!
//! let schema = Schema::new(None);
//! let filter = Filter::parse(r#"metadata.team = "search" AND schema_version < 3"#, &schema)?;
//! let metadata = [("team".to_owned(), "search".to_owned())].into();
//! let resource = EncodedResource::encode(&pb::Resource { metadata, ..Default::default() })?;
//! assert!(filter.matches(&Candidate::new(&resource, &schema))?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Cost
//! Compiling takes time in proportion to the text. Evaluating decodes only the parts that the query looks at: the name
//! of a resource costs nothing, and `data` is decoded at most once, when a path first goes into it. Each condition
//! visits the values at its path once, and looks each up in its own list of values.
//!
//! # Limits
//! Paths lead to fields that descriptors declare: no extensions, no fields inside an `Any` other than `data`.

mod candidate;
mod equality;
mod error;
mod fact;
mod filter;
pub mod in_memory;
mod index_path;
pub mod limits;
mod mask;
mod name;
mod number;
mod order;
mod page;
mod path;
mod resume;
mod scalar;
mod schema;
mod selector;
mod selector_text;
mod value_type;
mod walk;

pub use candidate::{Candidate, RecentlyDecoded};
pub use error::{QueryError, Undecodable};
pub use fact::{Fact, FieldRange, Subject};
pub use filter::Filter;
pub use index_path::{ABSENT_KEY, IndexPath};
pub use mask::{Mask, changed_paths};
pub use order::{LeadingKey, OrderBy, SortKey};
pub use page::{Binding, Direction, PageToken, page_size};
pub use path::Path;
pub use resume::ResumeToken;
pub use schema::Schema;
pub use selector::Selector;
pub use selector_text::label_selector;
