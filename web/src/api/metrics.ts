// Prometheus's text format, as /metrics prints it.

export interface Sample {
  labels: Record<string, string>;
  value: number;
}

export type Metrics = Map<string, Sample[]>;

const LINE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;

export function parseMetrics(text: string): Metrics {
  const metrics: Metrics = new Map();
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const [, name, labels, value] = LINE.exec(line) ?? [];
    if (!name || value === undefined) continue;
    const sample: Sample = { labels: {}, value: value === "+Inf" ? Infinity : Number(value) };
    for (const [, key, text] of (labels ?? "").matchAll(LABEL)) {
      if (key && text !== undefined) sample.labels[key] = text.replace(/\\(.)/g, (_, c: string) => (c === "n" ? "\n" : c));
    }
    const samples = metrics.get(name);
    if (samples) samples.push(sample);
    else metrics.set(name, [sample]);
  }
  return metrics;
}

/** The samples of a metric with these labels. */
export function samples(metrics: Metrics, name: string, labels: Record<string, string> = {}): Sample[] {
  const wanted = Object.entries(labels);
  return (metrics.get(name) ?? []).filter((s) => wanted.every(([key, value]) => s.labels[key] === value));
}

/** The sum of a metric; `undefined` if it has no value yet. */
export function total(metrics: Metrics, name: string, labels: Record<string, string> = {}): number | undefined {
  const found = samples(metrics, name, labels);
  return found.length > 0 ? found.reduce((sum, s) => sum + s.value, 0) : undefined;
}

/** The mean of a histogram, in its unit. */
export function mean(metrics: Metrics, name: string, labels: Record<string, string> = {}): number | undefined {
  const count = total(metrics, `${name}_count`, labels);
  const sum = total(metrics, `${name}_sum`, labels);
  return count && sum !== undefined ? sum / count : undefined;
}

/** All values of a label. */
export function values(metrics: Metrics, names: string[], label: string): string[] {
  const found = new Set<string>();
  for (const name of names) for (const s of metrics.get(name) ?? []) if (s.labels[label]) found.add(s.labels[label]);
  return [...found].sort();
}
