//! Finds what a field path means in the tree of a text.

use std::iter::Peekable;
use std::str::Chars;

use mortise_resource::PathStep;

use crate::{
    Format,
    data::names,
    node::{Node, Value},
    place::Span,
};

/// The place of the value that a path means, or of the last one on the way to it.
pub(crate) fn find(root: &Node, path: &str, format: Format) -> Span {
    let mut steps = parse(path);
    if steps.first() == Some(&PathStep::Field("resource".into())) {
        steps.remove(0);
    }
    // What stands flat at the top is a part of the id.
    for shell in ["id", "tenancy"] {
        if steps.first() == Some(&PathStep::Field(shell.into())) && child(root, shell, format).is_none() {
            steps.remove(0);
        }
    }
    let (mut node, mut span) = (root, root.span);
    for step in &steps {
        let next = match step {
            PathStep::Field(name) => child(node, name, format),
            PathStep::Key(key) => entry(node, |name| name == key),
            PathStep::Index(index) => match &node.value {
                Value::List(items) | Value::Blocks(items) => {
                    usize::try_from(*index).ok().and_then(|index| items.get(index)).map(|item| (item.span, item))
                }
                _ => None,
            },
        };
        let Some((at, value)) = next else { break };
        (span, node) = (at, value);
    }
    span
}

fn child<'n>(node: &'n Node, name: &str, format: Format) -> Option<(Span, &'n Node)> {
    let plain = |text: &str| text.replace('_', "").to_ascii_lowercase();
    let wanted = plain(name);
    let hcl = names::hcl_name(name);
    entry(node, |key| if format == Format::Hcl { key == hcl || plain(key) == wanted } else { plain(key) == wanted })
}

/// A map's entry; its place is that of its key.
fn entry(node: &Node, wanted: impl Fn(&str) -> bool) -> Option<(Span, &Node)> {
    node.entries()?.iter().find(|entry| wanted(&entry.key)).map(|entry| (entry.key_span, &entry.value))
}

/// The steps of a path, up to where it stops making sense.
fn parse(path: &str) -> Vec<PathStep> {
    let mut steps = Vec::new();
    let mut letters = path.chars().peekable();
    while let Some(letter) = letters.peek().copied() {
        match letter {
            '.' => {
                letters.next();
            }
            '[' => {
                letters.next();
                let Some(step) = bracket(&mut letters) else { break };
                steps.push(step);
            }
            _ => {
                let mut name = String::new();
                while let Some(letter) = letters.next_if(|letter| !matches!(letter, '.' | '[')) {
                    name.push(letter);
                }
                steps.push(PathStep::Field(name));
            }
        }
    }
    steps
}

/// The content of brackets: a position, or a key in quotes with Rust's escapes.
fn bracket(letters: &mut Peekable<Chars<'_>>) -> Option<PathStep> {
    if letters.next_if_eq(&'"').is_none() {
        let mut digits = String::new();
        while let Some(digit) = letters.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        letters.next_if_eq(&']')?;
        return digits.parse().ok().map(PathStep::Index);
    }
    let mut key = String::new();
    loop {
        match letters.next()? {
            '"' => break,
            '\\' => key.push(match letters.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                'u' => {
                    letters.next_if_eq(&'{')?;
                    let mut digits = String::new();
                    while let Some(digit) = letters.next_if(char::is_ascii_hexdigit) {
                        digits.push(digit);
                    }
                    letters.next_if_eq(&'}')?;
                    char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                }
                other => other,
            }),
            other => key.push(other),
        }
    }
    letters.next_if_eq(&']')?;
    Some(PathStep::Key(key))
}

#[cfg(test)]
mod tests {
    use mortise_resource::FieldPath;

    use super::*;

    #[test]
    fn paths_are_read_as_they_are_printed() {
        let path = FieldPath(vec![
            PathStep::Field("data".into()),
            PathStep::Key("a\"].b\\\n\u{7f}é".into()),
            PathStep::Index(12),
            PathStep::Field("year_of_release".into()),
        ]);
        assert_eq!(parse(&path.to_string()), path.0);
    }

    #[test]
    fn nonsense_ends_a_path() {
        for text in ["a[", "a[x]", "a[\"b", "a[\"\\u{110000}\"]", "a[99999999999]"] {
            assert_eq!(parse(text), vec![PathStep::Field("a".into())], "{text}");
        }
        assert_eq!(parse(""), Vec::new());
    }
}
