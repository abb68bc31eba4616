//! Declares each setting once: its name, default, range and explanation.
//!
//! The macro makes from a declaration the field that holds the setting, its default, the check of its range, and the
//! comment in `config.toml`. The default is also in the help text of a flag (`flag`). Sizes and times have units twice:
//! their type reads and prints them, and their range checks and explains them.

use mortise_plugin_host::units::COUNT;
use toml::{Table, Value};

use super::range::{Range, RangeError};

/// Settings that have a table of the file in common.
pub(crate) struct Section {
    /// The name of the table; empty at the top of the file.
    pub(crate) name: &'static str,
    /// The comment above the table in `config.toml`. It comes from doc comments, so each line begins with a space.
    #[cfg(test)]
    pub(crate) about: &'static str,
    pub(crate) settings: &'static [Setting],
}

/// A setting.
pub(crate) struct Setting {
    /// Its key within the section.
    pub(crate) name: &'static str,
    /// The allowed numbers; `None` for a setting of another kind.
    pub(crate) range: Option<Range>,
    /// The comment above it in `config.toml`, without its range.
    #[cfg(test)]
    pub(crate) doc: &'static str,
}

/// Declares a section and the struct that it is read into: `name: type = default, range;`. After `with` come
/// tables within it with declarations of their own.
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        struct $struct:ident in $section:literal {
            $($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr $(, $range:expr)?;)+
        }
        $(with { $($(#[$meta:meta])* $inner:ident: $inner_type:ty,)+ })?
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct $struct {
            $($(#[doc = $doc])+ pub(crate) $name: $type,)+
            $($($(#[$meta])* pub(crate) $inner: $inner_type,)+)?
        }

        impl Default for $struct {
            fn default() -> Self {
                Self { $($name: $default,)+ $($($inner: Default::default(),)+)? }
            }
        }

        impl $struct {
            pub(super) const SECTION: Section = section!(@section [$($about)*] $section $([$($doc)+] $name [$($range)?])+);
        }
    };
    (@section [$($about:literal)*] $section:literal $([$($doc:literal)+] $name:ident [$($range:expr)?])+) => {
        Section {
            name: $section,
            #[cfg(test)]
            about: concat!($($about),*),
            settings: &[$(Setting {
                name: stringify!($name),
                range: section!(@range $($range)?),
                #[cfg(test)]
                doc: concat!($($doc),+),
            }),+],
        }
    };
    (@range) => { None };
    (@range $range:expr) => { Some($range) };
}

pub(super) use section;

/// The range of a setting, by its whole key; `None` for an unknown key or another kind of setting.
pub(crate) fn range(sections: &[Section], key: &str) -> Option<Range> {
    let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
    let section = sections.iter().find(|declared| declared.name == section)?;
    section.settings.iter().find(|setting| setting.name == name)?.range
}

/// Refuses a number of a table that is outside its range. `within` is the table's key with a dot, or empty.
///
/// Leaves texts for counts alone: the deserializer refuses them and names their line.
pub(crate) fn check_ranges(sections: &[Section], within: &str, table: &Table) -> Result<(), RangeError> {
    table.iter().try_for_each(|(name, value)| {
        let key = format!("{within}{name}");
        match (value, range(sections, &key)) {
            (Value::Table(inner), _) => check_ranges(sections, &format!("{key}."), inner),
            (Value::Integer(number), Some(range)) => range.check(&key, (*number).into()).map(drop),
            (Value::String(text), Some(range)) if *range.units != COUNT => range.read(&key, text).map(drop),
            _ => Ok(()),
        }
    })
}
