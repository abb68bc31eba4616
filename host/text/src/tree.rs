//! A value to print, independent of the format.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A value to print.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    Null,
    Bool(bool),
    Int(i64),
    /// A 64-bit integer. JSON writes it as a string, since many of its readers lose digits, and YAML as a number.
    Long(i128),
    Double(f64),
    Float(f32),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Tree {
    /// The entries of every map in alphabetical order, all the way down.
    pub(crate) fn sorted(self) -> Self {
        match self {
            Self::List(items) => Self::List(items.into_iter().map(Self::sorted).collect()),
            Self::Map(entries) => {
                let mut entries: Vec<_> = entries.into_iter().map(|(key, value)| (key, value.sorted())).collect();
                entries.sort_by(|(a, _), (b, _)| a.cmp(b));
                Self::Map(entries)
            }
            other => other,
        }
    }
}

/// Proto3's JSON.
impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Long(value) => serializer.collect_str(value),
            Self::Double(value) => match (not_finite(*value), whole(*value)) {
                (Some(name), _) => serializer.serialize_str(name),
                (None, Some(whole)) => serializer.serialize_i64(whole),
                (None, None) => serializer.serialize_f64(*value),
            },
            Self::Float(value) => match (not_finite(f64::from(*value)), whole(f64::from(*value))) {
                (Some(name), _) => serializer.serialize_str(name),
                (None, Some(whole)) => serializer.serialize_i64(whole),
                (None, None) => serializer.serialize_f32(*value),
            },
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

/// JSON's name of a float that is not finite; `None` for finite ones.
fn not_finite(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value == f64::INFINITY {
        Some("Infinity")
    } else if value == f64::NEG_INFINITY {
        Some("-Infinity")
    } else {
        None
    }
}

/// The integer of a float that is printed without a fraction; `None` for others, and for minus zero, which would lose
/// its sign.
pub(crate) fn whole(value: f64) -> Option<i64> {
    let fits = value.fract() == 0.0 && value.abs() < 1e15 && !(value == 0.0 && value.is_sign_negative());
    #[allow(clippy::cast_possible_truncation, reason = "the range has been checked")]
    fits.then_some(value as i64)
}
