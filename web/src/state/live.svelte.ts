// The one stream of the page, and its state.

import { Watch, type Change, type WatchState } from "../api/watch";
import type { Query } from "../api/http";
import type { Problem } from "../api/problem";
import { tokenEnded } from "./session.svelte";

let state = $state<WatchState | "off">("off");
let open: Watch | undefined;

export const live = {
  get state(): WatchState | "off" {
    return state;
  },
};

/** Follows a query until the returned function is called. A page has one stream: the one before it ends. */
export function follow(
  path: string,
  query: Query,
  take: (changes: Change[]) => void,
  refused: (problem: Problem | undefined) => void,
): () => void {
  open?.stop();
  const watch = new Watch(path, query, {
    take,
    state: (now, problem) => {
      if (open !== watch) return;
      state = now;
      refused(now === "refused" ? problem : undefined);
    },
    signedOut: tokenEnded,
  });
  open = watch;
  state = "reading";
  return () => {
    watch.stop();
    if (open !== watch) return;
    open = undefined;
    state = "off";
  };
}
