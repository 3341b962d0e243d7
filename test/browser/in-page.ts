// Programs for the page itself, as text: the tests' own types know no document.

/** How a page lies on the screen, and what is wrong with its controls. */
export interface Layout {
  width: number;
  unnamed: string[];
  headings: number;
  language: string;
  /** Controls below a finger's size; links in running text aside. */
  small: number;
}

export const LAYOUT = `({
  width: document.scrollingElement.scrollWidth,
  unnamed: [...document.querySelectorAll("input:not([type=hidden]), select, button, a")]
    .filter((e) => !e.textContent.trim() && !e.getAttribute("aria-label") && e.labels?.length !== 1)
    .map((e) => e.outerHTML),
  headings: document.querySelectorAll("h1").length,
  language: document.documentElement.lang,
  small: [...document.querySelectorAll("button:not(.plain), select, input[type=text]")]
    .map((e) => e.getBoundingClientRect())
    .filter(({ height, width }) => height > 0 && (height < 36 || width < 36)).length,
})`;

/** Tries to run scripts and to load from elsewhere. The answer names the directives that the browser stopped it by. */
export const TRESPASS = `(async () => {
  const seen = [];
  document.addEventListener("securitypolicyviolation", (event) => seen.push(event.effectiveDirective));
  const inline = document.createElement("script");
  inline.textContent = "document.title = 'run'";
  const elsewhere = document.createElement("script");
  elsewhere.src = "http://127.0.0.1:9/x.js";
  const handler = document.createElement("button");
  handler.setAttribute("onclick", "document.title = 'run'");
  const image = document.createElement("img");
  image.src = "http://127.0.0.1:9/x.png";
  document.body.append(inline, elsewhere, handler, image);
  handler.click();
  for (let tries = 0; tries < 50 && seen.length < 4; tries++)
    await new Promise((done) => setTimeout(done, 100));
  return seen.sort();
})()`;

/** How what has the focus is outlined, and what it says. */
export const FOCUSED = `({
  outline: getComputedStyle(document.activeElement.closest("label") ?? document.activeElement).outlineStyle,
  text: document.activeElement.textContent.trim(),
})`;
