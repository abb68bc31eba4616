// A watch of a query (docs/http.md, "Of queries"): it resumes by the position of its last event, and hands changes over once a frame.

import type { Query } from "./http";
import type { Resource } from "./model";
import type { Problem } from "./problem";
import type { ServerEvent } from "./sse";
import { closedBy, Stream } from "./stream";

/** `reading`: a snapshot arrives. `live`: everything is shown. `behind`: events wait for the page. `away`: no connection. */
export type WatchState = "reading" | "live" | "behind" | "away" | "refused";

export interface WatchHandlers {
  /** Changes of one frame, in their order. After `reset` everything before it is void. */
  take(changes: Change[]): void;
  state(state: WatchState, problem?: Problem): void;
  signedOut(): void;
}

export type Change = { kind: "upsert" | "delete"; resource: Resource } | { kind: "reset" } | { kind: "complete" };

/** More waiting events than this are shown as `behind`. */
const MANY = 2_000;
/** Events that one frame takes: more would make the frame late. */
const FRAME = 1_500;

export class Watch {
  readonly #handlers: WatchHandlers;
  readonly #stream: Stream;
  #position = "";
  #queue: Change[] = [];
  #isScheduled = false;
  #isComplete = false;
  #hasConnected = false;

  constructor(path: string, query: Query, handlers: WatchHandlers) {
    this.#handlers = handlers;
    this.#stream = new Stream({
      connect: () => {
        if (!this.#position && this.#hasConnected) this.#push([{ kind: "reset" }]);
        this.#hasConnected = true;
        return { path, query: { ...query, watch: true }, headers: this.#position ? { "Last-Event-ID": this.#position } : {} };
      },
      opened: () => {
        if (this.#position && this.#isComplete) this.#show();
        else handlers.state("reading");
      },
      read: (events) => this.#read(events),
      away: (problem) => handlers.state("away", problem),
      refused: (problem) => handlers.state("refused", problem),
      signedOut: () => handlers.signedOut(),
    });
  }

  stop(): void {
    this.#queue = [];
    this.#stream.stop();
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
        case "closed":
          closed = closedBy(event);
          break;
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
    const taken = this.#queue.splice(0, FRAME);
    if (taken.length === 0) return;
    for (const change of taken) {
      if (change.kind === "reset") this.#isComplete = false;
      else if (change.kind === "complete") this.#isComplete = true;
    }
    this.#handlers.take(taken);
    this.#show();
    if (this.#queue.length > 0) this.#push([]);
  }

  #show(): void {
    if (!this.#stream.isOpen) return;
    if (!this.#isComplete) this.#handlers.state("reading");
    else this.#handlers.state(this.#queue.length > MANY ? "behind" : "live");
  }
}
