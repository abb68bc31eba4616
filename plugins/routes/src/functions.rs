//! Functions: the name of a Route's file, and the canonical form of a path.

use mortise_plugin::{Function, FunctionFault, Parameter, Value, ValueType, name, pb};

use crate::{file::RouteName, rules};

pub(crate) static FUNCTIONS: [Function; 2] = [
    Function::new(
        "file_name",
        &[
            Parameter::new("partition", ValueType::String).description("The Route's partition."),
            Parameter::new("namespace", ValueType::String).description("The Route's namespace."),
            Parameter::new("name", ValueType::String).description("The Route's name."),
        ],
        ValueType::String,
        file_name,
    )
    .summary("The name of a Route's file in the directory that nginx includes.")
    .description("It is also the id for importing the Route."),
    Function::new(
        "normalize_path",
        &[Parameter::new("path", ValueType::String).description("A path, such as api/v1/.")],
        ValueType::String,
        normalize_path,
    )
    .summary("The form of a path that a Route's path_prefix needs.")
    .description(
        "Puts one slash before each segment and none after the last, and drops segments that are empty or a dot. An \
         empty path becomes /. Refuses characters that a path_prefix may not have, and segments of two dots.",
    ),
];

fn file_name(arguments: &[Value]) -> Result<Value, FunctionFault> {
    let mut parts = [""; 3];
    for ((part, argument), place) in parts.iter_mut().zip(arguments).zip(0_u32..) {
        *part = argument.as_text().unwrap_or_default();
        if let Some(fault) = name::fault(part) {
            return Err(FunctionFault::at(place, fault));
        }
    }
    let [partition, namespace, name] = parts;
    let tenancy = pb::Tenancy { partition: partition.to_owned(), namespace: namespace.to_owned() };
    Ok(RouteName::new(tenancy, name).file().into())
}

fn normalize_path(arguments: &[Value]) -> Result<Value, FunctionFault> {
    let path = arguments.first().and_then(Value::as_text).unwrap_or_default();
    let segments = path.split('/').filter(|segment| !matches!(*segment, "" | "."));
    let path = segments.fold(String::new(), |path, segment| path + "/" + segment);
    let path = if path.is_empty() { "/".to_owned() } else { path };
    match rules::path_prefix(&path) {
        Ok(()) => Ok(path.into()),
        Err(error) => Err(FunctionFault::at(0, error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use mortise_plugin::testing::call;

    use super::*;
    use crate::PLUGIN;

    #[test]
    fn a_file_is_called_as_its_route() {
        let file_name = |parts: [&str; 3]| call(&PLUGIN, "file_name", &parts.map(Value::from));
        assert_eq!(file_name(["default", "default", "web"]), Ok("default.default.web.conf".into()));
        assert_eq!(file_name(["default", "a.b", "web"]).unwrap_err().argument, Some(1));
        assert_eq!(file_name(["default", "default", ""]).unwrap_err().argument, Some(2));
    }

    #[test]
    fn paths_are_brought_into_one_form() {
        let normalize = |path: &str| call(&PLUGIN, "normalize_path", &[path.into()]);
        for (path, normal) in
            [("", "/"), ("/", "/"), ("api", "/api"), ("//api/./v1/", "/api/v1"), ("/a/...", "/a/..."), ("./", "/")]
        {
            assert_eq!(normalize(path), Ok(normal.into()), "{path}");
            assert_eq!(normalize(normal), Ok(normal.into()), "{path}");
        }
        for bad in ["/a b", "/a/../b", "/a;", "é", &"a".repeat(2000)] {
            assert_eq!(normalize(bad).unwrap_err().argument, Some(0), "{bad}");
        }
    }
}
