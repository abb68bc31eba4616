//! A filter as it is written, before paths and values are looked up. Places are bytes of the text.

/// A condition, or several.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression<'t> {
    /// All of them hold.
    All(Vec<Expression<'t>>),
    /// One of them holds.
    Any(Vec<Expression<'t>>),
    /// It does not hold.
    Not(Box<Expression<'t>>),
    /// A test of the values at a path.
    Condition(Condition<'t>),
}

/// A test of the values at a path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition<'t> {
    pub(crate) path: &'t str,
    pub(crate) at: usize,
    pub(crate) test: Test<'t>,
}

/// What is tested.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test<'t> {
    Compare(Comparison, Term<'t>),
    IsNull,
    IsNan,
    In(Vec<Term<'t>>),
    /// Some of the values, or all of them, are elements.
    Contains {
        all: bool,
        values: Vec<Term<'t>>,
    },
    Like,
    /// `IS NOT` and `NOT IN`.
    Not(Box<Test<'t>>),
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A value as it is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Term<'t> {
    pub(crate) at: usize,
    pub(crate) value: TermValue<'t>,
}

/// What is written.
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
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    /// Whether only values with an order have it.
    pub(crate) fn is_ordering(self) -> bool {
        !matches!(self, Self::Equal | Self::NotEqual)
    }
}

impl Term<'_> {
    /// For messages to users.
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
