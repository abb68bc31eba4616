//! Paths into messages: `data.group_members["drums"]`, `data.tracks[3]`.

use std::{
    fmt::{self, Write as _},
    iter::Peekable,
    str::Chars,
};

/// A step into a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathStep {
    /// Into a field, by its protobuf name.
    Field(String),
    /// Into a list, counted from zero.
    Index(u32),
    /// Into a map.
    Key(String),
}

/// A path into a message; the empty path means the message itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldPath(pub Vec<PathStep>);

impl FieldPath {
    /// Makes a path of one field.
    pub fn field(name: impl Into<String>) -> Self {
        Self(vec![PathStep::Field(name.into())])
    }

    /// The path, one step further.
    #[must_use]
    pub fn with(mut self, step: PathStep) -> Self {
        self.0.push(step);
        self
    }

    /// Reads a path and ignores the rest from the first fault on.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(parse(text))
    }

    /// Whether the path means the message itself.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Field(name) => {
                    if position > 0 {
                        f.write_char('.')?;
                    }
                    f.write_str(name)?;
                }
                PathStep::Index(index) => write!(f, "[{index}]")?,
                PathStep::Key(key) => write!(f, "[{key:?}]")?,
            }
        }
        Ok(())
    }
}

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
                    // A backslash makes a dot part of the name.
                    name.push(if letter == '\\' { letters.next_if_eq(&'.').unwrap_or(letter) } else { letter });
                }
                steps.push(PathStep::Field(name));
            }
        }
    }
    steps
}

/// Reads the content of brackets: a position, or a key in quotes with Rust's escapes.
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
    use super::*;

    #[test]
    fn reads_like_source() {
        let path = FieldPath(vec![
            PathStep::Field("data".into()),
            PathStep::Field("members".into()),
            PathStep::Key("a\"b".into()),
            PathStep::Field("tracks".into()),
            PathStep::Index(3),
        ]);
        assert_eq!(path.to_string(), r#"data.members["a\"b"].tracks[3]"#);
        assert_eq!(FieldPath::parse(&path.to_string()), path);
        let odd = FieldPath(vec![
            PathStep::Field("a".into()),
            PathStep::Key("a\"].b\\\n\u{7f}é".into()),
            PathStep::Index(12),
        ]);
        assert_eq!(FieldPath::parse(&odd.to_string()), odd);
    }

    #[test]
    fn a_backslash_makes_a_dot_part_of_a_name() {
        assert_eq!(FieldPath::parse("a\\.b.c"), FieldPath::field("a.b").with(PathStep::Field("c".into())));
    }

    #[test]
    fn nonsense_ends_a_path() {
        for text in ["a[", "a[x]", "a[\"b", "a[\"\\u{110000}\"]", "a[99999999999]"] {
            assert_eq!(FieldPath::parse(text), FieldPath::field("a"), "{text}");
        }
        assert!(FieldPath::parse("").is_empty());
    }
}
