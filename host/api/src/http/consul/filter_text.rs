//! Parses filters in Consul's language.
//!
//! # Limits
//! A filter has at most [`MAX_DEPTH`] levels of parentheses and `not`; the bytes of all parameters bound its length.

use super::filter::{Condition, Node, Operator};

/// Most levels of parentheses and `not`.
const MAX_DEPTH: usize = 32;

/// A fault of a filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FilterError {
    /// The text does not follow the grammar.
    #[error("filter: unexpected {found} where {expected} has to be; write FIELD == \"VALUE\", for example")]
    Unexpected { found: String, expected: &'static str },
    /// A text without its end.
    #[error("filter: a text has no end; close it with {0}")]
    OpenText(char),
    /// The filter is too deep.
    #[error("filter: more than {} levels of parentheses; write it flatter", MAX_DEPTH)]
    TooDeep,
    /// A part of Consul's language that this server does not have.
    #[error("filter: {0:?} is not supported here; use ==, !=, in, contains, is empty, and, or, not")]
    Unsupported(String),
    /// A field that the entries do not have.
    #[error("filter: selector {0:?} is not valid: the entries of this path do not have the field")]
    UnknownField(String),
    /// An operator that the field cannot have.
    #[error("filter: {operator} does not fit the field {field:?}; use contains or in for lists, and == for values")]
    Mismatch { field: String, operator: &'static str },
}

/// A word of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    /// A name, a number or a keyword.
    Bare(String),
    /// A text in quotes.
    Quoted(String),
    /// An operator or a parenthesis.
    Sign(&'static str),
}

const SIGNS: [&str; 7] = ["==", "!=", "(", ")", ".", "[", "]"];

impl Word {
    fn describe(word: Option<&Self>) -> String {
        match word {
            None => "the end".to_owned(),
            Some(Self::Bare(text)) => format!("{text:?}"),
            Some(Self::Quoted(text)) => format!("the text {text:?}"),
            Some(Self::Sign(sign)) => format!("{sign:?}"),
        }
    }
}

/// Parses a filter.
pub(super) fn parse(text: &str) -> Result<Node, FilterError> {
    let mut parser = Parser { words: words(text)?, next: 0, depth: 0 };
    let node = parser.any_of()?;
    match parser.peek() {
        None => Ok(node),
        found => Err(FilterError::Unexpected { found: Word::describe(found), expected: "and, or, or the end" }),
    }
}

fn words(text: &str) -> Result<Vec<Word>, FilterError> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            words.push(Word::Sign(sign));
            rest = rest.strip_prefix(sign).unwrap_or_default();
        } else if first == '"' || first == '`' {
            let (quoted, behind) = quoted(rest, first)?;
            words.push(Word::Quoted(quoted));
            rest = behind;
        } else {
            let ends = |c: char| c.is_whitespace() || "()[]=!\"`".contains(c) || (c == '.' && !first.is_ascii_digit());
            let end = rest.find(ends).unwrap_or(rest.len());
            let (bare, behind) = rest.split_at_checked(end).unwrap_or_default();
            if bare.is_empty() {
                return Err(FilterError::Unexpected { found: format!("{first:?}"), expected: "a field or a value" });
            }
            words.push(Word::Bare(bare.to_owned()));
            rest = behind;
        }
        rest = rest.trim_start();
    }
    Ok(words)
}

/// Reads a text up to its quote; in double quotes a backslash takes the next character as it is.
fn quoted(text: &str, quote: char) -> Result<(String, &str), FilterError> {
    let mut found = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((place, c)) = characters.next() {
        if c == quote {
            return Ok((found, text.get(place + c.len_utf8()..).unwrap_or_default()));
        }
        match c {
            '\\' if quote == '"' => found.extend(characters.next().map(|(_, escaped)| escaped)),
            c => found.push(c),
        }
    }
    Err(FilterError::OpenText(quote))
}

struct Parser {
    words: Vec<Word>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Word> {
        self.words.get(self.next)
    }

    fn take(&mut self) -> Option<Word> {
        let word = self.peek().cloned();
        self.next += 1;
        word
    }

    /// Tells whether the next word is a keyword, which is then taken.
    fn takes(&mut self, keyword: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Word::Bare(word)) if word.eq_ignore_ascii_case(keyword));
        self.next += usize::from(is_next);
        is_next
    }

    fn takes_sign(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Word::Sign(next)) if *next == sign);
        self.next += usize::from(is_next);
        is_next
    }

    fn unexpected<T>(&self, expected: &'static str) -> Result<T, FilterError> {
        Err(FilterError::Unexpected { found: Word::describe(self.peek()), expected })
    }

    fn any_of(&mut self) -> Result<Node, FilterError> {
        let mut nodes = vec![self.all_of()?];
        while self.takes("or") {
            nodes.push(self.all_of()?);
        }
        Ok(Node::Any(nodes))
    }

    fn all_of(&mut self) -> Result<Node, FilterError> {
        let mut nodes = vec![self.term()?];
        while self.takes("and") {
            nodes.push(self.term()?);
        }
        Ok(Node::All(nodes))
    }

    fn term(&mut self) -> Result<Node, FilterError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(FilterError::TooDeep);
        }
        let node = if self.takes("not") {
            Node::Not(Box::new(self.term()?))
        } else if self.takes_sign("(") {
            let inner = self.any_of()?;
            if !self.takes_sign(")") {
                return self.unexpected("\")\"");
            }
            inner
        } else {
            self.condition()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn condition(&mut self) -> Result<Node, FilterError> {
        // A value in front of `in`, or a field.
        let begin = self.next;
        let first = self.value("a field or a value")?;
        let is_negated = self.takes("not");
        if self.takes("in") {
            let condition = Condition { path: self.path()?, operator: Operator::Contains(first) };
            return Ok(negated(is_negated, condition));
        }
        self.next = begin;
        for keyword in ["any", "all"] {
            if self.takes(keyword) && matches!(self.peek(), Some(Word::Bare(_))) {
                return Err(FilterError::Unsupported(keyword.to_owned()));
            }
            self.next = begin;
        }
        let path = self.path()?;
        if self.takes_sign("==") {
            return Ok(Node::Is(Condition { path, operator: Operator::Equals(self.value("a value")?) }));
        }
        if self.takes_sign("!=") {
            return Ok(negated(true, Condition { path, operator: Operator::Equals(self.value("a value")?) }));
        }
        if self.takes("is") {
            let is_negated = self.takes("not");
            if !self.takes("empty") {
                return self.unexpected("empty");
            }
            return Ok(negated(is_negated, Condition { path, operator: Operator::IsEmpty }));
        }
        let is_negated = self.takes("not");
        if self.takes("contains") {
            let operator = Operator::Contains(self.value("a value")?);
            return Ok(negated(is_negated, Condition { path, operator }));
        }
        if self.takes("matches") {
            return Err(FilterError::Unsupported("matches".to_owned()));
        }
        self.unexpected("an operator")
    }

    fn value(&mut self, expected: &'static str) -> Result<String, FilterError> {
        match self.peek() {
            Some(Word::Bare(_) | Word::Quoted(_)) => match self.take() {
                Some(Word::Bare(text) | Word::Quoted(text)) => Ok(text),
                _ => self.unexpected(expected),
            },
            _ => self.unexpected(expected),
        }
    }

    fn path(&mut self) -> Result<Vec<String>, FilterError> {
        let Some(Word::Bare(first)) = self.peek().cloned() else { return self.unexpected("a field") };
        self.next += 1;
        let mut path = vec![first];
        loop {
            if self.takes_sign(".") {
                let Some(Word::Bare(name)) = self.peek().cloned() else { return self.unexpected("a field") };
                self.next += 1;
                path.push(name);
            } else if self.takes_sign("[") {
                path.push(self.value("a key")?);
                if !self.takes_sign("]") {
                    return self.unexpected("\"]\"");
                }
            } else {
                return Ok(path);
            }
        }
    }
}

fn negated(is_negated: bool, condition: Condition) -> Node {
    match is_negated {
        true => Node::Not(Box::new(Node::Is(condition))),
        false => Node::Is(condition),
    }
}
