import type { html } from "hono/html";

/** Markup that is safe as it stands. */
export type Html = ReturnType<typeof html>;

/** Fills a code's field from the link's fragment, which browsers do not send to any server. */
export const CODE_SCRIPT = `
function takeCode() {
  const code = decodeURIComponent(location.hash.slice(1));
  const field = document.getElementById("code");
  if (!code || !field) return;
  history.replaceState(null, "", location.pathname + location.search);
  field.value = code;
  const button = document.getElementById("use-code");
  // Who came by a link goes on with it.
  for (const other of document.querySelectorAll("button.primary")) other.classList.remove("primary");
  button.classList.add("primary");
  button.focus();
}
takeCode();
// A link that is opened where this page is already.
addEventListener("hashchange", takeCode);
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
