// Requests to the server. Every request of the page goes through `send`.

import { Problem, problemOf } from "./problem";

export type Query = Record<string, string | number | true | undefined>;

export interface Options {
  method?: string;
  query?: Query;
  /** A value is sent as JSON, a text as it is. */
  body?: unknown;
  type?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

/** Called when the server no longer knows the caller. */
let onSignedOut: () => void = () => {};

export function whenSignedOut(act: () => void): void {
  onSignedOut = act;
}

export function address(path: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === "") continue;
    search.set(name, value === true ? "" : String(value));
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

/** Sends a request. Answers other than success are thrown as problems. */
export async function send(path: string, options: Options = {}): Promise<Response> {
  const { method = "GET", query, body, signal } = options;
  const headers: Record<string, string> = {
    Accept: "application/json",
    // Pages of other sites cannot set it: the server asks for it with every change.
    "X-Mortise-UI": "1",
    ...options.headers,
  };
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    headers["Content-Type"] = options.type ?? "application/json";
    init.body = typeof body === "string" ? body : JSON.stringify(body);
  }
  if (signal) init.signal = signal;
  let response: Response;
  try {
    response = await fetch(address(path, query), init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, { title: "The server does not answer" }, "The server cannot be reached. Is it running?");
  }
  if (response.ok) return response;
  throw await refusalOf(response, path);
}

/** The problem in an answer that is no success. Without a valid token the page is left. */
export async function refusalOf(response: Response, path: string): Promise<Problem> {
  const problem = await problemOf(response);
  if (problem.isSignedOut && path !== "/v1/session") onSignedOut();
  return problem;
}

export async function getJson<T>(path: string, options: Options = {}): Promise<T> {
  const response = await send(path, options);
  return (await response.json()) as T;
}

export async function getText(path: string, options: Options = {}): Promise<string> {
  const response = await send(path, { ...options, headers: { Accept: "text/plain", ...options.headers } });
  return response.text();
}
