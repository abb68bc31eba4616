//! Compilation of a parsed filter: resolves paths and converts values. A test that no resource can pass by the type of
//! its field is refused.

use prost_reflect::{Kind, MessageDescriptor};

use super::{
    evaluate::{Node, Test},
    fault::Fault,
    literal::{literal, scalar},
    pattern::Pattern,
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

/// The beginning of paths.
#[derive(Clone, Copy)]
pub(super) enum Beginning<'s> {
    Resource(&'s Schema),
    /// A message of a list.
    Element(&'s MessageDescriptor),
}

impl Beginning<'_> {
    fn path(self, text: &str) -> Result<Path, QueryError> {
        match self {
            Self::Resource(schema) => Path::parse(text, schema),
            Self::Element(message) => Path::parse_in(text, message),
        }
    }
}

/// Compiles an expression, whose depth the parser has bounded.
pub(super) fn compile(expression: &Expression<'_>, beginning: Beginning<'_>) -> Result<Node, Fault> {
    let many = |parts: &[Expression<'_>]| parts.iter().map(|part| compile(part, beginning)).collect::<Result<_, _>>();
    Ok(match expression {
        Expression::All(parts) => Node::All(many(parts)?),
        Expression::Any(parts) => Node::Any(many(parts)?),
        Expression::Not(inner) => Node::Not(Box::new(compile(inner, beginning)?)),
        Expression::Condition(condition) => {
            let path =
                beginning.path(condition.path).map_err(|error| Fault::new(condition.offset, error.to_string()))?;
            test(condition, path, &condition.test)?
        }
    })
}

fn test(condition: &Condition<'_>, path: Path, test: &syntax::Test<'_>) -> Result<Node, Fault> {
    match test {
        syntax::Test::Not(inner) => Ok(Node::Not(Box::new(self::test(condition, path, inner)?))),
        syntax::Test::Compare(comparison, Term { value: TermValue::Null, offset }) => match comparison {
            Comparison::Equal => self::test(condition, path, &syntax::Test::IsNull),
            _ => Err(Fault::new(*offset, "NULL has no order; write IS NULL or IS NOT NULL")),
        },
        test if path.root == Root::Name => name(condition, test),
        test => field(condition, path, test),
    }
}

/// Tests of the virtual field `name`.
fn name(condition: &Condition<'_>, test: &syntax::Test<'_>) -> Result<Node, Fault> {
    let pattern = |term: &Term<'_>| match scalar(term, &ValueType::Text)? {
        Scalar::Text(text) => NamePattern::parse(&text).map_err(|fault| Fault::new(term.offset, fault.to_string())),
        _ => Err(Fault::new(term.offset, "a name must be in double quotes")),
    };
    match test {
        syntax::Test::Compare(Comparison::Equal, term) => Ok(Node::Name(vec![pattern(term)?])),
        syntax::Test::In(terms) => Ok(Node::Name(terms.iter().map(pattern).collect::<Result<_, _>>()?)),
        syntax::Test::IsNull => Ok(Node::Constant(false)),
        _ => Err(Fault::new(
            condition.offset,
            "name is compared with patterns, by =, != and [NOT] IN alone; for other tests write id.name",
        )),
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
            return Err(Fault::new(condition.offset, fault));
        }
        (syntax::Test::Compare(comparison, term), Shape::One(value_type)) => {
            Test::Compare(*comparison, literal(term, value_type)?)
        }
        (syntax::Test::In(terms), Shape::One(value_type)) => Test::In(literals(terms, value_type)?),
        (syntax::Test::Compare(..) | syntax::Test::In(_), Shape::List(_)) => {
            let fault =
                format!("{path} is a list, which is not compared as a whole; write {path} CONTAINS and a value");
            return Err(Fault::new(condition.offset, fault));
        }
        (syntax::Test::Compare(..) | syntax::Test::In(_), Shape::Map { .. }) => {
            let fault = format!(
                "{path} is a map, which is not compared as a whole; name a key of it, or write CONTAINS \"key:value\" for \
                 a map of strings"
            );
            return Err(Fault::new(condition.offset, fault));
        }
        (syntax::Test::IsNull, _) => Test::IsNull,
        (syntax::Test::IsNan, Shape::One(value_type)) if is_float(value_type) => Test::IsNan,
        (syntax::Test::IsNan, _) => {
            let fault = format!("{path} is not a floating-point number, so it is never NaN; leave the condition out");
            return Err(Fault::new(condition.offset, fault));
        }
        (syntax::Test::Like(term), Shape::One(value_type)) if is_text(value_type) => {
            Test::Like(Pattern::like(&text(term)?).map_err(|fault| Fault::new(term.offset, fault.to_string()))?)
        }
        (syntax::Test::StartsWith(term), Shape::One(value_type)) if is_text(value_type) => {
            Test::Like(Pattern::beginning(text(term)?))
        }
        (syntax::Test::Like(_) | syntax::Test::StartsWith(_), _) => {
            let fault = format!("{path} is not a single text, so LIKE and STARTS_WITH do not apply");
            return Err(Fault::new(condition.offset, fault));
        }
        (syntax::Test::ContainsWhere(inner), Shape::List(ValueType::Message(message))) => {
            Test::ContainsWhere(Box::new(compile(inner, Beginning::Element(message))?))
        }
        (syntax::Test::ContainsWhere(_), _) => {
            let fault = format!("{path} is not a list of messages, so CONTAINS with conditions does not apply");
            return Err(Fault::new(condition.offset, fault));
        }
        (syntax::Test::Contains { all, values }, Shape::List(value_type)) => {
            Test::Contains { all: *all, values: literals(values, value_type)? }
        }
        (syntax::Test::Contains { all, values }, Shape::Map { key: Kind::String, value: ValueType::Text }) => {
            Test::HasEntry { all: *all, entries: values.iter().map(entry).collect::<Result<_, _>>()? }
        }
        (syntax::Test::Contains { .. }, _) => {
            let fault = format!("{path} is neither a list nor a map of strings, so CONTAINS does not apply");
            return Err(Fault::new(condition.offset, fault));
        }
        // `test` handles these before.
        (syntax::Test::Not(_), _) => return Ok(Node::Constant(false)),
    };
    Ok(Node::Test { path, test })
}

fn entry(term: &Term<'_>) -> Result<String, Fault> {
    match scalar(term, &ValueType::Text)? {
        Scalar::Text(text) if text.contains(':') => Ok(text),
        _ => Err(Fault::new(term.offset, "an entry of a map must be written as \"key:value\"")),
    }
}

fn text(term: &Term<'_>) -> Result<String, Fault> {
    match scalar(term, &ValueType::Text)? {
        Scalar::Text(text) => Ok(text),
        _ => Err(Fault::new(term.offset, "the text must be in double quotes")),
    }
}

fn is_text(value_type: &ValueType) -> bool {
    match value_type {
        ValueType::Text => true,
        ValueType::Wrapper(inner) => is_text(inner),
        _ => false,
    }
}

fn is_float(value_type: &ValueType) -> bool {
    match value_type {
        ValueType::Float { .. } => true,
        ValueType::Wrapper(inner) => is_float(inner),
        _ => false,
    }
}
