/**
 * An owner's browser without a window: it signs in with a one-time link, answers consent pages and makes
 * enrolment codes through the same forms a person uses. For the local start and for tests.
 */
export class OwnerBrowser {
  readonly #origin: string;
  readonly #fetch: typeof fetch;
  readonly #cookies = new Map<string, string>();

  /** `origin`: the endpoint's, such as `http://localhost:8787`. */
  constructor(origin: string, fetcher: typeof fetch = (input, init) => fetch(input, init)) {
    this.#origin = origin;
    this.#fetch = fetcher;
  }

  /** Signs in with a one-time link, or with its code alone. */
  async signIn(link: string): Promise<void> {
    const code = link.includes("#") ? decodeURIComponent(link.slice(link.indexOf("#") + 1)) : link;
    const page = await this.#page("/sign-in");
    const response = await this.#post("/sign-in", {
      csrf: hidden(page, "csrf"),
      return_to: "/account",
      code,
    });
    if (response.status !== 303)
      throw new Error(`Sign-in was refused (${response.status}): ${alertOf(await response.text())}`);
  }

  /**
   * Allows an authorization request, for the projects named or for all of the owner's, and answers the
   * address that the browser is sent to: the client's redirect, with its code.
   */
  async approve(
    authorizeUrl: string,
    choice: { projectIds?: string[]; scopes?: string[] } = {},
  ): Promise<string> {
    return this.#decide(authorizeUrl, "allow", choice);
  }

  /** Refuses it. */
  async deny(authorizeUrl: string): Promise<string> {
    return this.#decide(authorizeUrl, "deny", {});
  }

  /** A one-time code that pairs a laptop. */
  async enrolmentCode(): Promise<string> {
    const page = await this.submit("/account/enrolment-codes", {});
    const code = /<output[^>]*>([^<]+)<\/output>/.exec(await page.text())?.[1];
    if (code === undefined) throw new Error("The page shows no enrolment code");
    return code;
  }

  /** Submits one of the account page's forms, such as `/account/agents/revoke` with `{agent_id}`. */
  async submit(path: string, fields: Record<string, string>): Promise<Response> {
    const page = await this.#page("/account");
    const response = await this.#post(path, { csrf: hidden(page, "csrf"), ...fields });
    if (response.status >= 400)
      throw new Error(`${path} was refused (${response.status}): ${alertOf(await response.text())}`);
    return response;
  }

  /** Makes another browser's cookies this one's too. */
  takeCookies(other: OwnerBrowser): void {
    for (const [name, value] of other.#cookies) this.#cookies.set(name, value);
  }

  /** One request with this browser's cookies, redirects left to the caller. */
  async request(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.#cookies.size > 0)
      headers.set("cookie", [...this.#cookies].map(([name, value]) => `${name}=${value}`).join("; "));
    const response = await this.#fetch(new URL(path, this.#origin).href, {
      ...init,
      headers,
      redirect: "manual",
    });
    for (const cookie of response.headers.getSetCookie()) {
      const [pair = ""] = cookie.split(";");
      const name = pair.slice(0, pair.indexOf("="));
      const value = pair.slice(pair.indexOf("=") + 1);
      if (value === "" || /max-age=0\b/i.test(cookie)) this.#cookies.delete(name);
      else this.#cookies.set(name, value);
    }
    return response;
  }

  async #decide(
    authorizeUrl: string,
    decision: "allow" | "deny",
    choice: { projectIds?: string[]; scopes?: string[] },
  ): Promise<string> {
    const url = new URL(authorizeUrl);
    const shown = await this.request(url.pathname + url.search);
    const early = shown.headers.get("location");
    if (early !== null && !early.startsWith("/")) return early;
    const page = await shown.text();
    if (shown.status !== 200)
      throw new Error(`The consent page was refused (${shown.status}): ${alertOf(page)}`);
    const fields = new URLSearchParams({
      csrf: hidden(page, "csrf"),
      request: hidden(page, "request"),
      decision,
    });
    for (const id of choice.projectIds ?? values(page, "project_id")) fields.append("project_id", id);
    for (const scope of choice.scopes ?? values(page, "scope")) fields.append("scope", scope);
    const response = await this.#post("/authorize", fields);
    const location = response.headers.get("location");
    if (location === null)
      throw new Error(`The consent was refused (${response.status}): ${alertOf(await response.text())}`);
    return location;
  }

  async #page(path: string): Promise<string> {
    const response = await this.request(path);
    const text = await response.text();
    if (response.status !== 200)
      throw new Error(
        `${path} answered ${response.status}${response.status === 303 ? ": not signed in" : ""}`,
      );
    return text;
  }

  #post(path: string, fields: Record<string, string> | URLSearchParams): Promise<Response> {
    return this.request(path, {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded", origin: this.#origin },
      body: new URLSearchParams(fields).toString(),
    });
  }
}

const ENTITIES: Record<string, string> = {
  "&amp;": "&",
  "&quot;": '"',
  "&#39;": "'",
  "&lt;": "<",
  "&gt;": ">",
};
const decoded = (text: string): string =>
  text.replace(/&(?:amp|quot|#39|lt|gt);/g, (entity) => ENTITIES[entity] ?? entity);

/** The values of every input of this name. */
function values(page: string, name: string): string[] {
  return [...page.matchAll(/<input[^>]*>/g)]
    .map(([tag]) => tag)
    .filter((tag) => tag.includes(`name="${name}"`))
    .map((tag) => decoded(/value="([^"]*)"/.exec(tag)?.[1] ?? ""));
}

function hidden(page: string, name: string): string {
  const [value] = values(page, name);
  if (value === undefined) throw new Error(`The page has no field "${name}"`);
  return value;
}

const alertOf = (page: string): string =>
  decoded(/<p role="alert">([^<]*)/.exec(page)?.[1] ?? "no reason given");
