//! The words of a filter.

use winnow::{
    LocatingSlice, ModalParser, Parser as _,
    ascii::{digit1, multispace1},
    combinator::{alt, dispatch, empty, fail, opt, peek, preceded},
    error::ErrMode,
    stream::Location as _,
    token::{any, one_of, take_till, take_while},
};

use super::{fault::Fault, syntax::Comparison};
use crate::number::is_number;

/// A word of a filter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token<'t> {
    /// A path; keywords are paths, too.
    Path(&'t str),
    /// A number that JSON has.
    Number(&'t str),
    /// A text, its escapes undone.
    Text(String),
    Comparison(Comparison),
    /// `!=`, the negation of `=`.
    NotEqual,
    /// A mark: `()[]{},:+|`.
    Mark(char),
}

/// A word and where it begins, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lexed<'t> {
    pub(crate) token: Token<'t>,
    pub(crate) offset: usize,
}

type Input<'t> = LocatingSlice<&'t str>;
type Lexing<O> = Result<O, ErrMode<Fault>>;

impl Token<'_> {
    /// Describes the word in error messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Path(text) | Self::Number(text) => crate::error::shown(text),
            Self::Text(text) => format!("{:?}", crate::error::shown(text)),
            Self::Comparison(comparison) => comparison.symbol().to_owned(),
            Self::NotEqual => "!=".to_owned(),
            Self::Mark(mark) => mark.to_string(),
        }
    }

    /// Whether it is a keyword, in any case.
    pub(crate) fn is_keyword(&self, keyword: &str) -> bool {
        matches!(self, Self::Path(text) if text.eq_ignore_ascii_case(keyword))
    }
}

/// Splits a filter into words; blanks and comments are dropped.
pub(crate) fn lex(text: &str) -> Result<Vec<Lexed<'_>>, Fault> {
    let mut input = LocatingSlice::new(text);
    let mut words = Vec::new();
    loop {
        while opt(blank).parse_next(&mut input).map_err(inner)?.is_some() {}
        if input.is_empty() {
            return Ok(words);
        }
        let offset = input.current_token_start();
        words.push(Lexed { token: token(&mut input).map_err(inner)?, offset });
    }
}

fn inner(error: ErrMode<Fault>) -> Fault {
    error.into_inner().unwrap_or_else(|_| Fault { offset: None, text: "the filter ends too early".to_owned() })
}

fn blank<'t>(input: &mut Input<'t>) -> Lexing<()> {
    alt((multispace1.void(), ("--", take_till(0.., '\n')).void())).parse_next(input)
}

fn token<'t>(input: &mut Input<'t>) -> Lexing<Token<'t>> {
    let offset = input.current_token_start();
    let word = dispatch! { peek(any);
        'a'..='z' | 'A'..='Z' | '_' => path.map(Token::Path),
        '0'..='9' | '.' | '-' => number.map(Token::Number),
        '+' => alt((number.map(Token::Number), '+'.map(Token::Mark))),
        '"' => text.map(Token::Text),
        '=' | '<' | '>' => comparison.map(Token::Comparison),
        '!' => "!=".value(Token::NotEqual),
        '(' | ')' | '[' | ']' | '{' | '}' | ',' | ':' | '|' => any.map(Token::Mark),
        _ => fail,
    }
    .parse_next(input);
    match word {
        Err(ErrMode::Backtrack(_)) => {
            let letter = input.chars().next().unwrap_or_default();
            let remedy = match letter {
                '\'' => "; write strings in double quotes",
                '&' => "; write AND",
                _ => "",
            };
            Err(Fault::cut(offset, format!("{letter:?} has no meaning here{remedy}")))
        }
        word => word,
    }
}

fn path<'t>(input: &mut Input<'t>) -> Lexing<&'t str> {
    let letter = || one_of(('a'..='z', 'A'..='Z', '_'));
    let more = || take_while(0.., ('a'..='z', 'A'..='Z', '0'..='9', '_', '-', '/'));
    let first = (letter(), more());
    // The part of a key after an escaped dot may begin with a digit.
    let next = |input: &mut Input<'t>| -> Lexing<()> {
        alt((
            ("\\.", take_while(1.., ('a'..='z', 'A'..='Z', '0'..='9', '_', '-', '/'))).void(),
            (".", letter(), more()).void(),
            quoted_key,
        ))
        .parse_next(input)
    };
    let start = input.current_token_start();
    let word = peek((letter(), more()).take()).parse_next(input)?;
    let begins_list = ["IN", "ANY", "ALL"].iter().any(|keyword| word.eq_ignore_ascii_case(keyword));
    if begins_list && input.get(word.len()..).is_some_and(|rest| rest.starts_with('[')) {
        return first.take().parse_next(input);
    }
    let found = (first, winnow::combinator::repeat::<_, _, (), _, _>(0.., next), opt('.')).take().parse_next(input)?;
    // A path with an empty segment at its end is refused where it is resolved.
    match input.chars().next() {
        Some(letter) if letter.is_alphanumeric() || (letter == '-' && found.ends_with('.')) => {
            let at = start + found.len();
            Err(Fault::cut(
                at,
                format!("{letter:?} cannot stand in a key without quotes; write the key as .\"{letter}...\""),
            ))
        }
        _ => Ok(found),
    }
}

/// A key in quotes behind a dot, or in quotes and brackets. A bracket behind `IN`, `ANY` or `ALL` begins a list.
fn quoted_key<'t>(input: &mut Input<'t>) -> Lexing<()> {
    let letters = || {
        let escaped = ('\\', any).void();
        winnow::combinator::repeat::<_, _, (), _, _>(0.., alt((escaped, take_till(1.., ['"', '\\']).void())))
    };
    alt(((".\"", letters(), '"').void(), ("[\"", letters(), "\"]").void())).parse_next(input)
}

fn number<'t>(input: &mut Input<'t>) -> Lexing<&'t str> {
    let offset = input.current_token_start();
    let exponent = (one_of(['e', 'E']), opt(one_of(['+', '-'])), digit1);
    let number =
        (opt(one_of(['+', '-'])), take_while(1.., ('0'..='9', '.')), opt(exponent)).take().parse_next(input)?;
    match is_number(number) {
        true => Ok(number),
        false => Err(Fault::cut(
            offset,
            format!("{} is not a number; write it as in JSON, such as -1, 0.5 or 1e6", crate::error::shown(number)),
        )),
    }
}

fn comparison<'t>(input: &mut Input<'t>) -> Lexing<Comparison> {
    alt((
        "==".value(Comparison::Equal),
        "=".value(Comparison::Equal),
        "<=".value(Comparison::LessOrEqual),
        "<".value(Comparison::Less),
        ">=".value(Comparison::GreaterOrEqual),
        ">".value(Comparison::Greater),
    ))
    .parse_next(input)
}

/// A text in double quotes. Escapes are Go's; bytes that they make have to be UTF-8.
fn text<'t>(input: &mut Input<'t>) -> Lexing<String> {
    let start = input.current_token_start();
    '"'.parse_next(input)?;
    let mut bytes = Vec::new();
    loop {
        let plain: &str = take_till(0.., ['"', '\\', '\n']).parse_next(input)?;
        bytes.extend_from_slice(plain.as_bytes());
        let offset = input.current_token_start();
        match opt(any).parse_next(input)? {
            Some('"') => break,
            Some('\\') => escape(offset, &mut bytes).parse_next(input)?,
            _ => {
                return Err(Fault::cut(
                    start,
                    "the string is not closed; end it with a double quote, and write \\n for a new line",
                ));
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| Fault::cut(start, "the bytes of the string's escapes are not UTF-8"))
}

/// Parses the rest of an escape, after its backslash at a place.
fn escape<'t>(offset: usize, bytes: &mut Vec<u8>) -> impl ModalParser<Input<'t>, (), Fault> {
    let unknown = move || {
        Fault::cut(
            offset,
            "unknown escape; use \\\" \\\\ \\a \\b \\f \\n \\r \\t \\v \\xNN \\uNNNN \\UNNNNNNNN or \\NNN",
        )
    };
    move |input: &mut Input<'t>| {
        let simple = dispatch! { any;
            '"' => empty.value(b'"'),
            '\\' => empty.value(b'\\'),
            'a' => empty.value(7),
            'b' => empty.value(8),
            'f' => empty.value(12),
            'n' => empty.value(b'\n'),
            'r' => empty.value(b'\r'),
            't' => empty.value(b'\t'),
            'v' => empty.value(11),
            'x' => digits(2, 16).verify_map(|code| u8::try_from(code).ok()),
            _ => fail,
        };
        let octal = digits(3, 8).verify_map(|code| u8::try_from(code).ok());
        let letter = alt((preceded('u', digits(4, 16)), preceded('U', digits(8, 16)))).verify_map(char::from_u32);
        let mut buffer = [0; 4];
        let found = alt((
            simple.map(|byte| vec![byte]),
            octal.map(|byte| vec![byte]),
            letter.map(|letter| letter.encode_utf8(&mut buffer).as_bytes().to_vec()),
        ))
        .parse_next(input)
        .map_err(|_| unknown())?;
        bytes.extend(found);
        Ok(())
    }
}

/// Parses `count` digits of a base.
fn digits<'t>(count: usize, base: u32) -> impl ModalParser<Input<'t>, u32, Fault> {
    take_while(count, move |letter: char| letter.is_digit(base))
        .verify_map(move |digits: &str| u32::from_str_radix(digits, base).ok())
}
