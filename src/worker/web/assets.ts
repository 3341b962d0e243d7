import type { html } from "hono/html";

/** Markup that is safe as it stands. */
export type Html = ReturnType<typeof html>;

/** The one stylesheet: the system's font and colour scheme, readable on a phone. */
export const STYLE = `
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 20%, transparent); --accent: #2456d6; --danger: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --accent: #8fb2ff; --danger: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
header, main { max-width: 44rem; margin: 0 auto; padding: 0 1rem; }
header { padding-block: 1rem; font-weight: 600; }
header a { color: inherit; text-decoration: none; }
main { padding-bottom: 4rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 1rem 0; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
a { color: var(--accent); }
label { display: block; font-weight: 600; margin: 1rem 0 .25rem; }
label.choice { display: flex; gap: .75rem; font-weight: 400; margin: 0; padding: .75rem 0; border-top: 1px solid var(--line); align-items: start; }
label.choice input { margin-top: .25rem; width: 1.1rem; height: 1.1rem; flex: none; }
input[type=text] { width: 100%; font: inherit; padding: .6rem .7rem; border: 1px solid var(--line); border-radius: .4rem; background: transparent; color: inherit; }
input.code, .code { font-family: ui-monospace, monospace; letter-spacing: .04em; }
button { font: inherit; font-weight: 600; min-height: 2.75rem; padding: .4rem 1.1rem; margin: .75rem .5rem 0 0; border-radius: .4rem; border: 1px solid var(--line); background: transparent; color: inherit; cursor: pointer; }
button.primary { background: var(--accent); border-color: var(--accent); color: Canvas; }
button.danger { color: var(--danger); border-color: currentColor; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
fieldset { border: 0; padding: 0; margin: 1.5rem 0; }
legend { font-weight: 600; padding: 0; }
.card { border: 1px solid var(--line); border-radius: .6rem; padding: .75rem 1rem 1rem; margin: .75rem 0; }
.card h3 { margin: 0; font-size: 1rem; }
.note { color: color-mix(in srgb, currentColor 70%, transparent); font-size: .92rem; margin: .25rem 0; }
.warning { border-left: 4px solid var(--danger); padding: .25rem .75rem; margin: 1rem 0; }
nav a { margin-right: 1rem; }
ul { padding-left: 0; list-style: none; } li { padding: .25rem 0; }
form.inline { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: .5rem; }
form.inline button { margin: 0; min-height: 2.25rem; width: auto; }
[role=alert] { border: 1px solid var(--danger); border-radius: .4rem; padding: .6rem .8rem; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .25rem 1rem; margin: .5rem 0; }
dt { color: color-mix(in srgb, currentColor 70%, transparent); } dd { margin: 0; }
@media (max-width: 30rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } button { width: 100%; margin-right: 0; } }
`;

/** Fills a code's field from the link's fragment, which browsers do not send to any server. */
export const CODE_SCRIPT = `
const code = decodeURIComponent(location.hash.slice(1));
const field = document.getElementById("code");
if (code && field) {
  history.replaceState(null, "", location.pathname + location.search);
  field.value = code;
  document.getElementById("use-code").focus();
}
`;

/** Runs the passkey forms: fetches the challenge, asks the browser, and sends the answer as an ordinary form. */
export const PASSKEY_SCRIPT = `
const fromBase64url = (text) =>
  Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const toBase64url = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\\+/g, "-").replace(/\\//g, "_").replace(/=+$/, "");

function readOptions(options) {
  const list = (items) => (items || []).map((item) => ({ ...item, id: fromBase64url(item.id) }));
  const read = { ...options, challenge: fromBase64url(options.challenge) };
  if (options.user) read.user = { ...options.user, id: fromBase64url(options.user.id) };
  if (options.excludeCredentials) read.excludeCredentials = list(options.excludeCredentials);
  if (options.allowCredentials) read.allowCredentials = list(options.allowCredentials);
  return read;
}

function toJson(credential) {
  const response = { clientDataJSON: toBase64url(credential.response.clientDataJSON) };
  for (const name of ["attestationObject", "authenticatorData", "signature", "userHandle"])
    if (credential.response[name]) response[name] = toBase64url(credential.response[name]);
  if (credential.response.getTransports) response.transports = credential.response.getTransports();
  return JSON.stringify({ id: credential.id, rawId: toBase64url(credential.rawId), type: credential.type, response, clientExtensionResults: {} });
}

function say(form, text) {
  let alert = form.querySelector("[role=alert]");
  if (!alert) {
    alert = document.createElement("p");
    alert.setAttribute("role", "alert");
    form.prepend(alert);
  }
  alert.textContent = text;
}

async function run(form) {
  const answer = await fetch(form.dataset.options, { method: "POST", body: new URLSearchParams(new FormData(form)) });
  const options = await answer.json();
  if (!answer.ok) return say(form, options.error);
  const publicKey = readOptions(options);
  let credential;
  try {
    credential = await navigator.credentials[form.dataset.passkey]({ publicKey });
  } catch (error) {
    const known = {
      InvalidStateError: "This device has a passkey for the account already.",
      SecurityError: "Passkeys do not work at this address. Open the page over https, or at http://localhost.",
    };
    return say(form, known[error.name] || "No passkey was used. Try again.");
  }
  form.elements.credential.value = toJson(credential);
  form.submit();
}

for (const form of document.querySelectorAll("form[data-passkey]")) {
  if (!window.PublicKeyCredential) continue;
  form.hidden = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(form).catch(() => say(form, "The server could not be reached. Try again."));
  });
}
`;
