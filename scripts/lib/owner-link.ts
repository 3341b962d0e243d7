import { newId, newProjectId } from "../../src/protocol/ids.ts";
import { DEFAULT_SETTINGS } from "../../src/protocol/limits.ts";
import { newOneTimeCode, oneTimeCodeHash } from "../../src/protocol/one-time-code.ts";
import type { Clock, RandomSource } from "../../src/protocol/ports.ts";

const LINK_MS = 15 * 60 * 1000;
const INVITATION_MS = 7 * 24 * 3600 * 1000;

/** A one-time link for an owner, and the SQL that makes it work. */
export interface OwnerLink {
  account_id: string;
  code: string;
  sql: string[];
}

/**
 * A sign-in code for an account that exists (`accountId`), or for a new one of this name with a first
 * project. Only the code's hash is in the SQL.
 */
export async function ownerLink(
  owner: { name: string } | { accountId: string },
  { clock, random }: { clock: Clock; random: RandomSource },
): Promise<OwnerLink> {
  const now = clock.now();
  const code = newOneTimeCode(random);
  const isNew = "name" in owner;
  const account_id = isNew ? newId("acc", random) : owner.accountId;
  const sql = isNew
    ? [
        `INSERT INTO accounts (id, name, created_at) VALUES (${quote(account_id)}, ${quote(owner.name)}, ${now})`,
        `INSERT INTO projects (id, account_id, name, settings, created_at) VALUES (${quote(newProjectId(random))}, ${quote(account_id)}, 'My laptop', ${quote(JSON.stringify(DEFAULT_SETTINGS))}, ${now})`,
      ]
    : [];
  sql.push(
    `INSERT INTO one_time_codes (code_hash, purpose, account_id, expires_at) VALUES (${quote(await oneTimeCodeHash(code))}, 'sign_in', ${quote(account_id)}, ${now + LINK_MS})`,
  );
  return { account_id, code, sql };
}

/** A code that lets one person make an account of their own, for seven days, and the SQL that makes it work. */
export async function invitation({
  clock,
  random,
}: {
  clock: Clock;
  random: RandomSource;
}): Promise<{ code: string; sql: string[] }> {
  const code = newOneTimeCode(random);
  const expires = clock.now() + INVITATION_MS;
  return {
    code,
    sql: [
      `INSERT INTO invitations (code_hash, expires_at) VALUES (${quote(await oneTimeCodeHash(code))}, ${expires})`,
    ],
  };
}

/** A text as an SQL literal. */
const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`;
