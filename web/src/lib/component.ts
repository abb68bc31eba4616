// Files that a person chose to install: a component, and perhaps its signature.

export interface Chosen {
  file: File;
  signature: Uint8Array | undefined;
}

/** Bytes of the largest component and signature that a server can take. The page reads both whole. */
const MOST_COMPONENT = 2 ** 30;
const MOST_SIGNATURE = 16_384;

/** The component among the files, with its signature. Throws a sentence where they are none. */
export async function chosen(files: File[]): Promise<Chosen> {
  const signatures = files.filter((file) => file.name.endsWith(".minisig"));
  const components = files.filter((file) => !file.name.endsWith(".minisig"));
  const [file] = components;
  const [signature] = signatures;
  if (!file) throw new Error("Choose a component, a file NAME.wasm; a signature alone installs nothing.");
  if (components.length > 1 || signatures.length > 1) throw new Error("Choose one component at a time, with one signature at most.");
  if (file.size === 0) throw new Error(`${file.name} is empty, or a folder.`);
  if (file.size > MOST_COMPONENT) throw new Error(`${file.name} is larger than a component can be.`);
  if (signature && signature.size > MOST_SIGNATURE) throw new Error(`${signature.name} is larger than a signature can be.`);
  return { file, signature: signature ? new Uint8Array(await signature.arrayBuffer()) : undefined };
}

/** Whether the browser computes digests: it does so only on https and on localhost. */
export function canDigest(): boolean {
  return globalThis.crypto?.subtle !== undefined;
}

/** SHA-256 of a file, in hexadecimal. */
export async function sha256(file: File): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", await file.arrayBuffer());
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
