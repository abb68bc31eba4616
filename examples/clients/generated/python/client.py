"""A client of the HTTP API on code that openapi-python-client makes: see README.md. Prints what expected.txt has."""

import json
import os
import pathlib

import httpx
from mortise_client import AuthenticatedClient, Client
from mortise_client.api.demo_v_2_album import demo_v_2_album_validate
from mortise_client.api.demo_v_2_artist import (
    demo_v_2_artist_create,
    demo_v_2_artist_delete,
    demo_v_2_artist_list,
    demo_v_2_artist_patch,
    demo_v_2_artist_read,
    demo_v_2_artist_watch,
    demo_v_2_artist_write,
)
from mortise_client.api.server import types_get, version
from mortise_client.models import (
    DemoV2ArtistListExplain,
    DemoV2ArtistPatchBody,
    MortiseProblem,
    ResourceDemoV2Artist,
    WriteDemoV2Album,
    WriteDemoV2Artist,
)
from mortise_client.types import UNSET, Response

ADDRESS = os.environ.get("MORTISE_HTTP", "http://127.0.0.1:8500")
COLLECTION = "/api/demo/v2/artist"


def token(variable: str) -> str:
    return pathlib.Path(os.environ[variable]).read_text().strip()


def artist(**data) -> WriteDemoV2Artist:
    return WriteDemoV2Artist.from_dict({"data": data})


def stored(answer: Response) -> ResourceDemoV2Artist:
    if not isinstance(answer.parsed, ResourceDemoV2Artist):
        raise SystemExit(f"not stored: {answer}")
    return answer.parsed


def refused(title: str, answer: Response) -> None:
    """Prints a problem: the code, the last part of its type, and the fields at fault."""
    if not isinstance(answer.parsed, MortiseProblem):
        raise SystemExit(f"{title}: no problem: {answer}")
    show(title, answer.status_code, answer.parsed)


def show(title: str, code: int, problem: MortiseProblem) -> None:
    fields = [violation.path for violation in problem.violations or []]
    print(f"{title}: {int(code)} {problem.type_.rsplit(':', 1)[1]}", *fields)


def main() -> None:
    with AuthenticatedClient(base_url=ADDRESS, token=token("MORTISE_TOKEN_FILE")) as client:
        print("server:", version.sync(client=client).name)
        described = types_get.sync("demo.v2.Artist", client=client)
        print("type:", described.name, described.scope.value)
        change(client)
        read_lists(client)
        meet_errors(client)
        watch(client)
        for title in ("deleted", "deleted again"):
            print(f"{title}:", int(demo_v_2_artist_delete.sync_detailed("korn", client=client).status_code))


def change(client: AuthenticatedClient) -> None:
    korn = stored(demo_v_2_artist_write.sync_detailed("korn", client=client, body=artist(name="Korn")))
    print("written:", korn.data.name, korn.data.genre.value)
    read = demo_v_2_artist_read.sync_detailed("korn", client=client)
    tag = read.headers["etag"]
    print("read:", stored(read).data.name, "as written" if tag == f'"{korn.version}"' else tag)
    same = demo_v_2_artist_read.sync_detailed("korn", client=client, if_none_match=tag)
    print("not modified:", int(same.status_code))

    # A change of the version that was read, and the same once more.
    metal = WriteDemoV2Artist.from_dict({"data": {"name": "Korn", "genre": "GENRE_METAL"}})
    changed = stored(demo_v_2_artist_write.sync_detailed("korn", client=client, body=metal, if_match=tag))
    print("changed:", changed.data.genre.value)
    refused("old tag", demo_v_2_artist_write.sync_detailed("korn", client=client, body=metal, if_match=tag))
    refused("old version", demo_v_2_artist_write.sync_detailed("korn", client=client, body=metal, version=korn.version))
    refused("no replacing", demo_v_2_artist_write.sync_detailed("korn", client=client, body=metal, if_none_match="*"))

    patch = DemoV2ArtistPatchBody.from_dict({"data": {"groupMembers": {"drums": "David"}}})
    patched = stored(demo_v_2_artist_patch.sync_detailed("korn", client=client, body=patch))
    print("patched:", patched.data.group_members["drums"], patched.data.genre.value)
    old = WriteDemoV2Album.from_dict({"data": {"title": "Old", "yearOfRelease": 1800}})
    dry = demo_v_2_album_validate.sync("old", client=client, body=old)
    print("dry run:", *(warning.path for warning in dry.warnings))
    created = demo_v_2_artist_create.sync_detailed(client=client, body=artist(name="ABBA"), generate_name="abba-")
    print("created:", int(created.status_code), stored(created).id.name[:5])
    odd = artist(**{"name": "Odd", "@unknown": "wD4H"})
    print("unknown field:", stored(demo_v_2_artist_write.sync_detailed("odd", client=client, body=odd)).data.unknown)
    demo_v_2_artist_delete.sync_detailed("odd", client=client)
    for name in ("doors", "eels"):
        stored(demo_v_2_artist_write.sync_detailed(name, client=client, body=artist(name=name.title())))


def read_lists(client: AuthenticatedClient) -> None:
    listed = demo_v_2_artist_list.sync(client=client, name_prefix="d")
    print("listed:", *(found.data.name for found in listed.resources))
    names, pages, page = [], 0, UNSET
    while True:
        found = demo_v_2_artist_list.sync(client=client, order_by="data.name", page_size=2, page_token=page)
        pages += 1
        names += [each.data.name for each in found.resources]
        page = found.next_page_token
        if page is UNSET:
            break
    print("pages:", pages, *names)
    explain = DemoV2ArtistListExplain.TRUE
    metal = demo_v_2_artist_list.sync(client=client, filter_='data.genre = "GENRE_METAL"', explain=explain)
    print("found:", *(each.data.name for each in metal.resources), metal.plan.access.value)


def meet_errors(client: AuthenticatedClient) -> None:
    refused("without a name", demo_v_2_artist_write.sync_detailed("x", client=client, body=artist()))
    wrong = WriteDemoV2Artist.from_dict({"data": {"name": "X", "genre": "GENRE_NOISE"}})
    refused("unknown genre", demo_v_2_artist_write.sync_detailed("x", client=client, body=wrong))
    refused("wrong filter", demo_v_2_artist_list.sync_detailed(client=client, filter_="data.nome ="))
    refused("missing", demo_v_2_artist_read.sync_detailed("nothing", client=client))
    empty = DemoV2ArtistPatchBody.from_dict({"data": {"name": "X"}})
    refused("missing, patched", demo_v_2_artist_patch.sync_detailed("nothing", client=client, body=empty))
    large = artist(name="x" * (1 << 20))
    refused("too large", demo_v_2_artist_write.sync_detailed("x", client=client, body=large))

    with Client(base_url=ADDRESS) as anonymous:
        refused("no token", demo_v_2_artist_read.sync_detailed("korn", client=anonymous))
    with AuthenticatedClient(base_url=ADDRESS, token="unknown") as unknown:
        refused("unknown token", demo_v_2_artist_read.sync_detailed("korn", client=unknown))
    with AuthenticatedClient(base_url=ADDRESS, token=token("MORTISE_READER_FILE")) as reader:
        print("reader reads:", stored(demo_v_2_artist_read.sync_detailed("korn", client=reader)).data.name)
        refused("reader deletes", demo_v_2_artist_delete.sync_detailed("korn", client=reader))

    # The document has no such operations.
    http = client.get_httpx_client()
    unlike("wrong method", http.put(COLLECTION, json={}))
    unlike("wrong format", http.put(f"{COLLECTION}/x", content="a,b", headers={"Content-Type": "text/csv"}))
    unlike("no path", http.get("/api/demo/v2/artists"))


def unlike(title: str, answer: httpx.Response) -> None:
    show(title, answer.status_code, MortiseProblem.from_dict(answer.json()))


def watch(client: AuthenticatedClient) -> None:
    """The operation of the generated client reads an answer to its end, which a watch does not have; its HTTP library streams."""
    http = client.get_httpx_client()
    with http.stream("GET", f"{COLLECTION}/_watch", params={"name_prefix": "e"}, timeout=30) as answer:
        lines = answer.iter_lines()
        event(lines)
        event(lines)
        refused("second watch", demo_v_2_artist_watch.sync_detailed(client=client))
        demo_v_2_artist_write.sync_detailed("eels", client=client, body=artist(name="Eels", genre="GENRE_INDIE"))
        event(lines)
        demo_v_2_artist_delete.sync_detailed("eels", client=client)
        event(lines)


def event(lines) -> None:
    """Prints the next event."""
    fields = {}
    for line in lines:
        if not line and "event" in fields:
            break
        name, _, value = line.partition(": ")
        fields[name] = value
    data = json.loads(fields["data"])
    found = ResourceDemoV2Artist.from_dict(data) if data else None
    print("event:", fields["event"], *([found.id.name, found.data.genre.value] if found else []))


if __name__ == "__main__":
    main()
