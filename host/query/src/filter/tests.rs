//! The grammar, by the table of what goten's parser accepts and rejects.

use super::{
    lexer, parser,
    syntax::{Expression, Term, TermValue, Test},
};

fn read(text: &str) -> Result<String, String> {
    let words = lexer::lex(text).map_err(|fault| fault.text)?;
    parser::parse(&words, text.len()).map(|expression| show(&expression)).map_err(|fault| fault.text)
}

fn show(expression: &Expression<'_>) -> String {
    let many =
        |parts: &[Expression<'_>], word: &str| format!("({})", parts.iter().map(show).collect::<Vec<_>>().join(word));
    match expression {
        Expression::All(parts) => many(parts, " & "),
        Expression::Any(parts) => many(parts, " | "),
        Expression::Not(inner) => format!("!{}", show(inner)),
        Expression::Condition(condition) => format!("{}{}", condition.path, test(&condition.test)),
    }
}

fn test(parsed: &Test<'_>) -> String {
    let terms = |terms: &[Term<'_>]| format!("[{}]", terms.iter().map(term).collect::<Vec<_>>().join(","));
    match parsed {
        Test::Compare(comparison, value) => format!("{}{}", comparison.symbol(), term(value)),
        Test::IsNull => " null".into(),
        Test::IsNan => " nan".into(),
        Test::In(values) => format!(" in{}", terms(values)),
        Test::Contains { all, values } => format!(" has{}{}", if *all { "all" } else { "" }, terms(values)),
        Test::Like(text) => format!(" like{}", term(text)),
        Test::StartsWith(text) => format!(" begins{}", term(text)),
        Test::ContainsWhere(inner) => format!(" has{{{}}}", show(inner)),
        Test::Not(inner) => format!(" not{}", test(inner)),
    }
}

fn term(term: &Term<'_>) -> String {
    match &term.value {
        TermValue::Null => "NULL".into(),
        TermValue::Bool(value) => value.to_string(),
        TermValue::Number(text) => (*text).into(),
        TermValue::Text(text) => format!("{text:?}"),
        TermValue::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{}:{}", self::term(key), self::term(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
    }
}

#[test]
fn what_is_accepted_means_this() {
    let rows = [
        (r#"a = "x" b = 2"#, r#"(a="x" & b=2)"#),
        (r#"a = "x" + b = 2"#, r#"(a="x" & b=2)"#),
        ("a = 1 | b = 2", "(a=1 | b=2)"),
        ("a = 1 OR b = 2 AND c = 3", "(a=1 | (b=2 & c=3))"),
        ("a = 1 b = 2 OR c = 3 d = 4", "((a=1 & b=2) | (c=3 & d=4))"),
        ("a = 1 + b = 2 | c = 3", "((a=1 & b=2) | c=3)"),
        ("NOT a = 1 AND b = 2", "(!a=1 & b=2)"),
        ("NOT NOT a = 1", "a=1"),
        ("NOT NOT NOT a = 1", "!a=1"),
        ("NOTa = 1", "NOTa=1"),
        ("a=1OR b=2", "(a=1 | b=2)"),
        ("a=1 ORb=2", "(a=1 & ORb=2)"),
        (r#"a="x"AND b="y""#, r#"(a="x" & b="y")"#),
        ("a = 1 (b = 2)", "(a=1 & b=2)"),
        ("NOT(a=1)", "!a=1"),
        (r#"a IN ("x","y")"#, r#"a in["x","y"]"#),
        (r#"a in ["x"]"#, r#"a in["x"]"#),
        (r#"a NOT IN ["x"]"#, r#"a not in["x"]"#),
        (r#"a IN (1,"x",NULL,TRUE)"#, r#"a in[1,"x",NULL,true]"#),
        (r#"a CONTAINS "x""#, r#"a has["x"]"#),
        (r#"a HAS "x""#, r#"a has["x"]"#),
        (r#"a CONTAINS VALUE "x""#, r#"a has["x"]"#),
        (r#"a CONTAINS ANY ("x", "y")"#, r#"a has["x","y"]"#),
        (r#"a has all ["x", "y"]"#, r#"a hasall["x","y"]"#),
        (r#"a CONTAINS {"k" "v" "q" "r"}"#, ""),
        (r#"a CONTAINS {"k" "v", "q" "r"}"#, r#"a has[{"k":"v","q":"r"}]"#),
        (r#"a CONTAINS {"k":"v","q":"r"}"#, r#"a has[{"k":"v","q":"r"}]"#),
        (r#"a = {"k" {"l": 1}}"#, r#"a={"k":{"l":1}}"#),
        ("a = {}", "a={}"),
        ("a = NULL", "a=NULL"),
        ("a != NULL", "a not=NULL"),
        ("a IS NULL", "a null"),
        ("a is not nan", "a not nan"),
        ("a = 1 -- comment", "a=1"),
        ("-- first\na = 1", "a=1"),
        (r#"a = "x" -- "y" OR b = 1"#, r#"a="x""#),
        ("a.b. = 1", "a.b.=1"),
        (r#"metadata.labels.my-key = "x""#, r#"metadata.labels.my-key="x""#),
        (r#"metadata.labels.a/b = "x""#, r#"metadata.labels.a/b="x""#),
        (r#"labels.example\.com/v1\.2 = "x""#, r#"labels.example\.com/v1\.2="x""#),
        ("a--b = 1", "a--b=1"),
        ("a == 1", "a=1"),
        ("a >= -1 a <= 1.5e3 a < 1E+5 a > 0", "(a>=-1 & a<=1.5e3 & a<1E+5 & a>0)"),
        ("OR = 1", "OR=1"),
        ("in = 1", "in=1"),
        ("not = 1", "not=1"),
        ("null = 1", "null=1"),
        ("a = 1 OR not = 1 OR OR = 2", "(a=1 | not=1 | OR=2)"),
        ("NOT NOT = 1", "!NOT=1"),
        ("NOT IS NULL", "NOT null"),
        ("NOT IN (1)", "NOT in[1]"),
        ("NOT IN IN (1)", "!IN in[1]"),
        ("NOT NOT IN (1)", "!NOT in[1]"),
        ("a = 1 OR IN = 2", "(a=1 | IN=2)"),
        ("a = 1 AND NOT (b = 2 | c = 3)", "(a=1 & !(b=2 | c=3))"),
        ("a = 1 AND AND = 2", "(a=1 & AND=2)"),
        ("a = 1 AND = 2", "(a=1 & AND=2)"),
        (r#"a LIKE "x%""#, r#"a like"x%""#),
        (r#"a starts_with "x" b = 1"#, r#"(a begins"x" & b=1)"#),
        ("starts_with = 1", "starts_with=1"),
        ("a CONTAINS (b = 1 c = 2) d = 3", "(a has{(b=1 & c=2)} & d=3)"),
        ("NOT a HAS (b = 1 | NOT c HAS (d = 2))", "!a has{(b=1 | !c has{d=2})}"),
        ("CONTAINS CONTAINS (CONTAINS = 1)", "CONTAINS has{CONTAINS=1}"),
        ("NOT CONTAINS (a = 1)", "NOT has{a=1}"),
        (r#"metadata.labels."a b" = "x""#, r#"metadata.labels."a b"="x""#),
        (r#"a."0".b."\"c\\".d = 1"#, r#"a."0".b."\"c\\".d=1"#),
        (r#"a["b.c"]["d"].e=1"#, r#"a["b.c"]["d"].e=1"#),
        (r#"a."ключ" IN["x"]"#, r#"a."ключ" in["x"]"#),
        (r#"a in["x"]"#, r#"a in["x"]"#),
        (r#"a CONTAINS ANY["x"]"#, r#"a has["x"]"#),
        (r#"a = "\"\\\n\t\x41\u00e9\U0001F600\101""#, r#"a="\"\\\n\tAé😀A""#),
        ("((((a = 1))))", "a=1"),
    ];
    for (text, meaning) in rows {
        // In this row goten needs no comma between entries.
        let meaning = if meaning.is_empty() { r#"a has[{"k":"v","q":"r"}]"# } else { meaning };
        assert_eq!(read(text).as_deref(), Ok(meaning), "{text}");
    }
}

#[test]
fn what_is_rejected() {
    let rows = [
        "",
        " ",
        "-- comment",
        "()",
        "( )",
        "(())",
        "a IN ()",
        "a IN []",
        r#"a IN "x""#,
        r#"a IN ("x",)"#,
        r#"a IN ("x"]"#,
        r#"a CONTAINS ANY "x""#,
        r#"a NOT CONTAINS "x""#,
        r#"a NOT LIKE "x""#,
        "a = 1 AND",
        "a = 1 OR",
        "AND a = 1",
        "a = 1 AND AND b = 2",
        "a = 1 AND OR b = 2",
        "a",
        "= 1",
        "a =",
        ".a = 1",
        "a..b = 1",
        "(a = 1",
        "a = 1)",
        "a = 1, b = 2",
        "a = 1; b = 2",
        "a = 0x10",
        "a = 'x'",
        "a = 2018-11-15",
        "a BETWEEN 1",
        r#"metadata.labels."a b = 1"#,
        r#"metadata.labels."a"b = 1"#,
        r#"metadata.labels."a""b" = 1"#,
        r#""a".b = 1"#,
        r#"a["b = 1"#,
        "a.-5 = 1",
        "a.ключ = 1",
        "a.bé = 1",
        "a CONTAINS ()",
        "a CONTAINS (b)",
        "a CONTAINS (b = 1",
        "a CONTAINS VALUE (b = 1)",
        "a STARTS_WITH 1",
        r#"metadata.labels.0abc = "x""#,
        "a IS TRUE",
        "a = b",
        "a = [1,2]",
        "a = 1 || b = 2",
        "a = 1 && b = 2",
        "a <> 1",
        "a => 1",
        "a === 1",
        "a =! 1",
        "a !== 1",
        "a = +1",
        "a = .5",
        "a = 1..2",
        "a = 007",
        "a = 1e",
        r#"a CONTAIN "x""#,
        r#"a HAVE "x""#,
        r#"a = "\q""#,
        r#"a = "x"#,
        "a = \"x\ny\"",
        r#"a = "\xff""#,
        r#"a = "\ud800""#,
        r#"a = "\x4""#,
        "NOT",
        "NOT NOT",
        "a = {\"k\"}",
        "a = {\"k\":1,}",
        "a = {1:2",
        "a + b",
        "a = 1 |",
        "| a = 1",
        "a LIKE 1",
        "é = 1",
        "a = 1 x",
        "a \\. b = 1",
    ];
    for text in rows {
        assert!(read(text).is_err(), "{text}: {:?}", read(text));
    }
}

#[test]
fn faults_name_the_word_and_what_is_expected() {
    let rows = [
        ("a = b", "expected a value: a string in double quotes, a number, TRUE, FALSE, NULL or {...}, found b"),
        (
            "a =",
            "expected a value: a string in double quotes, a number, TRUE, FALSE, NULL or {...}, found the end of the filter",
        ),
        ("a = 'x'", "'\\'' has no meaning here; write strings in double quotes"),
        ("a = 1 && b", "'&' has no meaning here; write AND"),
        ("a = 007", "007 is not a number; write it as in JSON, such as -1, 0.5 or 1e6"),
        ("a.b.0c = 1", "'0' cannot stand in a key without quotes; write the key as .\"0...\""),
        ("a.é = 1", "'é' cannot stand in a key without quotes; write the key as .\"é...\""),
        ("(a = 1", "expected AND, OR or ), found the end of the filter"),
        ("a = 1)", "this ) has no opening (; remove it"),
    ];
    for (text, fault) in rows {
        assert_eq!(read(text).unwrap_err(), fault, "{text}");
    }
    assert!(read("a HAVE 1").unwrap_err().starts_with("a is followed by HAVE instead of a test; write = != "));
}
