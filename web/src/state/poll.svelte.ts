// Repeated reads of what has no stream, such as metrics. A hidden page rests.

/** Calls `read` now and every `ms`, one call at a time, until the returned function is called. */
export function every(ms: number, read: (signal: AbortSignal) => Promise<void>): () => void {
  const abort = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const turn = async () => {
    if (!document.hidden) await read(abort.signal).catch(() => undefined);
    if (!abort.signal.aborted) timer = setTimeout(turn, ms);
  };
  void turn();
  return () => {
    abort.abort();
    clearTimeout(timer);
  };
}
