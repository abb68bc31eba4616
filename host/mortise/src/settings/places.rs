//! Places of keys in the text of a configuration: the line and the column of each key, for findings and for origins.
//!
//! Cost: one parse of the text, and an entry for each key of the file.

use std::{collections::BTreeMap, fmt};

use toml::de::{DeTable, DeValue};

/// A place in a text. Both numbers count from one, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The places of all keys of a text, and its faults of syntax.
#[derive(Debug, Default)]
pub(crate) struct Places {
    by_key: BTreeMap<String, Place>,
    /// Faults of syntax with their places, in the order of the text. With any of them some keys may be missing.
    pub(crate) syntax: Vec<(Option<Place>, String)>,
}

impl Places {
    /// Finds the keys of a text.
    pub(crate) fn of(text: &str) -> Self {
        let (table, faults) = DeTable::parse_recoverable(text);
        let mut places = Self::default();
        places.add("", table.get_ref(), text);
        let describe = |fault: toml::de::Error| {
            let place = fault.span().map(|span| place(text, span.start));
            (place, fault.message().trim().replace('\n', "; "))
        };
        places.syntax = faults.into_iter().map(describe).collect();
        places.syntax.sort();
        places
    }

    /// Returns the place of a key, if the text has it.
    pub(crate) fn find(&self, key: &str) -> Option<Place> {
        self.by_key.get(key).copied()
    }

    /// Returns the place of a key, or of the closest table around it that the text has.
    pub(crate) fn nearest(&self, key: &str) -> Option<Place> {
        std::iter::successors(Some(key), |key| key.rsplit_once('.').map(|(table, _)| table))
            .find_map(|key| self.find(key))
    }

    fn add(&mut self, within: &str, table: &DeTable<'_>, text: &str) {
        for (name, value) in table {
            let key = format!("{within}{}", name.get_ref());
            self.by_key.insert(key.clone(), place(text, name.span().start));
            if let DeValue::Table(inner) = value.get_ref() {
                self.add(&format!("{key}."), inner, text);
            }
        }
    }
}

/// Returns the place of a byte.
fn place(text: &str, offset: usize) -> Place {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    Place { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_line_and_column_and_each_fault_of_syntax_too() {
        let places = Places::of("a = 1\n[store]\n  cash = \"ä\"\nin.ner = { x = 1 }\n[plugin.\"a b\"]\n");
        let at = |key: &str| places.find(key).map(|place| place.to_string());
        assert_eq!(at("a").as_deref(), Some("1:1"));
        assert_eq!(at("store.cash").as_deref(), Some("3:3"));
        assert_eq!(at("store.in.ner.x").as_deref(), Some("4:12"));
        assert_eq!(at("plugin.a b").as_deref(), Some("5:9"));
        assert_eq!(at("store.cache"), None);
        assert_eq!(places.nearest("store.cache.size").map(|place| place.line), Some(2));
        assert!(places.syntax.is_empty());
        let faulty = Places::of("a = \nb = 1\nc = [1\nd = 2 3\n");
        assert!(faulty.syntax.len() > 1, "{:?}", faulty.syntax);
        assert_eq!(faulty.syntax.first().and_then(|(place, _)| *place).map(|place| place.line), Some(1));
    }
}
