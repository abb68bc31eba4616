//! Compilation of a parsed filter: resolves paths and converts values.

use prost_reflect::Kind;

use super::{
    evaluate::{Node, Test},
    fault::{Fault, character},
    literal::{literal, scalar},
    syntax::{self, Comparison, Condition, Expression, Term, TermValue},
    values::Values,
};
use crate::{
    Path, QueryError, Schema,
    name::NamePattern,
    path::Root,
    scalar::Scalar,
    value_type::{Shape, ValueType},
};

/// Errors of compiling a filter.
pub(super) enum BadFilter {
    Fault(Fault),
    Like { at: usize },
}

impl From<Fault> for BadFilter {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl BadFilter {
    pub(super) fn into_error(self, filter: &str) -> QueryError {
        match self {
            Self::Fault(fault) => fault.into_error(filter),
            Self::Like { at: offset } => QueryError::Like { at: character(filter, offset) },
        }
    }
}

/// Compiles an expression, whose depth the parser has bounded.
pub(super) fn compile(expression: &Expression<'_>, schema: &Schema) -> Result<Node, BadFilter> {
    let many = |parts: &[Expression<'_>]| parts.iter().map(|part| compile(part, schema)).collect::<Result<_, _>>();
    Ok(match expression {
        Expression::All(parts) => Node::All(many(parts)?),
        Expression::Any(parts) => Node::Any(many(parts)?),
        Expression::Not(inner) => Node::Not(Box::new(compile(inner, schema)?)),
        Expression::Condition(condition) => {
            let path =
                Path::parse(condition.path, schema).map_err(|error| Fault::new(condition.at, error.to_string()))?;
            test(condition, path, &condition.test)?
        }
    })
}

fn test(condition: &Condition<'_>, path: Path, test: &syntax::Test<'_>) -> Result<Node, BadFilter> {
    match test {
        syntax::Test::Not(inner) => Ok(Node::Not(Box::new(self::test(condition, path, inner)?))),
        syntax::Test::Like => Err(BadFilter::Like { at: condition.at }),
        syntax::Test::Compare(comparison, Term { value: TermValue::Null, at: offset }) => {
            let is_null = || self::test(condition, path, &syntax::Test::IsNull);
            match comparison {
                Comparison::Equal => is_null(),
                Comparison::NotEqual => Ok(Node::Not(Box::new(is_null()?))),
                _ => Err(Fault::new(*offset, "NULL has no order; write IS NULL or IS NOT NULL").into()),
            }
        }
        test if path.root == Root::Name => Ok(name(test)?),
        test => Ok(field(condition, path, test)?),
    }
}

/// Tests of the virtual field `name`.
fn name(test: &syntax::Test<'_>) -> Result<Node, Fault> {
    let pattern = |term: &Term<'_>| match scalar(term, &ValueType::Text)? {
        Scalar::Text(text) => NamePattern::parse(&text).map_err(|fault| Fault::new(term.at, fault.to_string())),
        _ => Err(Fault::new(term.at, "a name must be in double quotes")),
    };
    match test {
        syntax::Test::Compare(comparison, term) => {
            let equal = Node::Name(vec![pattern(term)?]);
            Ok(match comparison {
                Comparison::Equal => equal,
                Comparison::NotEqual => Node::Not(Box::new(equal)),
                _ => Node::Constant(false),
            })
        }
        syntax::Test::In(terms) => Ok(Node::Name(terms.iter().map(pattern).collect::<Result<_, _>>()?)),
        _ => Ok(Node::Constant(false)),
    }
}

/// Tests of anything else.
fn field(condition: &Condition<'_>, path: Path, test: &syntax::Test<'_>) -> Result<Node, Fault> {
    let literals = |terms: &[Term<'_>], value_type: &ValueType| -> Result<Values, Fault> {
        let literals = terms.iter().map(|term| literal(term, value_type)).collect::<Result<_, _>>()?;
        Ok(Values::new(literals))
    };
    let test = match (test, &path.shape) {
        (
            syntax::Test::Compare(comparison, _),
            Shape::One(ValueType::Message(_)) | Shape::List(_) | Shape::Map { .. },
        ) if comparison.is_ordering() => {
            let fault = format!("{path} has no order, so {} does not apply", comparison.symbol());
            return Err(Fault::new(condition.at, fault));
        }
        (syntax::Test::Compare(comparison, term), Shape::One(value_type)) => {
            Test::Compare(*comparison, literal(term, value_type)?)
        }
        (syntax::Test::In(terms), Shape::One(value_type)) => Test::In(literals(terms, value_type)?),
        // Neither = nor != ever holds for lists and maps.
        (syntax::Test::Compare(..) | syntax::Test::In(_), _) => return Ok(Node::Constant(false)),
        (syntax::Test::IsNull, _) => Test::IsNull,
        (syntax::Test::IsNan, Shape::One(value_type)) if is_float(value_type) => Test::IsNan,
        (syntax::Test::IsNan, _) => return Ok(Node::Constant(false)),
        (syntax::Test::Contains { all, values }, Shape::List(value_type)) => {
            Test::Contains { all: *all, values: literals(values, value_type)? }
        }
        (syntax::Test::Contains { all, values }, Shape::Map { key: Kind::String, value: ValueType::Text }) => {
            Test::HasEntry { all: *all, entries: values.iter().map(entry).collect::<Result<_, _>>()? }
        }
        (syntax::Test::Contains { .. }, _) => {
            let fault = format!("{path} is neither a list nor a map of strings, so CONTAINS does not apply");
            return Err(Fault::new(condition.at, fault));
        }
        // `test` handles these before.
        (syntax::Test::Like | syntax::Test::Not(_), _) => return Ok(Node::Constant(false)),
    };
    Ok(Node::Test { path, test })
}

fn entry(term: &Term<'_>) -> Result<String, Fault> {
    match scalar(term, &ValueType::Text)? {
        Scalar::Text(text) if text.contains(':') => Ok(text),
        _ => Err(Fault::new(term.at, "an entry of a map must be written as \"key:value\"")),
    }
}

fn is_float(value_type: &ValueType) -> bool {
    match value_type {
        ValueType::Float { .. } => true,
        ValueType::Wrapper(inner) => is_float(inner),
        _ => false,
    }
}
