//! Reads rules as HCL: `area "name" { policy = "level" }` and `area = "level"`, with comments. Nothing else.
//!
//! The grammar does not nest, and is read in one pass, since rules come from strangers:
//! docs/decisions/0026-rules-of-policies-are-parsed-here.md.

use crate::policy_error::PolicyError;

/// A rule as written: `key_prefix`, its label, its level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawRule {
    pub(crate) keyword: String,
    /// The quoted name; `None` for an attribute.
    pub(crate) label: Option<String>,
    pub(crate) level: String,
    /// Line number from 1; 0 if unknown.
    pub(crate) line: usize,
}

/// Whether a text looks like HCL rather than YAML or JSON: a word, followed by a label, a block or `=`.
pub(crate) fn looks_like_hcl(text: &str) -> bool {
    let mut reader = Reader { rest: text, line: 1 };
    reader.skip_blank();
    if reader.word().is_none() {
        return false;
    }
    reader.skip_blank();
    reader.rest.starts_with(['"', '{', '='])
}

/// Reads all rules of a text; at most `most`.
pub(crate) fn read(text: &str, most: usize) -> Result<Vec<RawRule>, PolicyError> {
    let mut reader = Reader { rest: text, line: 1 };
    let mut rules = Vec::new();
    loop {
        reader.skip_blank();
        if reader.rest.is_empty() {
            return Ok(rules);
        }
        if rules.len() == most {
            return Err(PolicyError::TooManyRules { most });
        }
        rules.push(reader.rule()?);
    }
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Reader<'a> {
    fn syntax_error(&self, expected: &'static str) -> PolicyError {
        let found = match self.rest.chars().next() {
            None => "the end".to_owned(),
            Some(letter) => format!("{letter:?}"),
        };
        PolicyError::Syntax { line: self.line, expected, found }
    }

    fn advance(&mut self, bytes: usize) -> &'a str {
        let (passed, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
        self.rest = rest;
        passed
    }

    /// Skips white space and comments. A comment without an end reaches to the end of the text.
    fn skip_blank(&mut self) {
        loop {
            let space = self.rest.len() - self.rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{feff}']).len();
            self.advance(space);
            let comment = if self.rest.starts_with('#') || self.rest.starts_with("//") {
                self.rest.find('\n').unwrap_or(self.rest.len())
            } else if self.rest.starts_with("/*") {
                self.rest.find("*/").map_or(self.rest.len(), |end| end + 2)
            } else {
                return;
            };
            self.advance(comment);
        }
    }

    fn word(&mut self) -> Option<&'a str> {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        let length = self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len());
        (length > 0).then(|| self.advance(length))
    }

    fn expect(&mut self, sign: char, expected: &'static str) -> Result<(), PolicyError> {
        self.skip_blank();
        if !self.rest.starts_with(sign) {
            return Err(self.syntax_error(expected));
        }
        self.advance(sign.len_utf8());
        Ok(())
    }

    /// Reads a string in quotes, with the escapes of JSON except `\u`.
    fn text(&mut self, expected: &'static str) -> Result<String, PolicyError> {
        self.expect('"', expected)?;
        let mut text = String::new();
        loop {
            let length = self.rest.find(['"', '\\', '\n', '$', '%']).unwrap_or(self.rest.len());
            text.push_str(self.advance(length));
            let mut next = self.rest.chars();
            match (next.next(), next.next()) {
                (Some('"'), _) => {
                    self.advance(1);
                    return Ok(text);
                }
                (Some('\\'), Some(escaped)) => {
                    text.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        '"' | '\\' => escaped,
                        _ => return Err(self.syntax_error("one of the escapes \\n, \\t, \\r, \\\" and \\\\")),
                    });
                    self.advance(2);
                }
                (Some('$' | '%'), Some('{')) => return Err(self.syntax_error("a string without a template")),
                (Some(sign @ ('$' | '%')), _) => {
                    text.push(sign);
                    self.advance(1);
                }
                _ => return Err(self.syntax_error("the end of the string, `\"`, on its line")),
            }
        }
    }

    fn rule(&mut self) -> Result<RawRule, PolicyError> {
        let line = self.line;
        let keyword =
            self.word().ok_or_else(|| self.syntax_error("a rule: AREA = \"LEVEL\" or AREA \"NAME\" { … }"))?.to_owned();
        self.skip_blank();
        if self.rest.starts_with('=') {
            self.advance(1);
            let level = self.text("a level in quotes")?;
            return Ok(RawRule { keyword, label: None, level, line });
        }
        let label = self.text("`=`, or a name in quotes")?;
        self.expect('{', "`{`")?;
        self.skip_blank();
        if self.word() != Some("policy") {
            return Err(self.syntax_error("`policy = \"LEVEL\"`, and nothing else, in the block"));
        }
        self.expect('=', "`=`")?;
        let level = self.text("a level in quotes")?;
        self.expect('}', "`}`: a block has `policy` and nothing else")?;
        Ok(RawRule { keyword, label: Some(label), level, line })
    }
}
