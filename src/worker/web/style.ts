/** The one stylesheet: the system's font and colour scheme, from a phone's width on. */
export const STYLE = `
:root { color-scheme: light dark; --bg: #f6f7f9; --card: #fff; --ink: #1b1e24; --muted: #59606d; --line: #dcdfe5; --field: #8a919e;
  --accent: #2456d6; --on-accent: #fff; --danger: #b3261e; --ok: #176f42; --ok-bg: #e4f4ea; --warn: #6a4a00; --warn-bg: #fdf3d8; --shade: #f0f2f5; }
@media (prefers-color-scheme: dark) { :root { --bg: #131418; --card: #1c1e24; --ink: #e9ebef; --muted: #a5abb8; --line: #33373f; --field: #7d8492;
  --accent: #93b4ff; --on-accent: #0e1a38; --danger: #ff8f85; --ok: #7bd8a2; --ok-bg: #173426; --warn: #f5d58a; --warn-bg: #382c10; --shade: #262930; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
.bar { background: var(--card); border-bottom: 1px solid var(--line); }
.bar > div { max-width: 46rem; margin: 0 auto; padding: .6rem 1.25rem; display: flex; flex-wrap: wrap; align-items: center; gap: .25rem 1.5rem; }
.brand { display: inline-flex; align-items: center; gap: .55rem; font-weight: 650; color: inherit; text-decoration: none; margin-right: auto; }
.brand svg { color: var(--accent); }
nav { display: flex; flex-wrap: wrap; align-items: center; gap: .25rem 1.25rem; }
nav form { display: flex; }
nav a { color: var(--muted); text-decoration: none; padding: .4rem 0; }
nav a:hover, nav a[aria-current] { color: var(--ink); }
nav a[aria-current] { box-shadow: inset 0 -2px var(--accent); }
main { max-width: 46rem; margin: 0 auto; padding: 2rem 1.25rem 5rem; }
.narrow main, .narrow .bar > div { max-width: 33rem; }
h1 { font-size: 1.65rem; line-height: 1.25; margin: 0 0 1rem; letter-spacing: -.01em; }
h2 { font-size: 1.1rem; margin: 0; }
h3 { font-size: 1rem; margin: 0; display: flex; flex-wrap: wrap; align-items: center; gap: .1rem .5rem; }
p { margin: .5rem 0; }
a { color: var(--accent); }
section { margin: 2.5rem 0 0; }
section > h2 { margin-bottom: .6rem; }
.panel { background: var(--card); border: 1px solid var(--line); border-radius: .75rem; padding: 1.25rem; }
.panel > label:first-of-type { margin-top: 0; } .panel + p { margin-top: 1rem; }
.panel + .panel { margin-top: 1rem; }
.panel > :first-child, .row > :first-child { margin-top: 0; }
.panel > :last-child { margin-bottom: 0; }
.rows { list-style: none; margin: 0; padding: 0; background: var(--card); border: 1px solid var(--line); border-radius: .75rem; }
.row { padding: 1rem 1.25rem; }
.row + .row { border-top: 1px solid var(--line); }
.split { display: flex; align-items: flex-start; justify-content: space-between; gap: .5rem 1.25rem; }
.split > :first-child { min-width: 0; flex: 1; }
.sub { list-style: none; margin: .75rem 0 0; padding: 0; }
.sub li { padding: .2rem 0 .2rem .9rem; border-left: 2px solid var(--line); align-items: center; }
.note, .meta { color: var(--muted); font-size: .93rem; }
.meta { margin: .15rem 0 0; }
.tag { display: inline-block; background: var(--shade); color: var(--muted); border-radius: 1rem; padding: 0 .6rem; font-size: .85rem; font-weight: 500; white-space: nowrap; }
.tag.ok { background: var(--ok-bg); color: var(--ok); } .tag.warn { background: var(--warn-bg); color: var(--warn); }
.code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .92em; }
.copy { display: block; background: var(--shade); border-radius: .5rem; padding: .65rem .85rem; margin: .5rem 0; user-select: all; }
output.copy { font-size: 1.3rem; letter-spacing: .06em; text-align: center; padding: 1rem; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: .55rem 1.25rem; margin: 1rem 0; }
.facts dt { color: var(--muted); } .facts dd { margin: 0; }
.who { font-size: 1.2rem; font-weight: 650; line-height: 1.35; margin: 0 0 .5rem; }
label, .label { display: block; font-weight: 600; margin: 1.1rem 0 .3rem; }
.hint { color: var(--muted); font-size: .93rem; margin: .3rem 0 0; }
input[type=text], input[type=number], select { width: 100%; font: inherit; color: inherit; min-height: 2.75rem; padding: .5rem .75rem; border: 1px solid var(--field); border-radius: .5rem; background: var(--card); }
input.code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; letter-spacing: .04em; }
.line { display: flex; gap: .6rem; } .line button { flex: none; }
.amount { display: flex; gap: .5rem; } .amount input, input.amount { max-width: 9rem; } .amount select { max-width: 9rem; }
fieldset { border: 0; padding: 0; margin: 1.5rem 0 0; min-width: 0; }
legend { font-weight: 650; padding: 0; margin-bottom: .5rem; }
fieldset + .hint { margin-top: .8rem; }
.choices { background: var(--card); border: 1px solid var(--line); border-radius: .75rem; overflow: hidden; }
.choice { display: flex; gap: .8rem; font-weight: 400; margin: 0; padding: .85rem 1rem; align-items: flex-start; cursor: pointer; }
.choice + .choice { border-top: 1px solid var(--line); }
.choice:hover { background: var(--shade); }
.choice input { margin: .2rem 0 0; width: 1.15rem; height: 1.15rem; flex: none; accent-color: var(--accent); }
.choice strong { display: block; font-weight: 600; }
button, .button { display: inline-flex; align-items: center; justify-content: center; font: inherit; font-weight: 600; line-height: 1.2; text-decoration: none; min-height: 2.75rem; padding: .5rem 1.15rem; border-radius: .5rem; border: 1px solid var(--field); background: var(--card); color: inherit; cursor: pointer; }
button:hover, .button:hover { background: var(--shade); }
button.primary { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
button.primary:hover { filter: brightness(1.08); }
button.danger { color: var(--danger); border-color: var(--danger); }
button.small, .button.small { min-height: 2.25rem; padding: .3rem .8rem; font-size: .93rem; }
button.plain { border: 0; background: none; color: var(--muted); padding: .4rem 0; min-height: 0; font-weight: 400; } button.plain:hover { color: var(--ink); }
button.wide { width: 100%; }
form { margin: 0; }
.actions { display: flex; flex-wrap: wrap; gap: .75rem; margin-top: 1.25rem; }
.decide { display: grid; grid-template-columns: 1fr 1fr; gap: .75rem; margin-top: 1.75rem; }
.or { display: flex; align-items: center; gap: .75rem; color: var(--muted); margin: 1.5rem 0; } .or::before, .or::after { content: ""; flex: 1; border-top: 1px solid var(--line); }
.or[hidden], form[hidden] { display: none; }
.warning, [role=alert], .tip { border-radius: .6rem; padding: .75rem 1rem; margin: 1rem 0; }
.warning { background: var(--warn-bg); color: var(--warn); }
.tip { background: var(--shade); }
[role=alert] { border: 1px solid var(--danger); background: var(--card); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.choice:focus-within { outline: 3px solid var(--accent); outline-offset: -3px; } .choice input:focus-visible { outline: none; }
.log { list-style: none; margin: 0; padding: 0; } .log li { padding: .6rem 1.25rem; display: grid; grid-template-columns: 10.5rem 1fr; gap: 0 1rem; }
.log li + li { border-top: 1px solid var(--line); } .log time { white-space: nowrap; color: var(--muted); font-variant-numeric: tabular-nums; }
@media (max-width: 34rem) {
  main { padding: 1.5rem 1rem 4rem; } .bar > div { padding: .5rem 1rem; } h1 { font-size: 1.45rem; }
  .facts { grid-template-columns: 1fr; gap: 0; } .facts dd { margin-bottom: .7rem; }
  .log li { grid-template-columns: 1fr; padding: .6rem 1rem; } .row { padding: .9rem 1rem; } .panel { padding: 1rem; }
  .actions > *, .actions button { width: 100%; } .line { flex-direction: column; }
}
`;
