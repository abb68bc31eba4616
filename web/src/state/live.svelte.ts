// The one stream of the page, and its state.

import { LogStream, type LogLine } from "../api/log";
import { Watch, type Change, type WatchState } from "../api/watch";
import type { Query } from "../api/http";
import type { Problem } from "../api/problem";
import { tokenEnded } from "./session.svelte";

let state = $state<WatchState | "off">("off");
let open: { stop(): void } | undefined;

export const live = {
  get state(): WatchState | "off" {
    return state;
  },
};

type Refused = (problem: Problem | undefined) => void;
interface Handlers {
  state(now: WatchState, problem?: Problem): void;
  signedOut(): void;
}

/** Opens a stream. A page has one: the one before it ends. */
function begin(make: (handlers: Handlers) => { stop(): void }, refused: Refused): () => void {
  open?.stop();
  const stream = make({
    state: (now, problem) => {
      if (open !== stream) return;
      state = now;
      refused(now === "refused" ? problem : undefined);
    },
    signedOut: tokenEnded,
  });
  open = stream;
  state = "reading";
  return () => {
    stream.stop();
    if (open !== stream) return;
    open = undefined;
    state = "off";
  };
}

/** Follows a query until the returned function is called. */
export function follow(path: string, query: Query, take: (changes: Change[]) => void, refused: Refused): () => void {
  return begin((handlers) => new Watch(path, query, { take, ...handlers }), refused);
}

/** Follows the log of a plugin from its last lines on, until the returned function is called. */
export function followLog(plugin: string, level: number, take: (lines: LogLine[]) => void, refused: Refused): () => void {
  return begin((handlers) => new LogStream(plugin, level, { take, ...handlers }), refused);
}
