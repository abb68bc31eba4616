//! The parsed form of a filter, before paths and values are looked up. Places are bytes of the text.

/// A condition, or several.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression<'t> {
    /// All of these expressions hold.
    All(Vec<Expression<'t>>),
    /// Any of these expressions holds.
    Any(Vec<Expression<'t>>),
    /// The expression does not hold.
    Not(Box<Expression<'t>>),
    /// A test of the values at a path.
    Condition(Condition<'t>),
}

/// A test of the values at a path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition<'t> {
    pub(crate) path: &'t str,
    pub(crate) offset: usize,
    pub(crate) test: Test<'t>,
}

/// The test of a condition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test<'t> {
    Compare(Comparison, Term<'t>),
    IsNull,
    IsNan,
    In(Vec<Term<'t>>),
    /// The list or map contains some (or `all`) of the values.
    Contains {
        all: bool,
        values: Vec<Term<'t>>,
    },
    /// The text has this form.
    Like(Term<'t>),
    /// The text begins with this one.
    StartsWith(Term<'t>),
    /// The list contains a message for which the expression holds.
    ContainsWhere(Box<Expression<'t>>),
    /// `!=`, `IS NOT` and `NOT IN`. For a list too: the test holds for none of its values.
    Not(Box<Test<'t>>),
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A value of the filter's text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Term<'t> {
    pub(crate) offset: usize,
    pub(crate) value: TermValue<'t>,
}

/// The text's form of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TermValue<'t> {
    Null,
    Bool(bool),
    /// A number that JSON has.
    Number(&'t str),
    Text(String),
    /// A value in braces.
    Map(Vec<(Term<'t>, Term<'t>)>),
}

impl Comparison {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    /// Whether the operator needs values with an order.
    pub(crate) fn is_ordering(self) -> bool {
        self != Self::Equal
    }
}

impl Term<'_> {
    /// Describes the value in error messages.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            TermValue::Null => "NULL".to_owned(),
            TermValue::Bool(true) => "TRUE".to_owned(),
            TermValue::Bool(false) => "FALSE".to_owned(),
            TermValue::Number(text) => crate::error::shown(text),
            TermValue::Text(text) => format!("{:?}", crate::error::shown(text)),
            TermValue::Map(_) => "a value in braces".to_owned(),
        }
    }
}
