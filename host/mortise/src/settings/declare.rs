//! How settings are declared: each once, with its name, default, range and the text that explains it.
//!
//! From a declaration follow the field that holds the setting, its default, the check of its range, what `--help` says
//! of its flag, and what `config.toml` says. The unit is the end of the name: `_ms` is milliseconds, `bytes` is bytes,
//! anything else counts.

use toml::{Table, Value};

use super::range::{OutOfRange, Range};

/// Settings that have a table of the file in common.
pub(crate) struct Section {
    /// The table; empty at the top of the file.
    pub(crate) name: &'static str,
    /// What is said above the table in `config.toml`. Doc comments, so each line begins with a space.
    #[cfg(test)]
    pub(crate) about: &'static str,
    pub(crate) settings: &'static [Setting],
}

/// One setting.
pub(crate) struct Setting {
    /// Its key within the section.
    pub(crate) name: &'static str,
    /// `None`: it is no whole number.
    pub(crate) range: Option<Range>,
    /// What is said above it in `config.toml`, without unit and range.
    #[cfg(test)]
    pub(crate) doc: &'static str,
}

/// Declares a section and the struct that it is read into: `name: type = default, range;`. What follows `with` are
/// tables within it, which have declarations of their own.
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        struct $struct:ident in $section:literal {
            $($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr $(, $range:expr)?;)+
        }
        $(with { $($(#[doc = $inner_doc:literal])* $inner:ident: $inner_type:ty,)+ })?
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct $struct {
            $($(#[doc = $doc])+ pub(crate) $name: $type,)+
            $($($(#[doc = $inner_doc])* pub(crate) $inner: $inner_type,)+)?
        }

        impl Default for $struct {
            fn default() -> Self {
                Self { $($name: $default,)+ $($($inner: Default::default(),)+)? }
            }
        }

        impl $struct {
            const SECTION: Section = section!(@section [$($about)*] $section $([$($doc)+] $name [$($range)?])+);
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

/// Declares a section whose struct and defaults are those of the part of the server that it is for: `name, range;`.
macro_rules! section_of {
    (
        $(#[doc = $about:literal])*
        const $constant:ident in $section:literal {
            $($(#[doc = $doc:literal])+ $name:ident $(, $range:expr)?;)+
        }
    ) => {
        const $constant: Section = section!(@section [$($about)*] $section $([$($doc)+] $name [$($range)?])+);
    };
}

pub(super) use {section, section_of};

/// The range of a setting, by its whole key; `None` if it is no whole number or no setting.
pub(crate) fn range(sections: &[Section], key: &str) -> Option<Range> {
    let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
    let section = sections.iter().find(|one| one.name == section)?;
    section.settings.iter().find(|one| one.name == name)?.range
}

/// Refuses a number of a table that is outside its range. `within` is the table's key with a dot, or empty.
pub(crate) fn check_ranges(sections: &[Section], within: &str, table: &Table) -> Result<(), OutOfRange> {
    table.iter().try_for_each(|(name, value)| {
        let key = format!("{within}{name}");
        match value {
            Value::Table(inner) => check_ranges(sections, &format!("{key}."), inner),
            Value::Integer(number) => match range(sections, &key) {
                Some(range) => range.check(&key, (*number).into()),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    })
}
