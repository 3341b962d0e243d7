import { describe, expect, it } from "vitest";
import { OwnerBrowser } from "../../scripts/lib/owner-browser.ts";
import { RELAY_PATH } from "../../src/protocol/relay-api.ts";
import { csrfOf, post } from "./support/forms.ts";
import {
  ADDRESS,
  assertion,
  callWorker,
  deviceTokenRequest,
  newDeviceKey,
  newOwner,
  ORIGIN,
  pairDevice,
} from "./support/people.ts";

/** Calls until one is refused, at most `max` times. */
async function untilRefused(
  max: number,
  call: () => Promise<Response>,
): Promise<{ calls: number; refusal: Response }> {
  for (let calls = 1; calls <= max; calls++) {
    const refusal = await call();
    if (refusal.status === 429) return { calls, refusal };
    await refusal.body?.cancel();
  }
  throw new Error(`not refused in ${max} calls`);
}
const from =
  (address: string): typeof fetch =>
  (input, init) => {
    const request = new Request(input, init);
    request.headers.set(ADDRESS, address);
    return callWorker(request);
  };

describe("too many calls of one address are refused, with the time to wait,", () => {
  it.each(["/sign-in", "/sign-in/passkey", "/sign-in/passkey/options", "/sign-up", "/sign-up/options"])(
    "at %s",
    async (path) => {
      const address = `192.0.2.${crypto.getRandomValues(new Uint8Array(1))[0]}`;
      const browser = new OwnerBrowser(ORIGIN, from(address));
      const csrf = csrfOf(await (await browser.request("/sign-in")).text());
      const { calls, refusal } = await untilRefused(35, () =>
        post(browser, path, { csrf, code: "WRONG", name: "x" }),
      );
      expect(calls).toBeGreaterThan(25);
      expect(refusal.headers.get("retry-after")).toBe("60");
      const other = new OwnerBrowser(ORIGIN, callWorker);
      const otherCsrf = csrfOf(await (await other.request("/sign-in")).text());
      expect((await post(other, path, { csrf: otherCsrf, code: "WRONG", name: "x" })).status).not.toBe(429);
    },
  );

  it("at the pairing of laptops", async () => {
    const { jwk } = await newDeviceKey();
    const call = from("198.51.100.7");
    const { refusal } = await untilRefused(35, () =>
      call(`${ORIGIN}${RELAY_PATH}/devices`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          name: "x",
          platform: "x",
          client_version: "1.0.0",
          public_jwk: jwk,
          enrolment_code: "GUESS",
        }),
      }),
    );
    expect(refusal.headers.get("retry-after")).toBe("60");
    expect(await refusal.json()).toMatchObject({ error: "rate_limited" });
  });

  it("at registration, where the limit is wide for hosted clients", async () => {
    const call = from("198.51.100.8");
    const { calls, refusal } = await untilRefused(310, () =>
      call(`${ORIGIN}/register`, { method: "POST", body: "{}" }),
    );
    expect(calls).toBeGreaterThan(100);
    expect(refusal.headers.get("retry-after")).toBe("60");
  });

  it("at laptops' tokens, whatever key each call names", async () => {
    const call = from("198.51.100.9");
    const { calls, refusal } = await untilRefused(310, async () => {
      const header = btoa(JSON.stringify({ alg: "ES256", kid: crypto.randomUUID() }));
      return call(`${ORIGIN}${RELAY_PATH}/token`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ assertion: `${header}.e30.${"A".repeat(86)}` }),
      });
    });
    expect(calls).toBeGreaterThan(100);
    expect(refusal.headers.get("retry-after")).toBe("60");
  });

  it("counting an IPv6 network as one", async () => {
    let host = 0;
    const call: typeof fetch = (input, init) => from(`2001:db8:1:2::${(++host).toString(16)}`)(input, init);
    await untilRefused(35, () =>
      call(`${ORIGIN}/sign-in`, {
        method: "POST",
        headers: { origin: ORIGIN, "content-type": "application/x-www-form-urlencoded" },
        body: "code=x",
      }),
    );
    expect(host).toBeGreaterThan(25);
  });
});

describe("too many calls of one account are refused", () => {
  it("at the making of enrolment codes", async () => {
    const owner = await newOwner();
    const csrf = csrfOf(await (await owner.browser.request("/account")).text());
    const { refusal } = await untilRefused(35, () =>
      post(owner.browser, "/account/enrolment-codes", { csrf }),
    );
    expect(refusal.headers.get("retry-after")).toBe("60");
  });

  it("at a laptop's tokens", async () => {
    const device = await pairDevice(await newOwner());
    const { refusal } = await untilRefused(35, async () => deviceTokenRequest(await assertion(device)));
    expect(refusal.headers.get("retry-after")).toBe("60");
    expect(await refusal.json()).toMatchObject({ error: "rate_limited" });
  });
});
