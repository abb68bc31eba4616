//! Tenancy units (partitions, and the namespaces within them), and the rules for their names in ids and in queries.

use crate::{Error, name, pb};

/// The unit that an empty text stands for.
pub const DEFAULT: &str = "default";

/// Every unit; in queries only.
pub const WILDCARD: &str = "*";

/// Checks the units of an id: each empty or a valid name.
///
/// # Errors
/// `InvalidArgument`, with `prefix` before the unit's field, such as `resource.id`.
pub fn check(prefix: &str, tenancy: &pb::Tenancy) -> Result<(), Error> {
    for (unit, value) in [("partition", &tenancy.partition), ("namespace", &tenancy.namespace)] {
        if !value.is_empty()
            && let Some(fault) = name::fault(value)
        {
            return Err(Error::invalid(format!("{prefix}.tenancy.{unit} invalid: {fault}")));
        }
    }
    Ok(())
}

/// Checks the units of a query: each empty, `*`, or a valid name.
///
/// # Errors
/// `InvalidArgument`, naming the unit.
pub fn check_query(tenancy: &pb::Tenancy) -> Result<(), Error> {
    for (unit, value) in [("partition", &tenancy.partition), ("namespace", &tenancy.namespace)] {
        if !value.is_empty()
            && value != WILDCARD
            && let Some(fault) = name::fault(value)
        {
            return Err(Error::invalid(format!("tenancy.{unit} invalid: {fault}")));
        }
    }
    Ok(())
}
