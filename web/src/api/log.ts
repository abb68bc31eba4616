// The log of a plugin as a stream. The server's lines have no positions: after a lost connection its last lines come again, and those that
// were taken before are left out.

import type { Problem } from "./problem";
import { rpcPath } from "./rpc";
import type { ServerEvent } from "./sse";
import { closedBy, Stream } from "./stream";
import type { WatchHandlers } from "./watch";

export interface LogLine {
  /** Counts the lines of the page. */
  key: number;
  at: string;
  level: number;
  hook: string;
  message: string;
  fields: [string, string][];
}

interface Sent {
  at?: string;
  level?: number;
  hook?: string;
  message?: string;
  fields?: Record<string, string>;
}

/** Lines that are kept and asked for, and characters of their messages. */
export const MOST_LINES = 1_000;
const MOST_CHARACTERS = 1_000_000;

/** Keeps the newest lines within both bounds. Returns whether any are gone. */
export function bound(lines: LogLine[]): boolean {
  let characters = 0;
  let first = lines.length;
  while (first > 0 && lines.length - first < MOST_LINES) {
    characters += lines[first - 1]?.message.length ?? 0;
    if (characters > MOST_CHARACTERS && first < lines.length) break;
    first -= 1;
  }
  lines.splice(0, first);
  return first > 0;
}

/** A time with nine digits of its second, so that texts are in the order of times. */
function comparable(at: string): string {
  const [, second = "", digits = ""] = /^([^.Z]*)(?:\.(\d*))?Z$/.exec(at) ?? [];
  return `${second}.${digits.padEnd(9, "0")}`;
}

export class LogStream {
  readonly #stream: Stream;
  readonly #take: (lines: LogLine[]) => void;
  #count = 0;
  /** The newest lines that were taken: their texts, with their times. */
  #taken = new Map<string, string>();
  /** Time of the newest line that is in `#taken` no more. */
  #forgotten = "";
  /** Number of lines that may come again. */
  #again = 0;
  #waiting: LogLine[] = [];
  #isScheduled = false;

  constructor(plugin: string, level: number, handlers: Omit<WatchHandlers, "take"> & { take(lines: LogLine[]): void }) {
    this.#take = (lines) => handlers.take(lines);
    this.#stream = new Stream({
      connect: () => ({ path: rpcPath("PluginService/Logs"), body: { name: plugin, last: MOST_LINES, follow: true, level } }),
      opened: () => {
        this.#again = this.#count > 0 ? MOST_LINES : 0;
        handlers.state("live");
      },
      read: (events) => this.#read(events),
      away: (problem) => handlers.state("away", problem),
      refused: (problem) => handlers.state("refused", problem),
      signedOut: () => handlers.signedOut(),
    });
  }

  stop(): void {
    this.#waiting = [];
    this.#stream.stop();
  }

  #read(events: ServerEvent[]): Problem | undefined {
    for (const event of events) {
      if (event.name === "closed") return closedBy(event);
      if (event.name !== "message") continue;
      const { at = "", level = 3, hook = "", message = "", fields = {} } = JSON.parse(event.data) as Sent;
      if (this.#isKnown(event.data, comparable(at))) continue;
      this.#count += 1;
      this.#waiting.push({ key: this.#count, at, level, hook, message, fields: Object.entries(fields) });
    }
    bound(this.#waiting);
    if (!this.#isScheduled && this.#waiting.length > 0) {
      this.#isScheduled = true;
      // Lines are shown a few times a second: more often would only be restless.
      setTimeout(() => this.#flush(), 100);
    }
    return undefined;
  }

  #flush(): void {
    this.#isScheduled = false;
    if (this.#waiting.length > 0) this.#take(this.#waiting.splice(0));
  }

  /** Whether a line was taken before; if not, it counts as taken. */
  #isKnown(text: string, at: string): boolean {
    const mayBeKnown = this.#again > 0;
    if (mayBeKnown) this.#again -= 1;
    if (mayBeKnown && (this.#taken.has(text) || at <= this.#forgotten)) return true;
    this.#taken.set(text, at);
    for (const [oldest, then] of this.#taken) {
      if (this.#taken.size <= MOST_LINES) break;
      this.#taken.delete(oldest);
      if (then > this.#forgotten) this.#forgotten = then;
    }
    return false;
  }
}
