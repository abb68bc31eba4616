// Server-sent events, read from a stream. EventSource hides the status of a refusal, and cannot send our header.

export interface ServerEvent {
  name: string;
  data: string;
  id: string | undefined;
}

/** Splits text into events. Parts of lines wait for their rest. */
export class EventReader {
  #rest = "";
  #name = "";
  #data: string[] = [];
  #id: string | undefined;

  /** The events that are complete with this text. */
  read(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (this.#data.length > 0) {
          events.push({ name: this.#name || "message", data: this.#data.join("\n"), id: this.#id });
        }
        this.#name = "";
        this.#data = [];
        this.#id = undefined;
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
      if (field === "event") this.#name = value;
      else if (field === "data") this.#data.push(value);
      else if (field === "id") this.#id = value;
    }
    return events;
  }
}
