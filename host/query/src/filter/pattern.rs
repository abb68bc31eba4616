//! Patterns of texts: `LIKE "ab%"` and `STARTS_WITH "ab"`.
//!
//! # Cost
//! A match looks at each byte of the text a fixed number of times with any pattern: `%` is the only wildcard, so
//! each piece between two of them is taken where it is found first.

/// A pattern: texts in order, with any text between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    beginning: String,
    within: Vec<String>,
    /// The end of the text; `None` if the pattern has no wildcard, and `beginning` is the whole text.
    end: Option<String>,
}

/// The reason why a text is not a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("_ stands for no letter in a pattern here; write \\\\_ for the letter itself, or use STARTS_WITH")]
    Underscore,
    #[error("a backslash stands before %, _ or a backslash; write \\\\\\\\ for the letter itself")]
    Escape,
}

impl Pattern {
    /// Reads the pattern of LIKE. `%` stands for any text; a backslash makes the next `%`, `_` or backslash a letter.
    pub(crate) fn like(text: &str) -> Result<Self, PatternError> {
        let mut pieces = Vec::new();
        let mut piece = String::new();
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '%' => pieces.push(std::mem::take(&mut piece)),
                '_' => return Err(PatternError::Underscore),
                '\\' => match letters.next() {
                    Some(letter @ ('%' | '_' | '\\')) => piece.push(letter),
                    _ => return Err(PatternError::Escape),
                },
                letter => piece.push(letter),
            }
        }
        let mut pieces = pieces.into_iter();
        Ok(match pieces.next() {
            None => Self { beginning: piece, within: Vec::new(), end: None },
            Some(beginning) => {
                Self { beginning, within: pieces.filter(|piece| !piece.is_empty()).collect(), end: Some(piece) }
            }
        })
    }

    /// Makes the pattern of all texts with a beginning.
    pub(crate) fn beginning(beginning: String) -> Self {
        Self { beginning, within: Vec::new(), end: Some(String::new()) }
    }

    /// The text that every match begins with.
    pub(crate) fn prefix(&self) -> &str {
        &self.beginning
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        let Some(end) = &self.end else { return text == self.beginning };
        let Some(rest) = text.strip_prefix(self.beginning.as_str()) else { return false };
        let Some(mut rest) = rest.strip_suffix(end.as_str()) else { return false };
        self.within.iter().all(|piece| match rest.split_once(piece.as_str()) {
            Some((_, behind)) => {
                rest = behind;
                true
            }
            None => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, without regard to cost.
    fn by_definition(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('%', rest)) => (0..=text.len()).any(|skipped| by_definition(rest, &text[skipped..])),
            Some((letter, rest)) => text.first() == Some(letter) && by_definition(rest, &text[1..]),
        }
    }

    #[test]
    fn random_patterns_match_by_definition() {
        let mut random = fastrand::Rng::with_seed(47);
        let mut matched = 0;
        for _ in 0..20_000 {
            let mut draw = |letters: &[char], most| -> Vec<char> {
                (0..random.usize(..most)).map(|_| letters[random.usize(..letters.len())]).collect()
            };
            let (pattern, text) = (draw(&['a', 'b', 'é', '%'], 7), draw(&['a', 'b', 'é'], 8));
            let expected = by_definition(&pattern, &text);
            let (pattern, text): (String, String) = (pattern.iter().collect(), text.iter().collect());
            assert_eq!(Pattern::like(&pattern).unwrap().matches(&text), expected, "{pattern} {text}");
            matched += usize::from(expected);
        }
        assert!(matched > 1_000, "{matched}");
    }

    #[test]
    fn letters_with_a_meaning_are_escaped() {
        assert!(Pattern::like("a\\%\\_\\\\%").unwrap().matches("a%_\\b"));
        assert!(!Pattern::like("a\\%").unwrap().matches("ab"));
        assert_eq!(Pattern::like("a_"), Err(PatternError::Underscore));
        for text in ["\\", "a\\b", "%\\"] {
            assert_eq!(Pattern::like(text), Err(PatternError::Escape), "{text}");
        }
        assert!(Pattern::beginning("a%_".into()).matches("a%_b"));
        assert_eq!(Pattern::like("a%b").unwrap().prefix(), "a");
        assert_eq!(Pattern::like("ab").unwrap().prefix(), "ab");
    }
}
