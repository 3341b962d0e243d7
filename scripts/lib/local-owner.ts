import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock, RandomSource } from "../../src/protocol/ports.ts";
import { type EndpointPlace, executeSql } from "./local-endpoint.ts";
import { OwnerBrowser } from "./owner-browser.ts";
import { ownerLink } from "./owner-link.ts";

type Ports = { clock: Clock; random: RandomSource };

/** The owner of this machine's endpoint. */
export interface LocalOwner {
  readonly accountId: string;
  /** A browser signed in as the owner. Makes one at the first call. */
  browser(url: string): Promise<OwnerBrowser>;
}

/** The owner's account, made at the first start; its id is in the state folder. */
export async function localOwner(place: EndpointPlace, ports: Ports): Promise<LocalOwner> {
  const file = join(place.state, "account");
  const known = existsSync(file) ? readFileSync(file, "utf8").trim() : undefined;
  const link = await ownerLink(known === undefined ? { name: "Owner" } : { accountId: known }, ports);
  // A start that is cut short between these two makes another account; nothing was in the first one.
  await executeSql(place, link.sql);
  writeFileSync(file, `${link.account_id}\n`, { mode: 0o600 });

  let browser: OwnerBrowser | undefined;
  return {
    accountId: link.account_id,
    async browser(url) {
      if (!browser) {
        browser = new OwnerBrowser(url);
        await browser.signIn(link.code);
      }
      return browser;
    },
  };
}

/** Another one-time link, for the person at this machine. */
export async function newSignInLink(
  place: EndpointPlace,
  accountId: string,
  url: string,
  ports: Ports,
): Promise<string> {
  const link = await ownerLink({ accountId }, ports);
  await executeSql(place, link.sql);
  return `${url}/sign-in#${link.code}`;
}
