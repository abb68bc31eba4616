//! YAML for people to edit: block style, two spaces, long texts as literal blocks, and quotes where YAML 1.2 or 1.1
//! would take a string for another type.

use mortise_resource::pb;

use crate::{
    Types,
    node::{Resolved, resolve},
    print,
    tree::{self, Tree},
};

/// A resource as YAML, id first, data in the order of its fields; ends with a line break.
#[must_use]
pub fn to_yaml(resource: &pb::Resource, types: &dyn Types) -> String {
    write(&print::resource(resource, types, None))
}

/// Several resources as documents of one text, with `---` between them.
#[must_use]
pub fn list_to_yaml(resources: &[pb::Resource], types: &dyn Types) -> String {
    let documents: Vec<String> = resources.iter().map(|resource| to_yaml(resource, types)).collect();
    documents.join("---\n")
}

pub(crate) fn write(tree: &Tree) -> String {
    let mut text = String::new();
    match tree {
        Tree::Map(entries) if !entries.is_empty() => map(entries, 0, &mut text),
        Tree::List(items) if !items.is_empty() => list(items, 0, &mut text),
        other => {
            scalar(other, 0, &mut text);
            text.push('\n');
        }
    }
    text
}

/// Longest key in short form, bytes; longer keys are written in YAML's long form, since a short one may not exceed 1024
/// characters.
const LONG_KEY_BYTES: usize = 512;

fn indent(level: usize, text: &mut String) {
    for _ in 0..level {
        text.push_str("  ");
    }
}

fn map(entries: &[(String, Tree)], level: usize, text: &mut String) {
    for (position, (key, value)) in entries.iter().enumerate() {
        if position > 0 {
            indent(level, text);
        }
        let key = if is_plain(key) { key.clone() } else { quoted(key) };
        if key.len() > LONG_KEY_BYTES {
            text.push_str("? ");
            text.push_str(&key);
            text.push('\n');
            indent(level, text);
        } else {
            text.push_str(&key);
        }
        text.push(':');
        match value {
            Tree::Map(inner) if !inner.is_empty() => {
                text.push('\n');
                indent(level + 1, text);
                map(inner, level + 1, text);
            }
            Tree::List(items) if !items.is_empty() => {
                text.push('\n');
                indent(level + 1, text);
                list(items, level + 1, text);
            }
            value => {
                text.push(' ');
                scalar(value, level, text);
                text.push('\n');
            }
        }
    }
}

fn list(items: &[Tree], level: usize, text: &mut String) {
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            indent(level, text);
        }
        text.push_str("- ");
        match item {
            Tree::Map(inner) if !inner.is_empty() => map(inner, level + 1, text),
            Tree::List(inner) if !inner.is_empty() => list(inner, level + 1, text),
            item => {
                scalar(item, level, text);
                text.push('\n');
            }
        }
    }
}

/// Writes a value behind a key or a dash; `level` is that of the key.
fn scalar(value: &Tree, level: usize, text: &mut String) {
    match value {
        Tree::Null => text.push_str("null"),
        Tree::Bool(value) => text.push_str(&value.to_string()),
        Tree::Int(value) => text.push_str(&value.to_string()),
        Tree::Long(value) => text.push_str(&value.to_string()),
        Tree::Double(value) => text.push_str(&float(*value, format!("{value:?}"))),
        Tree::Float(value) => text.push_str(&float(f64::from(*value), format!("{value:?}"))),
        Tree::Text(content) if is_plain(content) => text.push_str(content),
        Tree::Text(content) if fits_block(content) => block(content, level + 1, text),
        Tree::Text(content) => text.push_str(&quoted(content)),
        // Empty lists and maps; others are written over several lines.
        Tree::List(_) => text.push_str("[]"),
        Tree::Map(_) => text.push_str("{}"),
    }
}

fn float(value: f64, shortest: String) -> String {
    if value.is_nan() {
        ".nan".into()
    } else if value.is_infinite() {
        if value > 0.0 { ".inf".into() } else { "-.inf".into() }
    } else {
        tree::whole(value).map_or(shortest, |whole| whole.to_string())
    }
}

/// Whether every reader takes a string for a string without quotes.
fn is_plain(text: &str) -> bool {
    let Some(first) = text.chars().next() else { return false };
    let indicator = "-?:,[]{}#&*!|>'\"%@`=<~".contains(first);
    let looks_like_a_value = resolve(text) != Resolved::Text
        || matches!(
            text.to_ascii_lowercase().as_str(),
            "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null" | "nan" | "infinity"
        )
        || ((first.is_ascii_digit() || "+.".contains(first))
            && text.chars().all(|letter| letter.is_ascii_hexdigit() || "xXoOtTzZ_.:+- ".contains(letter)))
        || text.starts_with("...");
    !indicator
        && !looks_like_a_value
        && !text.starts_with(' ')
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && text.chars().all(is_printable)
}

/// Returns true for a letter that YAML may have as it is; line breaks, tabs, and marks that change the direction of the
/// text around them are left out.
fn is_printable(letter: char) -> bool {
    let changes_direction =
        matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !letter.is_control()
        && !changes_direction
        && !matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether a text of several lines can be a literal block.
fn fits_block(text: &str) -> bool {
    text.contains('\n')
        // Leading blanks would need an indentation indicator, which is hard to edit.
        && !text.starts_with([' ', '\n', '\t'])
        && text.chars().all(|letter| letter == '\n' || letter == '\t' || is_printable(letter))
}

fn block(content: &str, level: usize, text: &mut String) {
    let body = content.strip_suffix('\n');
    // Line breaks at the end: dropped, one kept, all kept.
    text.push_str(match body {
        None => "|-",
        Some(body) if body.ends_with('\n') => "|+",
        Some(_) => "|",
    });
    for line in body.unwrap_or(content).split('\n') {
        text.push('\n');
        if !line.is_empty() {
            indent(level, text);
            text.push_str(line);
        }
    }
}

fn quoted(content: &str) -> String {
    let mut text = String::with_capacity(content.len() + 2);
    text.push('"');
    for letter in content.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            letter if is_printable(letter) => text.push(letter),
            letter if u32::from(letter) <= 0xff => text.push_str(&format!("\\x{:02x}", u32::from(letter))),
            letter if u32::from(letter) <= 0xffff => text.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => text.push_str(&format!("\\U{:08x}", u32::from(letter))),
        }
    }
    text.push('"');
    text
}
