/** Characters that steer a terminal or reorder what it shows, the line break apart. */
const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it finds
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/**
 * A text of several lines so that a terminal shows what is in it and obeys none of it: each unsafe character as its code.
 * What an owner approves must look like what it is.
 */
export const visible = (text: string): string =>
  text
    .toWellFormed()
    .replace(UNSAFE, (c) => (c === "\t" ? "\\t" : `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`));
