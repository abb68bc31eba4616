//! Label selectors as text, as kubectl reads them: `env=prod,tier!=web,zone in (a, b),!old`.

use mortise_resource::goten::{LabelSelector, LabelSelectorRequirement};
use winnow::{
    ModalResult, Parser as _,
    ascii::{multispace0, multispace1},
    combinator::{alt, delimited, eof, opt, preceded, separated, terminated},
    token::take_till,
};

use crate::{QueryError, error::shown, limits};

/// Reads a selector. Requirements are separated by commas: `key=value` or `key==value`, `key!=value`, `key in (a,b)`,
/// `key notin (a,b)`, `key`, `!key`. A key with one value goes into `match_labels` unless it is there already. An empty
/// text selects everything.
///
/// # Errors
/// The text is longer than [`limits::TEXT_BYTES`] or is not a selector.
pub fn label_selector(text: &str) -> Result<LabelSelector, QueryError> {
    if text.len() > limits::TEXT_BYTES {
        let fault = format!("it has {} bytes; at most {} are allowed", text.len(), limits::TEXT_BYTES);
        return Err(QueryError::Selector(fault));
    }
    let mut selector = LabelSelector::default();
    if text.trim().is_empty() {
        return Ok(selector);
    }
    let parsed: Result<Vec<_>, _> = terminated(separated(1.., requirement, ','), eof).parse(text);
    let requirements = parsed.map_err(|error| {
        let column = text.get(..error.offset()).unwrap_or_default().chars().count() + 1;
        QueryError::Selector(format!(
            "{:?} is not a selector from character {column} on; write key=value, key!=value, key in (a,b), key notin (a,b), key or \
             !key, separated by commas",
            shown(text)
        ))
    })?;
    for mut requirement in requirements {
        let is_free = !selector.match_labels.contains_key(&requirement.key);
        match requirement.values.as_mut_slice() {
            [value] if requirement.operator == "In" && is_free => {
                selector.match_labels.insert(requirement.key, std::mem::take(value));
            }
            _ => selector.match_expressions.push(requirement),
        }
    }
    Ok(selector)
}

fn requirement(input: &mut &str) -> ModalResult<LabelSelectorRequirement> {
    let make = |key: &str, operator: &str, values: Vec<&str>| LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.into_iter().map(str::to_owned).collect(),
    };
    let absent = preceded(('!', multispace0), key).map(|key| make(key, "DoesNotExist", Vec::new()));
    let value = || preceded(multispace0, opt(word)).map(|value| vec![value.unwrap_or_default()]);
    let list = || {
        let element = delimited(multispace0, opt(word), multispace0).map(Option::unwrap_or_default);
        delimited((multispace0, '('), separated(1.., element, ','), ')')
    };
    let condition = alt((
        preceded((multispace0, "!="), value()).map(|values| ("NotIn", values)),
        preceded((multispace0, '=', opt('=')), value()).map(|values| ("In", values)),
        preceded((multispace1, "notin"), list()).map(|values| ("NotIn", values)),
        preceded((multispace1, "in"), list()).map(|values| ("In", values)),
    ));
    let present = (key, opt(condition)).map(|(key, condition)| {
        let (operator, values) = condition.unwrap_or(("Exists", Vec::new()));
        make(key, operator, values)
    });
    delimited(multispace0, alt((absent, present)), multispace0).parse_next(input)
}

/// A key. Other than a value it has no `<` and `>`, which would be taken for a comparison.
fn key<'t>(input: &mut &'t str) -> ModalResult<&'t str> {
    take_till(1.., |letter: char| letter.is_whitespace() || ",=!()<>".contains(letter)).parse_next(input)
}

/// A key or a value: it has no blanks and none of `,=!()`.
fn word<'t>(input: &mut &'t str) -> ModalResult<&'t str> {
    take_till(1.., |letter: char| letter.is_whitespace() || ",=!()".contains(letter)).parse_next(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text, its labels, and its other requirements.
    type Case = (&'static str, &'static [(&'static str, &'static str)], Vec<LabelSelectorRequirement>);

    fn needs(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
    }

    #[test]
    fn every_form_is_read() {
        let cases: [Case; 12] = [
            ("", &[], vec![]),
            ("env=prod", &[("env", "prod")], vec![]),
            (" env == prod , tier = web ", &[("env", "prod"), ("tier", "web")], vec![]),
            ("tier=", &[("tier", "")], vec![]),
            ("a=1,a=2", &[("a", "1")], vec![needs("a", "In", &["2"])]),
            ("env!=prod", &[], vec![needs("env", "NotIn", &["prod"])]),
            ("zone in (a, b)", &[], vec![needs("zone", "In", &["a", "b"])]),
            ("zone in (a)", &[("zone", "a")], vec![]),
            ("zone notin (a,,b),x", &[], vec![needs("zone", "NotIn", &["a", "", "b"]), needs("x", "Exists", &[])]),
            ("app.example.com/name", &[], vec![needs("app.example.com/name", "Exists", &[])]),
            ("! old", &[], vec![needs("old", "DoesNotExist", &[])]),
            ("in in (in),notin", &[("in", "in")], vec![needs("notin", "Exists", &[])]),
        ];
        for (text, labels, expressions) in cases {
            let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let wanted = LabelSelector { match_labels: labels, match_expressions: expressions };
            assert_eq!(label_selector(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_is_no_selector_is_refused_with_the_place() {
        let cases = [
            ("env>1", 4),
            ("a,env<1", 6),
            ("!env>1", 5),
            ("env >1", 5),
            ("=x", 1),
            ("a=b,", 4),
            ("a in b", 3),
            ("a in (b", 3),
            ("a b", 3),
            ("a==b=c", 5),
            ("!", 1),
            ("a!b", 2),
        ];
        for (text, column) in cases {
            let error = label_selector(text).unwrap_err().to_string();
            assert!(error.contains(&format!("is not a selector from character {column} on")), "{text}: {error}");
        }
        let long = format!("a={}", "b".repeat(limits::TEXT_BYTES));
        assert!(label_selector(&long).unwrap_err().to_string().contains("bytes"));
    }
}
