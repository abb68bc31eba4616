//! Variables of a compose file: `$X`, `${X}`, `${X:-d}`, `${X-d}`, `${X:?e}`, `${X?e}`, `${X:+a}`, `${X+a}`, `$$`; and
//! the file `.env` with their values.
//!
//! A variable of the environment beats one of `.env`. Defaults may have variables, 16 levels deep, and a value has at
//! most 64 KiB, so that no file can fill the memory. Written by hand: crates for `.env` know none of these forms.

use std::collections::BTreeMap;

use crate::env::Env;

/// Most levels of variables in defaults of variables.
const MAX_DEPTH: usize = 16;

/// Longest text after variables are filled in, bytes.
const MAX_BYTES: usize = 64 << 10;

/// Most variables in a `.env` file.
const MAX_VARIABLES: usize = 10_000;

/// Reason why variables cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::commands::catalog) enum VariableError {
    #[error("{0:?} is not a variable; write $NAME or ${{NAME}}, and $$ for a dollar sign")]
    Form(String),
    #[error("the variable {0} is missing: {1}; set it in the environment or in .env")]
    Required(String, String),
    #[error("variables are nested more than {MAX_DEPTH} levels deep")]
    Depth,
    #[error("it is longer than {MAX_BYTES} bytes with its variables")]
    Length,
}

/// Fault of a `.env` file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::commands::catalog) enum EnvFileError {
    #[error("{0:?} is not the name of a variable; write NAME=VALUE")]
    Name(String),
    #[error("the quote of {0} is not closed")]
    Quote(String),
    #[error("it has more than {MAX_VARIABLES} variables")]
    Count,
    #[error(transparent)]
    Variable(#[from] VariableError),
}

/// A text with its variables filled in, and the variables that are not set.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) text: String,
    pub(super) unset: Vec<String>,
}

/// Values of variables.
#[derive(Clone)]
pub(super) struct Variables<'e> {
    env: Env<'e>,
    values: BTreeMap<String, String>,
}

impl<'e> Variables<'e> {
    /// Makes variables with the values of the environment alone.
    pub(super) fn new(env: Env<'e>) -> Self {
        Self { env, values: BTreeMap::new() }
    }

    pub(super) fn get(&self, name: &str) -> Option<String> {
        (self.env)(name).or_else(|| self.values.get(name).cloned())
    }

    /// Adds the values of a `.env` file, as far as they are not known yet.
    ///
    /// # Errors
    /// The first fault, with its line.
    pub(super) fn add_file(&mut self, text: &str) -> Result<(), (usize, EnvFileError)> {
        let mut own = Self { env: self.env, values: self.values.clone() };
        let mut added = BTreeMap::new();
        let (mut rest, mut line) = (text.strip_prefix('\u{feff}').unwrap_or(text), 1_usize);
        while !rest.is_empty() {
            let entry = Entry::next(rest).map_err(|error| (line, error))?;
            if let Some((name, value)) = entry.pair {
                let value = match value {
                    EnvValue::Literal(text) => text,
                    EnvValue::Template(text) => own.fill_in(&text).map_err(|error| (line, error.into()))?.text,
                };
                if !self.values.contains_key(&name) {
                    own.values.insert(name.clone(), value.clone());
                }
                added.insert(name, value);
                if added.len() > MAX_VARIABLES {
                    return Err((line, EnvFileError::Count));
                }
            }
            line += entry.lines;
            rest = rest.get(entry.bytes..).unwrap_or_default();
        }
        for (name, value) in added {
            self.values.entry(name).or_insert(value);
        }
        Ok(())
    }

    /// Fills the variables of a text in. An unset variable becomes an empty text.
    ///
    /// # Errors
    /// A malformed or a required variable, or a bound.
    pub(super) fn fill_in(&self, text: &str) -> Result<Filled, VariableError> {
        let mut filled = Filled::default();
        self.expand(text, 0, &mut filled)?;
        Ok(filled)
    }

    fn expand(&self, text: &str, depth: usize, filled: &mut Filled) -> Result<(), VariableError> {
        if depth > MAX_DEPTH {
            return Err(VariableError::Depth);
        }
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            filled.push(before)?;
            if let Some(escaped) = after.strip_prefix('$') {
                filled.push("$")?;
                rest = escaped;
            } else if let Some(inner) = after.strip_prefix('{') {
                let end = closing_brace(inner).ok_or_else(|| VariableError::Form(shown(rest, before)))?;
                let (braced, behind) = inner.split_at(end);
                self.braced(braced, depth, filled)?;
                rest = behind.strip_prefix('}').unwrap_or(behind);
            } else {
                let (name, behind) = split_name(after);
                if name.is_empty() {
                    return Err(VariableError::Form(shown(rest, before)));
                }
                match self.get(name) {
                    Some(value) => filled.push(&value)?,
                    None => filled.unset.push(name.to_owned()),
                }
                rest = behind;
            }
        }
        filled.push(rest)
    }

    /// The form in braces, such as `X:-d`.
    fn braced(&self, braced: &str, depth: usize, filled: &mut Filled) -> Result<(), VariableError> {
        let (name, operation) = split_name(braced);
        let malformed = || VariableError::Form(format!("${{{braced}}}"));
        if name.is_empty() {
            return Err(malformed());
        }
        let value = self.get(name);
        // With a colon an empty value counts as missing.
        let (value, operation) = match operation.strip_prefix(':') {
            Some(operation) => (value.filter(|value| !value.is_empty()), operation),
            None => (value, operation),
        };
        let mut letters = operation.chars();
        match (letters.next(), value) {
            (None, _) if braced.ends_with(':') => Err(malformed()),
            (None, Some(value)) => filled.push(&value),
            (None, None) => {
                filled.unset.push(name.to_owned());
                Ok(())
            }
            (Some('-' | '?'), Some(value)) => filled.push(&value),
            (Some('-'), None) => self.expand(letters.as_str(), depth + 1, filled),
            (Some('?'), None) => {
                let mut reason = Filled::default();
                self.expand(letters.as_str(), depth + 1, &mut reason)?;
                let reason = if reason.text.is_empty() { "the file requires it".to_owned() } else { reason.text };
                Err(VariableError::Required(name.to_owned(), reason))
            }
            (Some('+'), Some(_)) => self.expand(letters.as_str(), depth + 1, filled),
            (Some('+'), None) => Ok(()),
            (Some(_), _) => Err(malformed()),
        }
    }
}

impl Filled {
    fn push(&mut self, text: &str) -> Result<(), VariableError> {
        if self.text.len() + text.len() > MAX_BYTES {
            return Err(VariableError::Length);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// Beginning of a malformed variable: the text after `before`.
fn shown(text: &str, before: &str) -> String {
    text.get(before.len()..).unwrap_or_default().chars().take(20).collect()
}

fn split_name(text: &str) -> (&str, &str) {
    let is_part = |index: usize, letter: char| {
        letter == '_' || letter.is_ascii_alphabetic() || (index > 0 && letter.is_ascii_digit())
    };
    let end = text.char_indices().find(|(index, letter)| !is_part(*index, *letter)).map_or(text.len(), |(end, _)| end);
    text.split_at(end)
}

/// Offset of the brace that closes a variable whose opening brace stands before the text.
fn closing_brace(text: &str) -> Option<usize> {
    let (mut open, mut last) = (1_usize, ' ');
    for (index, letter) in text.char_indices() {
        match letter {
            '{' if last == '$' => open += 1,
            '}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(index);
        }
        last = letter;
    }
    None
}

/// Value in a `.env` file.
enum EnvValue {
    /// A text in single quotes.
    Literal(String),
    /// A text whose variables are filled in.
    Template(String),
}

/// Entry of a `.env` file: a line, or several if its value is in quotes.
struct Entry {
    pair: Option<(String, EnvValue)>,
    lines: usize,
    bytes: usize,
}

impl Entry {
    /// Reads the entry at the beginning of a text.
    fn next(text: &str) -> Result<Self, EnvFileError> {
        let whole = text.split_inclusive('\n').next().unwrap_or_default();
        let line = whole.trim();
        let one_line = |pair| Self { pair, lines: 1, bytes: whole.len() };
        if line.is_empty() || line.starts_with('#') {
            return Ok(one_line(None));
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        // A name without a value has the value of the environment, which comes first anyway.
        let Some((name, value)) = line.split_once(['=', ':']) else {
            return if is_env_name(line) { Ok(one_line(None)) } else { Err(EnvFileError::Name(line.to_owned())) };
        };
        let (name, value) = (name.trim().to_owned(), value.trim_start());
        if !is_env_name(&name) {
            return Err(EnvFileError::Name(name));
        }
        let Some(quote) = value.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
            let plain = match value.find(" #").or_else(|| value.find("\t#")) {
                Some(comment) => value.get(..comment).unwrap_or_default(),
                None if value.starts_with('#') => "",
                None => value,
            };
            return Ok(one_line(Some((name, EnvValue::Template(plain.trim_end().to_owned())))));
        };
        // The value begins behind the first quote of the line, since no name has one.
        let Some((before, quoted)) = text.split_once(quote) else { return Err(EnvFileError::Quote(name)) };
        let end = closing_quote(quoted, quote).ok_or_else(|| EnvFileError::Quote(name.clone()))?;
        let (value, behind) = quoted.split_at(end);
        let tail = behind.split_inclusive('\n').next().unwrap_or_default();
        let value =
            if quote == '"' { EnvValue::Template(unescaped(value)) } else { EnvValue::Literal(value.to_owned()) };
        let lines = value_lines(quoted, end) + 1;
        Ok(Self { pair: Some((name, value)), lines, bytes: before.len() + 1 + end + tail.len() })
    }
}

fn value_lines(quoted: &str, end: usize) -> usize {
    quoted.bytes().take(end).filter(|byte| *byte == b'\n').count()
}

fn is_env_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter))
}

fn closing_quote(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (index, letter) in text.char_indices() {
        if letter == quote && !escaped {
            return Some(index);
        }
        escaped = quote == '"' && letter == '\\' && !escaped;
    }
    None
}

/// A text in double quotes without its escapes. An escaped dollar sign is doubled: it begins no variable.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, letter == '\\') {
            (_, true) => match letters.next() {
                Some('n') => plain.push('\n'),
                Some('r') => plain.push('\r'),
                Some('t') => plain.push('\t'),
                Some('$') => plain.push_str("$$"),
                Some(other) => plain.push(other),
                None => plain.push('\\'),
            },
            (letter, false) => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "SET" => Some("set".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_have_the_forms_of_compose() {
        let variables = Variables::new(&env);
        for (text, filled) in [
            ("$SET", "set"),
            ("a${SET}b$SET.c", "asetbset.c"),
            ("${SET:-d}${SET-d}${SET:?e}${SET?e}", "setsetsetset"),
            ("${EMPTY:-d}|${EMPTY-d}|${EMPTY?e}", "d||"),
            ("${NONE:-d}|${NONE-d}|${NONE:-}", "d|d|"),
            ("${SET:+a}|${EMPTY:+a}|${EMPTY+a}|${NONE:+a}|${NONE+a}", "a||a||"),
            ("${NONE:-${ALSO:-$SET}}", "set"),
            ("${NONE:-a:b-c?d}", "a:b-c?d"),
            ("$$SET $${SET} $$$SET", "$SET ${SET} $set"),
            ("no variable", "no variable"),
        ] {
            assert_eq!(variables.fill_in(text).map(|filled| filled.text).as_deref(), Ok(filled), "{text}");
        }
        let unset = variables.fill_in("[$NONE][${ALSO}]").unwrap();
        assert_eq!((unset.text.as_str(), unset.unset), ("[][]", vec!["NONE".to_owned(), "ALSO".to_owned()]));
    }

    #[test]
    fn malformed_and_missing_variables_are_errors() {
        let variables = Variables::new(&env);
        for text in ["$", "a $1", "${", "${}", "${SET", "${SET:}", "${SET:=d}", "${1}", "${SET:-${X}"] {
            assert!(matches!(variables.fill_in(text), Err(VariableError::Form(_))), "{text}");
        }
        for (text, reason) in [
            ("${NONE:?give $SET}", "the variable NONE is missing: give set; set it in the environment or in .env"),
            ("${EMPTY:?}", "the variable EMPTY is missing: the file requires it; set it in the environment or in .env"),
        ] {
            assert_eq!(variables.fill_in(text).unwrap_err().to_string(), reason);
        }
        let deep = "${X:-".repeat(20) + &"}".repeat(20);
        assert_eq!(variables.fill_in(&deep), Err(VariableError::Depth));
        assert_eq!(variables.fill_in(&"$SET".repeat(MAX_BYTES / 3 + 1)), Err(VariableError::Length));
    }

    #[test]
    fn the_variables_of_an_env_file_are_bounded() {
        let added = |count: usize| {
            let file: String = (0..count).map(|number| format!("V{number}=1\n")).collect();
            Variables::new(&env).add_file(&file)
        };
        assert!(added(MAX_VARIABLES).is_ok());
        assert!(matches!(added(MAX_VARIABLES + 1), Err((_, EnvFileError::Count))));
    }

    #[test]
    fn env_files_have_names_quotes_and_comments() {
        let mut variables = Variables::new(&env);
        let text = "# comment\n\nA=1\nexport B = two words # not this\nC='$SET \\n'\nD=\"$SET ${A}\\n\\$A\"\n\
                    E=\"two\nlines\" # behind\nF:colon\nSET=hidden\nEMPTY_ONE=\nBARE\nG=a#b\nH=#\n";
        variables.add_file(text).unwrap();
        for (name, value) in [
            ("A", "1"),
            ("B", "two words"),
            ("C", "$SET \\n"),
            ("D", "set 1\n$A"),
            ("E", "two\nlines"),
            ("F", "colon"),
            ("SET", "set"),
            ("EMPTY_ONE", ""),
            ("G", "a#b"),
            ("H", ""),
        ] {
            assert_eq!(variables.get(name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(variables.get("BARE"), None);
        variables.add_file("A=2\nNEW=$A\n").unwrap();
        assert_eq!((variables.get("A").as_deref(), variables.get("NEW").as_deref()), (Some("1"), Some("1")));
    }

    #[test]
    fn faults_of_env_files_have_their_lines() {
        for (text, line, fault) in [
            ("A=1\nnot a name\n", 2, "\"not a name\" is not the name of a variable; write NAME=VALUE"),
            ("A=\"x\ny\"\nB='open\n", 3, "the quote of B is not closed"),
            ("A=${", 1, "\"${\" is not a variable; write $NAME or ${NAME}, and $$ for a dollar sign"),
        ] {
            let (found, error) = Variables::new(&env).add_file(text).unwrap_err();
            assert_eq!((found, error.to_string().as_str()), (line, fault));
        }
        let laughs: String = (1..30).map(|n| format!("A{n}=$A{0}$A{0}\n", n - 1)).collect();
        let (_, error) = Variables::new(&env).add_file(&format!("A0=lol\n{laughs}")).unwrap_err();
        assert_eq!(error, EnvFileError::Variable(VariableError::Length));
    }
}
