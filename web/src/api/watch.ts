// A watch of a query (docs/http.md, "Of queries"): it resumes by the position of its last event, and hands changes over once a frame.

import { address, type Query } from "./http";
import type { Resource } from "./model";
import { Problem, problemOf } from "./problem";
import { EventReader, type ServerEvent } from "./sse";

/** `reading`: a snapshot arrives. `live`: everything is shown. `behind`: events wait for the page. `away`: no connection. */
export type WatchState = "reading" | "live" | "behind" | "away" | "refused";

export interface WatchHandlers {
  /** Changes of one frame, in their order. After `reset` everything before it is void. */
  take(changes: Change[]): void;
  state(state: WatchState, problem?: Problem): void;
  signedOut(): void;
}

export type Change = { kind: "upsert" | "delete"; resource: Resource } | { kind: "reset" } | { kind: "complete" };

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;
/** More waiting events than this are shown as `behind`. */
const MANY = 2_000;
/** Events that one frame takes: more would make the frame late. */
const FRAME = 1_500;
/** The server sends a comment every 15 s. A silence three times as long is a dead connection. */
const SILENCE_MS = 45_000;

export class Watch {
  readonly #path: string;
  readonly #query: Query;
  readonly #handlers: WatchHandlers;
  #position = "";
  #delay = FIRST_DELAY_MS;
  #stopped = false;
  #abort = new AbortController();
  #queue: Change[] = [];
  #isScheduled = false;
  #isComplete = false;
  #hasConnected = false;
  #wake: (() => void) | undefined;

  constructor(path: string, query: Query, handlers: WatchHandlers) {
    this.#path = path;
    this.#query = { ...query, watch: true };
    this.#handlers = handlers;
    void this.#run();
  }

  stop(): void {
    this.#stopped = true;
    this.#queue = [];
    this.#abort.abort();
    this.#wake?.();
  }

  async #run(): Promise<void> {
    const retryNow = () => this.#wake?.();
    window.addEventListener("online", retryNow);
    while (!this.#stopped) {
      const problem = await this.#connect();
      if (this.#stopped) break;
      if (problem?.isSignedOut) {
        this.#handlers.signedOut();
        break;
      }
      // These answers stay as they are until the caller or the question changes.
      if (problem && [400, 403, 404].includes(problem.status)) {
        this.#handlers.state("refused", problem);
        break;
      }
      this.#handlers.state("away", problem);
      await this.#pause(this.#delay * (0.5 + Math.random() / 2));
      this.#delay = Math.min(this.#delay * 2, LONGEST_DELAY_MS);
    }
    window.removeEventListener("online", retryNow);
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Reads one connection to its end. Returns the reason of a refusal. */
  async #connect(): Promise<Problem | undefined> {
    this.#abort = new AbortController();
    let silence = setTimeout(() => this.#abort.abort(), SILENCE_MS);
    const headers: Record<string, string> = { Accept: "text/event-stream, application/json;q=0.9", "X-Mortise-UI": "1" };
    if (this.#position) headers["Last-Event-ID"] = this.#position;
    else if (this.#hasConnected) this.#push([{ kind: "reset" }]);
    this.#hasConnected = true;
    try {
      const response = await fetch(address(this.#path, this.#query), {
        headers,
        signal: this.#abort.signal,
        credentials: "same-origin",
        cache: "no-store",
      });
      if (!response.ok || !response.body) return await problemOf(response);
      if (this.#position && this.#isComplete) this.#show();
      else this.#handlers.state("reading");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const events = new EventReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return undefined;
        clearTimeout(silence);
        silence = setTimeout(() => this.#abort.abort(), SILENCE_MS);
        this.#delay = FIRST_DELAY_MS;
        const closed = this.#read(events.read(value));
        if (closed) return closed;
      }
    } catch {
      return new Problem(0, {}, "The connection to the server was lost.");
    } finally {
      clearTimeout(silence);
    }
  }

  /** Queues events. A `closed` event is returned as its problem: the next connection begins with a snapshot. */
  #read(events: ServerEvent[]): Problem | undefined {
    const changes: Change[] = [];
    let closed: Problem | undefined;
    for (const event of events) {
      if (event.id) this.#position = event.id;
      switch (event.name) {
        case "upsert":
        case "delete":
          changes.push({ kind: event.name, resource: JSON.parse(event.data) as Resource });
          break;
        case "reset":
          changes.push({ kind: "reset" });
          break;
        case "end-of-snapshot":
          changes.push({ kind: "complete" });
          break;
        case "closed": {
          const body = JSON.parse(event.data) as { status?: number };
          closed = new Problem(body.status ?? 503, body, "The server ended the stream.");
          break;
        }
      }
    }
    this.#push(changes);
    return closed;
  }

  #push(changes: Change[]): void {
    for (const change of changes) this.#queue.push(change);
    if (this.#queue.length > MANY && this.#isComplete) this.#handlers.state("behind");
    if (this.#isScheduled || this.#queue.length === 0) return;
    this.#isScheduled = true;
    // A hidden page has no frames.
    if (document.hidden) setTimeout(() => this.#flush(), 250);
    else requestAnimationFrame(() => this.#flush());
  }

  #flush(): void {
    this.#isScheduled = false;
    if (this.#stopped) return;
    const taken = this.#queue.splice(0, FRAME);
    for (const change of taken) {
      if (change.kind === "reset") this.#isComplete = false;
      else if (change.kind === "complete") this.#isComplete = true;
    }
    this.#handlers.take(taken);
    this.#show();
    if (this.#queue.length > 0) this.#push([]);
  }

  #show(): void {
    if (this.#abort.signal.aborted) return;
    if (!this.#isComplete) this.#handlers.state("reading");
    else this.#handlers.state(this.#queue.length > MANY ? "behind" : "live");
  }
}
