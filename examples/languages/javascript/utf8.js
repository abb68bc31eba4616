// Text to bytes and back: QuickJS has no TextEncoder.

export function encodeText(text) {
    const bytes = [];
    for (const one of text) {
        const code = one.codePointAt(0);
        if (code < 0x80) bytes.push(code);
        else if (code < 0x800) bytes.push(0xc0 | (code >> 6), 0x80 | (code & 63));
        else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
        else bytes.push(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    }
    return Uint8Array.from(bytes);
}

export function decodeText(bytes) {
    let text = "";
    for (let at = 0; at < bytes.length; ) {
        const first = bytes[at++];
        if (first < 0x80) {
            text += String.fromCharCode(first);
            continue;
        }
        const more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        let code = first & (0x3f >> more);
        for (let n = 0; n < more; n++) code = (code << 6) | (bytes[at++] & 63);
        text += String.fromCodePoint(code);
    }
    return text;
}
