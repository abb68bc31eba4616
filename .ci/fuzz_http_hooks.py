"""Hooks of schemathesis: remove `watch` from requests, since a watch does not end, and add the bodies that the document leaves out for
the sake of generated clients: YAML and JSON patches. Black-box tests cover watches."""

import schemathesis

JSON_PATCH = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "op": {"enum": ["add", "remove", "replace", "move", "copy", "test"]},
            "path": {"type": "string"},
            "from": {"type": "string"},
            "value": {},
        },
        "required": ["op", "path"],
    },
}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    for path in raw_schema["paths"].values():
        for operation in path.values():
            content = operation.get("requestBody", {}).get("content", {}) if isinstance(operation, dict) else {}
            if "application/json" in content:
                content["application/yaml"] = content["application/json"]
            if "application/merge-patch+json" in content:
                content["application/json-patch+json"] = {"schema": JSON_PATCH}


@schemathesis.hook
def before_call(context, case, kwargs):
    for query in (case.query, kwargs.get("params")):
        if query and "watch" in query:
            del query["watch"]
