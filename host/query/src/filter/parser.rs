//! The grammar of filters, over words. The parser decides between two readings by looking ahead over at most a run of
//! NOTs, so parsing takes time in proportion to the number of words; [`limits`] bounds depth and counts.

use winnow::{
    Parser as _,
    combinator::{opt, separated},
    error::ErrMode,
    stream::{Stateful, TokenSlice},
    token::any,
};

use super::{
    fault::Fault,
    lexer::{Lexed, Token},
    syntax::{Comparison, Condition, Expression, Term, TermValue, Test},
};
use crate::limits;

/// Progress in a filter.
#[derive(Debug, Clone, Copy)]
struct Progress {
    /// Parentheses and braces that are open.
    depth: usize,
    conditions: usize,
    /// End of the filter, in bytes.
    end: usize,
}

type Input<'s, 't> = Stateful<TokenSlice<'s, Lexed<'t>>, Progress>;
type Parsing<O> = Result<O, ErrMode<Fault>>;

/// Parses the words of a filter whose text ends at a byte.
pub(crate) fn parse<'t>(words: &[Lexed<'t>], end: usize) -> Result<Expression<'t>, Fault> {
    let progress = Progress { depth: 0, conditions: 0, end };
    let mut input = Stateful { input: TokenSlice::new(words), state: progress };
    filter(&mut input)
        .map_err(|error| error.into_inner().unwrap_or_else(|_| Fault::new(end, "the filter ends too early")))
}

fn filter<'t>(input: &mut Input<'_, 't>) -> Parsing<Expression<'t>> {
    let whole = or(input)?;
    match input.input.first() {
        None => Ok(whole),
        Some(Lexed { token: Token::Mark(')'), offset }) => {
            Err(Fault::cut(*offset, "this ) has no opening (; remove it"))
        }
        Some(_) => Err(no_condition(input)),
    }
}

fn or<'t>(input: &mut Input<'_, 't>) -> Parsing<Expression<'t>> {
    let mut parts = vec![and(input)?];
    while opt(take(|token| *token == Token::Mark('|') || token.is_keyword("OR"))).parse_next(input)?.is_some() {
        parts.push(and(input)?);
    }
    Ok(single_or(parts, Expression::Any))
}

fn and<'t>(input: &mut Input<'_, 't>) -> Parsing<Expression<'t>> {
    let mut parts = vec![unary(input)?];
    loop {
        let is_operator = match input.input.first().map(|word| &word.token) {
            Some(Token::Mark('+')) => true,
            // AND may also name a field, where no condition follows it.
            Some(word) if word.is_keyword("AND") => starts_condition(input, 1) || !starts_condition(input, 0),
            _ => false,
        };
        if is_operator {
            any.parse_next(input)?;
        } else if !starts_condition(input, 0) {
            return Ok(single_or(parts, Expression::All));
        }
        parts.push(unary(input)?);
    }
}

fn single_or<'t>(mut parts: Vec<Expression<'t>>, many: fn(Vec<Expression<'t>>) -> Expression<'t>) -> Expression<'t> {
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            parts.extend(last);
            many(parts)
        }
    }
}

fn unary<'t>(input: &mut Input<'_, 't>) -> Parsing<Expression<'t>> {
    let run = input.input.iter().take_while(|word| word.token.is_keyword("NOT")).count();
    // The last NOT names a field if a test follows it, but no condition.
    let is_field = run > 0 && !starts_plain(input, run) && starts_plain(input, run - 1);
    let negations = if is_field { run - 1 } else { run };
    for _ in 0..negations {
        any.parse_next(input)?;
    }
    let negated = if opt(take(|token| *token == Token::Mark('('))).parse_next(input)?.is_some() {
        let inner = parse_nested(input, or)?;
        expect_closing(input, ')', "AND, OR or ")?;
        inner
    } else {
        Expression::Condition(condition(input)?)
    };
    Ok(if negations % 2 == 1 { Expression::Not(Box::new(negated)) } else { negated })
}

fn condition<'t>(input: &mut Input<'_, 't>) -> Parsing<Condition<'t>> {
    if !starts_plain(input, 0) {
        return Err(no_condition(input));
    }
    let Lexed { token: Token::Path(path), offset } = any.parse_next(input)? else {
        return Err(no_condition(input));
    };
    input.state.conditions += 1;
    if input.state.conditions > limits::CONDITIONS {
        return Err(Fault::cut(
            *offset,
            format!("the filter has more than {} conditions; write fewer, for example with IN", limits::CONDITIONS),
        ));
    }
    Ok(Condition { path, offset: *offset, test: test(input)? })
}

fn test<'t>(input: &mut Input<'_, 't>) -> Parsing<Test<'t>> {
    let word: &Lexed<'_> = any.parse_next(input)?;
    match &word.token {
        Token::Comparison(comparison) => Ok(Test::Compare(*comparison, value(input)?)),
        Token::NotEqual => Ok(Test::Not(Box::new(Test::Compare(Comparison::Equal, value(input)?)))),
        token if token.is_keyword("IS") => {
            let negated = opt(keyword("NOT")).parse_next(input)?.is_some();
            let test = if opt(keyword("NULL")).parse_next(input)?.is_some() {
                Test::IsNull
            } else if opt(keyword("NAN")).parse_next(input)?.is_some() {
                Test::IsNan
            } else {
                return Err(expected(input, "NULL or NAN"));
            };
            Ok(if negated { Test::Not(Box::new(test)) } else { test })
        }
        token if token.is_keyword("IN") => Ok(Test::In(list(input)?)),
        token if token.is_keyword("NOT") => {
            any.parse_next(input)?;
            Ok(Test::Not(Box::new(Test::In(list(input)?))))
        }
        token if token.is_keyword("LIKE") => Ok(Test::Like(value(input)?)),
        token if token.is_keyword("STARTS_WITH") => Ok(Test::StartsWith(value(input)?)),
        _ => {
            if opt(keyword("ANY")).parse_next(input)?.is_some() {
                return Ok(Test::Contains { all: false, values: list(input)? });
            }
            if opt(keyword("ALL")).parse_next(input)?.is_some() {
                return Ok(Test::Contains { all: true, values: list(input)? });
            }
            if opt(take(|token| *token == Token::Mark('('))).parse_next(input)?.is_some() {
                let inner = parse_nested(input, or)?;
                expect_closing(input, ')', "AND, OR or ")?;
                return Ok(Test::ContainsWhere(Box::new(inner)));
            }
            opt(keyword("VALUE")).parse_next(input)?;
            Ok(Test::Contains { all: false, values: vec![value(input)?] })
        }
    }
}

fn list<'t>(input: &mut Input<'_, 't>) -> Parsing<Vec<Term<'t>>> {
    let Some(open) = opt(take(|token| matches!(token, Token::Mark('(' | '[')))).parse_next(input)? else {
        return Err(expected(input, "a list such as (1, 2) or [1, 2]"));
    };
    let close = if open.token == Token::Mark('(') { ')' } else { ']' };
    let values: Vec<Term<'t>> =
        separated(1..=limits::LIST_VALUES, value, take(|token| *token == Token::Mark(','))).parse_next(input)?;
    if values.len() == limits::LIST_VALUES && input.input.first().is_some_and(|word| word.token == Token::Mark(',')) {
        return Err(Fault::cut(
            open.offset,
            format!("the list has more than {} values; split it", limits::LIST_VALUES),
        ));
    }
    expect_closing(input, close, "a comma or ")?;
    Ok(values)
}

fn value<'t>(input: &mut Input<'_, 't>) -> Parsing<Term<'t>> {
    const WANTED: &str = "a value: a string in double quotes, a number, TRUE, FALSE, NULL or {...}";
    let Some(word) = input.input.first() else { return Err(expected(input, WANTED)) };
    let value = match &word.token {
        Token::Number(text) => TermValue::Number(text),
        Token::Text(text) => TermValue::Text(text.clone()),
        token if token.is_keyword("NULL") => TermValue::Null,
        token if token.is_keyword("TRUE") => TermValue::Bool(true),
        token if token.is_keyword("FALSE") => TermValue::Bool(false),
        Token::Mark('{') => TermValue::Map(Vec::new()),
        _ => return Err(expected(input, WANTED)),
    };
    let offset = word.offset;
    any.parse_next(input)?;
    let value = if let TermValue::Map(_) = value { TermValue::Map(parse_nested(input, entries)?) } else { value };
    Ok(Term { offset, value })
}

/// The entries of a value in braces, and the brace that closes it.
fn entries<'t>(input: &mut Input<'_, 't>) -> Parsing<Vec<(Term<'t>, Term<'t>)>> {
    let mut entries = Vec::new();
    let mut wants_entry = false;
    while wants_entry || opt(take(|token| *token == Token::Mark('}'))).parse_next(input)?.is_none() {
        if entries.len() >= limits::LIST_VALUES {
            let offset = input.input.first().map_or(input.state.end, |word| word.offset);
            return Err(Fault::cut(offset, format!("the value has more than {} entries", limits::LIST_VALUES)));
        }
        let key = value(input)?;
        opt(take(|token| *token == Token::Mark(':'))).parse_next(input)?;
        entries.push((key, value(input)?));
        wants_entry = opt(take(|token| *token == Token::Mark(','))).parse_next(input)?.is_some();
    }
    Ok(entries)
}

/// Parses what is within one more pair of parentheses or braces.
fn parse_nested<'s, 't, O>(input: &mut Input<'s, 't>, parser: fn(&mut Input<'s, 't>) -> Parsing<O>) -> Parsing<O> {
    if input.state.depth >= limits::NESTING {
        let offset = input.input.first().map_or(input.state.end, |word| word.offset);
        return Err(Fault::cut(
            offset,
            format!("parentheses or braces are nested more than {} deep; write fewer", limits::NESTING),
        ));
    }
    input.state.depth += 1;
    let inner = parser(input)?;
    input.state.depth -= 1;
    Ok(inner)
}

fn expect_closing(input: &mut Input<'_, '_>, mark: char, or: &str) -> Parsing<()> {
    match opt(take(move |token| *token == Token::Mark(mark))).parse_next(input)? {
        Some(_) => Ok(()),
        None => Err(expected(input, &format!("{or}{mark}"))),
    }
}

/// Takes a word of the sought kind.
fn take<'s, 't: 's>(
    is_sought: impl Fn(&Token<'t>) -> bool,
) -> impl winnow::Parser<Input<'s, 't>, &'s Lexed<'t>, ErrMode<Fault>> {
    any.verify(move |word: &&Lexed<'t>| is_sought(&word.token))
}

fn keyword<'s, 't: 's>(keyword: &'static str) -> impl winnow::Parser<Input<'s, 't>, &'s Lexed<'t>, ErrMode<Fault>> {
    take(move |token| token.is_keyword(keyword))
}

/// Whether a condition begins `ahead` words from here, with or without NOTs.
fn starts_condition(input: &Input<'_, '_>, ahead: usize) -> bool {
    let words = input.input.iter().skip(ahead);
    let run = words.take_while(|word| word.token.is_keyword("NOT")).count();
    starts_plain(input, ahead + run) || (run > 0 && starts_plain(input, ahead + run - 1))
}

/// Whether a parenthesis, or a path with a test, begins `ahead` words from here.
fn starts_plain(input: &Input<'_, '_>, ahead: usize) -> bool {
    match input.input.get(ahead).map(|word| &word.token) {
        Some(Token::Mark('(')) => true,
        Some(Token::Path(_)) => starts_test(input, ahead + 1),
        _ => false,
    }
}

/// Whether a test begins `ahead` words from here. Keywords may also name fields, so one word is not enough.
fn starts_test(input: &Input<'_, '_>, ahead: usize) -> bool {
    let word = |further: usize| input.input.get(ahead + further).map(|word| &word.token);
    let is = |further: usize, keywords: &[&str]| {
        word(further).is_some_and(|word| keywords.iter().any(|keyword| word.is_keyword(keyword)))
    };
    let is_list = |further: usize| matches!(word(further), Some(Token::Mark('(' | '[')));
    match word(0) {
        Some(Token::Comparison(_) | Token::NotEqual) => true,
        Some(_) if is(0, &["IS"]) => is(1, &["NULL", "NAN"]) || (is(1, &["NOT"]) && is(2, &["NULL", "NAN"])),
        Some(_) if is(0, &["IN"]) => is_list(1),
        Some(_) if is(0, &["NOT"]) => is(1, &["IN"]) && is_list(2),
        Some(_) if is(0, &["LIKE", "STARTS_WITH"]) => matches!(word(1), Some(Token::Text(_))),
        Some(_) if is(0, &["CONTAINS", "HAS"]) => match word(1) {
            Some(Token::Text(_) | Token::Number(_) | Token::Mark('{' | '(')) => true,
            Some(_) => is(1, &["NULL", "TRUE", "FALSE", "VALUE"]) || (is(1, &["ANY", "ALL"]) && is_list(2)),
            None => false,
        },
        _ => false,
    }
}

fn expected(input: &Input<'_, '_>, wanted: &str) -> ErrMode<Fault> {
    match input.input.first() {
        None => Fault::cut(input.state.end, format!("expected {wanted}, found the end of the filter")),
        Some(word) => Fault::cut(word.offset, format!("expected {wanted}, found {}", word.token.describe())),
    }
}

/// The fault of a place without the expected condition.
fn no_condition(input: &Input<'_, '_>) -> ErrMode<Fault> {
    match (input.input.first(), input.input.get(1)) {
        (Some(Lexed { token: Token::Path(path), offset }), next) => {
            let path = crate::error::shown(path);
            let next = next.map_or("the end of the filter".to_owned(), |next| next.token.describe());
            Fault::cut(
                *offset,
                format!(
                    "{path} is followed by {next} instead of a test; write = != < <= > >= and a value, IS [NOT] NULL, \
                     IS [NOT] NAN, [NOT] IN and a list, LIKE or STARTS_WITH and a text, CONTAINS and a value, CONTAINS ANY \
                     or ALL and a list, or CONTAINS and conditions in parentheses"
                ),
            )
        }
        _ => expected(input, "a condition, such as path = \"value\""),
    }
}
