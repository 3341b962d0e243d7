/** Characters that take two columns of a terminal (Unicode East Asian Width W and F, and emoji), and none. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u;
const NONE = /\p{Mn}|\p{Me}|\p{Cf}/u;

const widthOf = (character: string): number => (NONE.test(character) ? 0 : WIDE.test(character) ? 2 : 1);

/** The beginning of `text` that fits into so many columns, with `…` where it was cut. */
export function cutToWidth(text: string, columns: number): string {
  const characters = [...text];
  const widths = characters.map(widthOf);
  if (widths.reduce((a, b) => a + b, 0) <= columns) return text;
  let used = 0;
  const end = widths.findIndex((width) => {
    used += width;
    return used > columns - 1;
  });
  return columns < 1 ? "" : `${characters.slice(0, end).join("")}…`;
}
