//! Paths into messages: `data.group_members["drums"]`, `data.group_members."lead guitar"`, `data.tracks[3]`.

use std::{
    fmt::{self, Write as _},
    iter::Peekable,
    str::{Chars, FromStr},
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

impl PathStep {
    /// Makes a step to an item of a list.
    #[must_use]
    pub fn index(position: usize) -> Self {
        Self::Index(u32::try_from(position).unwrap_or(u32::MAX))
    }
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

    /// Reads a path of a message for people, as far as it can be read. [`FromStr`] reports faults.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(parse(text).0)
    }

    /// Whether the path means the message itself.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The reason why a text is not a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Two dots follow each other, or a dot is first or last.
    #[error("a segment is empty; write a.b")]
    EmptySegment,
    /// Brackets hold neither a position nor a key in quotes, or are not closed.
    #[error("brackets hold a position or a key in quotes; write a[3] or a[\"key\"]")]
    Brackets,
    /// A key in quotes is not closed, has an unknown escape, or is followed by more than a step.
    #[error("a key in quotes ends with a quote, and then the path or the segment ends; write a.\"key\".b")]
    Quotes,
}

/// Splits a text at its commas, except for those in quotes: paths of a list may hold keys with commas.
pub fn split_paths(text: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |letter: char| {
        match letter {
            '"' if !is_escaped => is_quoted = !is_quoted,
            ',' if !is_quoted => return true,
            _ => {}
        }
        is_escaped = is_quoted && letter == '\\' && !is_escaped;
        false
    })
}

impl FromStr for FieldPath {
    type Err = PathError;

    /// Reads a path: names joined by dots, `\.` for a dot in a name, `[3]`, and `["key"]` or `."key"`. The empty text
    /// is the message itself.
    fn from_str(text: &str) -> Result<Self, PathError> {
        match parse(text) {
            (steps, None) => Ok(Self(steps)),
            (_, Some(fault)) => Err(fault),
        }
    }
}

/// A fault at a field: the place, and a text or a typed fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldFault<F = String> {
    /// Path of the field.
    pub path: FieldPath,
    /// The fault.
    pub fault: F,
}

impl<F> FieldFault<F> {
    /// Makes a fault of the message itself.
    pub fn new(fault: impl Into<F>) -> Self {
        Self { path: FieldPath::default(), fault: fault.into() }
    }

    /// The same fault, seen from the message or the list around this one.
    #[must_use]
    pub fn within(mut self, step: PathStep) -> Self {
        self.path.0.insert(0, step);
        self
    }
}

impl<F: fmt::Display> fmt::Display for FieldFault<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.is_empty() {
            true => self.fault.fmt(f),
            false => write!(f, "{}: {}", self.path, self.fault),
        }
    }
}

impl<F: fmt::Debug + fmt::Display> std::error::Error for FieldFault<F> {}

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

/// Reads the steps before the first fault of brackets; an empty segment is left out.
fn parse(path: &str) -> (Vec<PathStep>, Option<PathError>) {
    let (mut steps, mut fault) = (Vec::new(), None);
    let mut letters = path.chars().peekable();
    // Whether a name must follow.
    let mut is_open = false;
    while let Some(letter) = letters.peek().copied() {
        match letter {
            '.' => {
                letters.next();
                if is_open || steps.is_empty() {
                    fault = Some(PathError::EmptySegment);
                }
                is_open = true;
                continue;
            }
            '[' => {
                letters.next();
                let Some(step) = bracket(&mut letters) else { return (steps, Some(PathError::Brackets)) };
                steps.push(step);
                if is_open {
                    fault = Some(PathError::EmptySegment);
                } else if letters.peek().is_some_and(|letter| !matches!(letter, '.' | '[')) {
                    fault = Some(PathError::Brackets);
                }
            }
            '"' if is_open && !steps.is_empty() => {
                letters.next();
                let key =
                    quoted(&mut letters).filter(|_| letters.peek().is_none_or(|letter| matches!(letter, '.' | '[')));
                let Some(key) = key else { return (steps, Some(PathError::Quotes)) };
                steps.push(PathStep::Key(key));
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
        is_open = false;
    }
    (steps, if is_open { Some(PathError::EmptySegment) } else { fault })
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
    let key = quoted(letters)?;
    letters.next_if_eq(&']')?;
    Some(PathStep::Key(key))
}

/// Reads a key with Rust's escapes, and the quote that closes it.
fn quoted(letters: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut key = String::new();
    loop {
        match letters.next()? {
            '"' => return Some(key),
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
    fn quotes_hold_any_key_and_mean_what_brackets_mean() {
        for key in ["0a", "a b", "ключ", "", "-5", "a,b", "a.b[0]", "\"\\\n", "a\u{7f}"] {
            let path = FieldPath::field("a").with(PathStep::Key(key.into())).with(PathStep::Field("b".into()));
            assert_eq!(format!("a.{key:?}.b").parse(), Ok(path.clone()), "{key}");
            assert_eq!(format!("a[{key:?}].b").parse(), Ok(path), "{key}");
        }
        // A quote within a name, or at the beginning, is a letter.
        assert_eq!("\"a\"".parse(), Ok(FieldPath::field("\"a\"")));
        assert_eq!("a\"b".parse(), Ok(FieldPath::field("a\"b")));
    }

    #[test]
    fn commas_in_quotes_do_not_split_a_list_of_paths() {
        let split = |text| split_paths(text).collect::<Vec<_>>();
        assert_eq!(split(r#"a.b,c."d,e",f["g,\",h"]"#), ["a.b", r#"c."d,e""#, r#"f["g,\",h"]"#]);
        assert_eq!(split(r#"a."\\",b"#), [r#"a."\\""#, "b"]);
        assert_eq!(split(""), [""]);
        assert_eq!(split(",a"), ["", "a"]);
        assert_eq!(split(r#"a."b,c"#), [r#"a."b,c"#]);
    }

    #[test]
    fn nonsense_ends_a_path() {
        for text in ["a[", "a[x]", "a[\"b", "a[\"\\u{110000}\"]", "a[99999999999]"] {
            assert_eq!(FieldPath::parse(text), FieldPath::field("a"), "{text}");
            assert_eq!(text.parse::<FieldPath>(), Err(PathError::Brackets), "{text}");
        }
        for text in [".", ".a", "a.", "a..b", "a.[3]", "a.[\"b\"].c", "..", "[0]."] {
            assert_eq!(text.parse::<FieldPath>(), Err(PathError::EmptySegment), "{text}");
        }
        assert_eq!("a[3]b".parse::<FieldPath>(), Err(PathError::Brackets));
        for text in ["a.\"b", "a.\"b\"c", "a.\"b\"\"c\"", "a.\"\\u{110000}\""] {
            assert_eq!(text.parse::<FieldPath>(), Err(PathError::Quotes), "{text}");
        }
        let path = FieldPath::field("a.b").with(PathStep::Key(String::new())).with(PathStep::Index(0));
        assert_eq!(r#"a\.b[""][0]"#.parse::<FieldPath>(), Ok(path));
        assert_eq!("".parse::<FieldPath>(), Ok(FieldPath::default()));
        assert!(FieldPath::parse("").is_empty());
    }

    #[test]
    fn a_fault_names_its_place() {
        let fault = FieldFault::<String>::new("is not UTF-8");
        assert_eq!(fault.to_string(), "is not UTF-8");
        let fault = fault.within(PathStep::Key("k".into())).within(PathStep::Field("data".into()));
        assert_eq!(fault.to_string(), r#"data["k"]: is not UTF-8"#);
    }
}
