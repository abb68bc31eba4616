// Serves the built page under /ui/, and passes everything else to Mortise, as one origin. It has the headers and the sessions that Mortise
// itself has once it serves the page, so that the page is tested under them. MORTISE_UI_URL replaces it.
import { createReadStream, existsSync, statSync } from "node:fs";
import http from "node:http";
import path from "node:path";

export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; " +
  "base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'";

const KINDS = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

/** Starts on a port that the system picks. `target()` is HOST:PORT of Mortise, which may change. */
export async function startProxy(folder, target, { withSessions = false } = {}) {
  /** Tokens by cookie. */
  const sessions = new Map();

  const sessionOf = (request) => /(?:^|; )mortise=([^;]+)/.exec(request.headers.cookie ?? "")?.[1] ?? "";

  const accepts = (token) =>
    new Promise((resolve) => {
      http
        .get({ ...where(), path: "/v1/types", headers: { host: target(), "x-consul-token": token } }, (answer) => {
          answer.resume();
          resolve(answer.statusCode !== 401);
        })
        .on("error", () => resolve(false));
    });

  const where = () => {
    const [host, port] = target().split(":");
    return { host, port };
  };

  async function session(request, response) {
    const known = sessions.get(sessionOf(request));
    if (request.method === "GET") {
      if (known !== undefined && !(await accepts(known))) return response.writeHead(401).end();
      response.writeHead(200, { "content-type": "application/json" });
      return response.end(JSON.stringify({ accessor_id: known ? "test" : "", signed_in: known !== undefined }));
    }
    if (request.headers["x-mortise-ui"] !== "1") return response.writeHead(403).end();
    if (request.method === "DELETE") {
      sessions.delete(sessionOf(request));
      return response.writeHead(204, { "set-cookie": "mortise=; Max-Age=0; Path=/" }).end();
    }
    let body = "";
    for await (const part of request) body += part;
    const { token } = JSON.parse(body);
    if (!(await accepts(token))) return response.writeHead(401).end();
    const id = crypto.randomUUID();
    sessions.set(id, token);
    response.writeHead(204, { "set-cookie": `mortise=${id}; HttpOnly; SameSite=Strict; Path=/` }).end();
  }

  function page(url, response) {
    let file = path.join(folder, path.normalize(decodeURIComponent(url.pathname.slice(3))));
    const isAsset = url.pathname.startsWith("/ui/assets/");
    if (!file.startsWith(folder) || !existsSync(file) || !statSync(file).isFile()) {
      if (isAsset) return response.writeHead(404).end();
      file = path.join(folder, "index.html");
    }
    response.writeHead(200, {
      "content-type": KINDS[path.extname(file)] ?? "application/octet-stream",
      "content-security-policy": POLICY,
      "x-content-type-options": "nosniff",
      "cache-control": isAsset ? "public, max-age=31536000, immutable" : "no-cache",
    });
    createReadStream(file).pipe(response);
  }

  function pass(request, response) {
    // The browser speaks to the proxy: Mortise is asked under its own name.
    const headers = { ...request.headers, host: target() };
    if (headers.origin) headers.origin = `http://${target()}`;
    delete headers.cookie;
    const token = withSessions ? sessions.get(sessionOf(request)) : undefined;
    if (token !== undefined) headers["x-consul-token"] = token;
    const asked = http.request({ ...where(), method: request.method, path: request.url, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      // A stream of events may be silent for long.
      response.flushHeaders();
      answer.pipe(response);
      answer.on("error", () => response.destroy());
      answer.on("aborted", () => response.destroy());
    });
    asked.on("error", () => {
      if (response.headersSent) response.destroy();
      else response.writeHead(502).end();
    });
    response.on("close", () => asked.destroy());
    request.pipe(asked);
  }

  const server = http.createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://localhost");
    if (url.pathname === "/ui" || url.pathname.startsWith("/ui/")) return page(url, response);
    if (withSessions && url.pathname === "/v1/session") return void session(request, response).catch(() => response.destroy());
    pass(request, response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = server.address();
  return {
    url: `http://127.0.0.1:${port}`,
    /** Breaks every connection, as a network that goes away. */
    cut: () => server.closeAllConnections(),
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve(undefined));
        server.closeAllConnections();
      }),
  };
}
