// Two texts side by side, line by line.

export interface DiffRow {
  left: string | undefined;
  right: string | undefined;
  isSame: boolean;
}

/** More lines than this are compared by their place alone: the table of a longer text would not fit into memory. */
const LONGEST = 2_000;

/** The rows of two texts: equal lines next to each other, others opposite of a gap or of each other. */
export function sideBySide(left: string, right: string): DiffRow[] {
  const a = left.split("\n");
  const b = right.split("\n");
  if (a.length > LONGEST || b.length > LONGEST) return byPlace(a, b);
  const width = b.length + 1;
  // The length of the longest common rest from each pair of lines on.
  const rest = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const below = rest[(i + 1) * width + j] ?? 0;
      const beside = rest[i * width + j + 1] ?? 0;
      rest[i * width + j] = a[i] === b[j] ? (rest[(i + 1) * width + j + 1] ?? 0) + 1 : Math.max(below, beside);
    }
  }
  const rows: DiffRow[] = [];
  let lefts: string[] = [];
  let rights: string[] = [];
  const flush = () => {
    for (const row of byPlace(lefts, rights)) rows.push(row);
    lefts = [];
    rights = [];
  };
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      flush();
      rows.push({ left: a[i], right: b[j], isSame: true });
      i += 1;
      j += 1;
    } else if ((rest[(i + 1) * width + j] ?? 0) >= (rest[i * width + j + 1] ?? 0)) {
      lefts.push(a[i] ?? "");
      i += 1;
    } else {
      rights.push(b[j] ?? "");
      j += 1;
    }
  }
  lefts.push(...a.slice(i));
  rights.push(...b.slice(j));
  flush();
  return rows;
}

function byPlace(a: string[], b: string[]): DiffRow[] {
  return Array.from({ length: Math.max(a.length, b.length) }, (_, at) => ({
    left: a[at],
    right: b[at],
    isSame: a[at] === b[at],
  }));
}
