// A stream of server-sent events that connects again by itself, until it is stopped or refused.

import { address, type Query } from "./http";
import { Problem, problemOf } from "./problem";
import { EventReader, type ServerEvent } from "./sse";

export interface Connection {
  path: string;
  query?: Query;
  headers?: Record<string, string>;
  /** With a body the request is a POST. */
  body?: unknown;
}

export interface StreamHandlers {
  /** The request of the next connection. */
  connect(): Connection;
  /** The server has answered: events follow. */
  opened(): void;
  /** Takes events. Returns the reason if one of them ends the stream. */
  read(events: ServerEvent[]): Problem | undefined;
  away(problem: Problem | undefined): void;
  refused(problem: Problem): void;
  signedOut(): void;
}

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;
/** The server sends a comment every 15 s. A silence three times as long is a dead connection. */
const SILENCE_MS = 45_000;

export class Stream {
  readonly #handlers: StreamHandlers;
  #delay = FIRST_DELAY_MS;
  #stopped = false;
  #abort = new AbortController();
  #wake: (() => void) | undefined;

  constructor(handlers: StreamHandlers) {
    this.#handlers = handlers;
    void this.#run();
  }

  /** Whether the present connection still counts. */
  get isOpen(): boolean {
    return !this.#stopped && !this.#abort.signal.aborted;
  }

  stop(): void {
    this.#stopped = true;
    this.#abort.abort();
    this.#wake?.();
  }

  async #run(): Promise<void> {
    // The constructor of the owner ends first: its handlers may ask for the stream.
    await Promise.resolve();
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
        this.#handlers.refused(problem);
        break;
      }
      this.#handlers.away(problem);
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
    const { path, query, headers, body } = this.#handlers.connect();
    const init: RequestInit = {
      headers: { Accept: "text/event-stream, application/json;q=0.9", "X-Mortise-UI": "1", ...headers },
      signal: this.#abort.signal,
      credentials: "same-origin",
      cache: "no-store",
    };
    if (body !== undefined) {
      init.method = "POST";
      init.headers = { ...init.headers, "Content-Type": "application/json" };
      init.body = JSON.stringify(body);
    }
    try {
      const response = await fetch(address(path, query), init);
      if (!response.ok || !response.body) return await problemOf(response);
      this.#handlers.opened();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const events = new EventReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return undefined;
        clearTimeout(silence);
        silence = setTimeout(() => this.#abort.abort(), SILENCE_MS);
        this.#delay = FIRST_DELAY_MS;
        const closed = this.#handlers.read(events.read(value));
        if (closed) return closed;
      }
    } catch {
      return new Problem(0, {}, "The connection to the server was lost.");
    } finally {
      clearTimeout(silence);
    }
  }
}

/** The problem in an event `closed`. */
export function closedBy(event: ServerEvent): Problem {
  const body = JSON.parse(event.data) as { status?: number };
  return new Problem(body.status ?? 503, body, "The server ended the stream.");
}
