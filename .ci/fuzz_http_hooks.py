"""Hooks of schemathesis: remove `watch` from requests, since a watch does not end. Black-box tests cover watches."""

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    for query in (case.query, kwargs.get("params")):
        if query and "watch" in query:
            del query["watch"]
