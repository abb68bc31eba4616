// A typed client of the HTTP API: types by openapi-typescript, requests by openapi-fetch. See README.md.
import createClient from "openapi-fetch";

import type { components, paths } from "./api.js";

type Artist = components["schemas"]["Resource-demo.v2.Artist"];

const server = process.env.MORTISE_HTTP ?? "http://127.0.0.1:8500";
const client = createClient<paths>({ baseUrl: server });
const item = "/api/demo/v2/artist/{name}";
const korn = { path: { name: "korn" } };

const put = await client.PUT(item, { params: korn, body: { data: { name: "Korn" } } });
if (put.error) throw new Error(put.error.detail);
console.log("written", put.data.data.name, put.data.data.genre);

const data = await client.GET(item, { params: korn });
if (!data.data) throw new Error("the artist is missing");
console.log("read", data.data.data.name);

// A change only of the version that was read.
const tag = data.response.headers.get("etag") ?? "";
const patched = await client.PATCH(item, {
  params: { ...korn, header: { "If-Match": tag } },
  headers: { "Content-Type": "application/merge-patch+json" },
  body: { data: { genre: "GENRE_METAL" } },
});
if (patched.error) throw new Error(patched.error.detail);
console.log("patched", patched.data.data.genre);
const late = await client.DELETE(item, { params: { ...korn, header: { "If-Match": tag } } });
console.log("condition", late.response.status, late.error?.type);

const created = await client.POST("/api/demo/v2/artist", {
  params: { query: { generate_name: "abba-" } },
  body: { data: { name: "ABBA" } },
});
if (created.error) throw new Error(created.error.detail);
console.log("created", created.response.status, created.data.id?.name?.startsWith("abba-"));

const list = await client.GET("/api/demo/v2/artist", { params: { query: { filter: 'data.genre = "GENRE_METAL"' } } });
console.log("listed", list.data?.resources.map((artist: Artist) => artist.data.name).join());

// Every error is a problem object.
const wrong = await client.PUT(item, { params: korn, body: { data: { nome: "Korn" } as { name?: string } } });
const fault = wrong.error?.violations?.[0];
console.log("refused", wrong.response.status, fault?.path, fault?.line);
const missing = await client.GET(item, { params: { path: { name: "nobody" } } });
console.log("missing", missing.response.status, missing.error?.code);

// Node has no EventSource; a browser has.
const events = await fetch(`${server}/api/demo/v2/artist/korn/_watch`);
let text = "";
for await (const part of events.body!.pipeThrough(new TextDecoderStream())) {
  text += part;
  if (text.includes("event: end-of-snapshot")) break;
}
console.log("watched", text.split("\n").filter((line) => line.startsWith("event:")).join());
