use mortise_resource::manifest::{FunctionEntries, FunctionValues, ObjectType};

use super::*;

const YES: Exports = Exports {
    functions: true,
    mutating: false,
    validating: false,
    authorizing: false,
    upgrading: false,
    configuring: false,
    controlling: false,
    mapping: false,
    initializing: false,
    planning: false,
    moving: false,
    importing: false,
};

fn of(value_type: Type) -> ValueType {
    ValueType { r#type: Some(value_type) }
}

fn primitive(item: Primitive) -> ValueType {
    of(Type::Primitive(item.into()))
}

fn list(item: ValueType) -> ValueType {
    of(Type::List(Box::new(item)))
}

fn parameter(name: &str, item: ValueType) -> FunctionParameter {
    FunctionParameter { name: name.into(), r#type: Some(item), ..FunctionParameter::default() }
}

fn function(parameters: Vec<FunctionParameter>, variadic: Option<FunctionParameter>) -> Function {
    let returns = Some(primitive(Primitive::String));
    Function { name: "f".into(), parameters, variadic, returns, ..Function::default() }
}

fn refused(functions: Vec<Function>, exports: Exports) -> String {
    read(functions, exports).unwrap_err().to_string()
}

fn value(item: Value) -> FunctionValue {
    FunctionValue { value: Some(item) }
}

fn text(content: &str) -> FunctionValue {
    value(Value::Text(content.into()))
}

fn number(digits: &str) -> FunctionValue {
    value(Value::Number(digits.into()))
}

fn elements<const N: usize>(values: [FunctionValue; N]) -> FunctionValue {
    value(Value::Elements(FunctionValues { values: values.into() }))
}

fn entries<const N: usize>(values: [(&str, FunctionValue); N]) -> FunctionValue {
    let values = values.into_iter().map(|(name, item)| (name.to_owned(), item)).collect();
    value(Value::Entries(FunctionEntries { values }))
}

fn fault(function: Function, arguments: &[FunctionValue]) -> (Option<u32>, String) {
    let read = read(vec![function], YES).unwrap();
    let error = read["f"].check_arguments(arguments).unwrap_err();
    (error.argument, error.what)
}

#[test]
fn what_a_manifest_may_declare() {
    let string = || primitive(Primitive::String);
    assert!(read(vec![function(vec![parameter("a", string())], None)], YES).is_ok());
    assert!(read(Vec::new(), Exports::default()).unwrap().is_empty());

    let says = refused(vec![function(Vec::new(), None)], Exports::default());
    assert!(says.contains("does not export mortise:plugin/functions"), "{says}");
    for name in ["", "A", "1a", "a-b", "ä", &"a".repeat(64)] {
        let says = refused(vec![Function { name: name.into(), ..function(Vec::new(), None) }], YES);
        assert!(says.contains("must match ^[a-z][a-z0-9_]*$"), "{says}");
    }
    let says = refused(vec![function(Vec::new(), None), function(Vec::new(), None)], YES);
    assert_eq!(says, "function \"f\": declared twice; declare it once");
    let twice = vec![parameter("a", string()), parameter("a", string())];
    assert!(refused(vec![function(twice, None)], YES).contains("its name is taken"));
    let twice = function(vec![parameter("a", string())], Some(parameter("a", string())));
    assert!(refused(vec![twice], YES).contains("its name is taken"), "of the variadic one");
    let many = (0..33).map(|n| parameter(&format!("p{n}"), string())).collect();
    assert_eq!(refused(vec![function(many, None)], YES), "function \"f\": parameters: at most 32, got: 33");
    let without = Function { returns: None, ..function(Vec::new(), None) };
    assert_eq!(refused(vec![without], YES), "function \"f\": returns: its type is required");
    let unknown = of(Type::Primitive(77));
    assert!(refused(vec![function(vec![parameter("a", unknown)], None)], YES).contains("does not know"));
    let long = Function { summary: "x".repeat((16 << 10) + 1), ..function(Vec::new(), None) };
    assert!(refused(vec![long], YES).contains("at most 16384"));
    let all = (0..257).map(|n| Function { name: format!("f{n}"), ..function(Vec::new(), None) }).collect();
    assert_eq!(refused(all, YES), "functions: at most 256, got: 257");
}

#[test]
fn types_are_bounded_in_depth() {
    let deep = |depth| (0..depth).fold(primitive(Primitive::String), |inner, _| list(inner));
    assert!(read(vec![function(vec![parameter("a", deep(15))], None)], YES).is_ok());
    let says = refused(vec![function(vec![parameter("a", deep(16))], None)], YES);
    assert!(says.contains("more than 16 deep"), "{says}");
}

#[test]
fn arguments_are_counted() {
    let text_parameter = || parameter("a", primitive(Primitive::String));
    let (index, says) = fault(function(vec![text_parameter()], None), &[]);
    assert_eq!((index, says.as_str()), (None, "f takes 1 arguments, got: 0"));
    assert_eq!(fault(function(vec![text_parameter()], None), &[text("a"), text("b")]).1, "f takes 1 arguments, got: 2");
    let more = parameter("more", primitive(Primitive::Number));
    assert_eq!(
        fault(function(vec![text_parameter()], Some(more.clone())), &[]).1,
        "f takes 1 or more arguments, got: 0"
    );
    let many = vec![text("a"); 1025];
    assert!(fault(function(vec![text_parameter()], Some(more.clone())), &many).1.contains("got: 1025"));
    let (index, says) =
        fault(function(vec![text_parameter()], Some(more.clone())), &[text("a"), number("1"), text("b")]);
    assert_eq!((index, says.as_str()), (Some(2), "more: must be a number in decimal notation"));
    let read = read(vec![function(vec![text_parameter()], Some(more))], YES).unwrap();
    assert_eq!(read["f"].check_arguments(&[text("a"), number("1"), number("-2.5e+10")]), Ok(()));
}

#[test]
fn arguments_are_of_their_types() {
    let object = ObjectType {
        attributes: [("x", primitive(Primitive::Bool)), ("y", list(primitive(Primitive::Number)))]
            .map(|(name, item)| (name.to_owned(), item))
            .into(),
    };
    let takes = |value_type: ValueType| function(vec![parameter("a", value_type)], None);
    let object = || of(Type::Object(object.clone()));
    let map = || of(Type::Map(Box::new(primitive(Primitive::String))));
    let yes = || value(Value::Boolean(true));
    for (value_type, argument, says) in [
        (primitive(Primitive::String), number("1"), "a: must be a text"),
        (primitive(Primitive::Bool), text("true"), "a: must be true or false"),
        (primitive(Primitive::Number), number("NaN"), "a: must be a number in decimal notation"),
        (primitive(Primitive::Number), number("1."), "a: must be a number in decimal notation"),
        (primitive(Primitive::Number), number(".5"), "a: must be a number in decimal notation"),
        (primitive(Primitive::Number), number("1e"), "a: must be a number in decimal notation"),
        (primitive(Primitive::Number), number("--1"), "a: must be a number in decimal notation"),
        (primitive(Primitive::Number), number(&"1".repeat(10_001)), "a: must be a number in decimal notation"),
        (list(primitive(Primitive::String)), text("a"), "a: must be a list"),
        (list(primitive(Primitive::String)), elements([text("a"), yes()]), "a[1]: must be a text"),
        (map(), entries([("k", yes())]), "a[\"k\"]: must be a text"),
        (map(), elements([]), "a: must be a map"),
        (object(), entries([("x", yes())]), "a: the attribute \"y\" is missing; it may be null"),
        (object(), entries([("x", yes()), ("z", yes())]), "a: there is no attribute \"z\""),
        (
            object(),
            entries([("x", yes()), ("y", elements([text("1")]))]),
            "a.y[0]: must be a number in decimal notation",
        ),
        (primitive(Primitive::String), FunctionValue::default(), "a: null is not allowed"),
    ] {
        assert_eq!(fault(takes(value_type), &[argument]), (Some(0), says.to_owned()));
    }
    let null = FunctionValue::default();
    let nullable = FunctionParameter { allow_null: true, ..parameter("a", primitive(Primitive::String)) };
    let read = read(vec![function(vec![nullable], None)], YES).unwrap();
    assert_eq!(read["f"].check_arguments(std::slice::from_ref(&null)), Ok(()));
    let good = entries([("x", null), ("y", elements([number("0"), number("-1.50"), number("3E100")]))]);
    let read = super::read(vec![takes(object())], YES).unwrap();
    assert_eq!(read["f"].check_arguments(&[good]), Ok(()), "what is inside others may be null");
}

#[test]
fn results_are_of_their_type() {
    let read = read(vec![function(Vec::new(), None)], YES).unwrap();
    assert_eq!(read["f"].check_result(&text("a")), Ok(()));
    assert_eq!(read["f"].check_result(&number("1")).unwrap_err().to_string(), "must be a text");
}
