"""What schemathesis must know about this API: a watch does not end, so it is left out; the black-box tests have those."""

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    for query in (case.query, kwargs.get("params")):
        if query and "watch" in query:
            del query["watch"]
