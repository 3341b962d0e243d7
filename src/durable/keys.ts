import { and, eq, gt } from "drizzle-orm";
import { commands, keyClaims } from "./schema.ts";
import { type CommandRow, given, type Scope, statements } from "./scope.ts";

export interface KeyOfAgent {
  agent_id: string;
  idempotency_key: string;
}

const find = statements((db) => ({
  command: db
    .select()
    .from(commands)
    .where(and(eq(commands.agent_id, given("agent_id")), eq(commands.idempotency_key, given("key"))))
    .prepare(),
  claim: db
    .select()
    .from(keyClaims)
    .where(
      and(
        eq(keyClaims.agent_id, given("agent_id")),
        eq(keyClaims.idempotency_key, given("key")),
        gt(keyClaims.kept_until, given("now")),
      ),
    )
    .prepare(),
}));

/** A key as rows hold it: SQL text would turn every lone surrogate into the same character. */
export const storedKey = (key: string): string => JSON.stringify(key);

/** The command that the key names here, even one past its time (`isOver`) that is not deleted yet. */
export const commandOfKey = (
  scope: Scope,
  { agent_id, idempotency_key }: KeyOfAgent,
): CommandRow | undefined => find(scope).command.get({ agent_id, key: storedKey(idempotency_key) });

/** The claim that stands for the key here. */
export const claimOfKey = (scope: Scope, { agent_id, idempotency_key }: KeyOfAgent) =>
  find(scope).claim.get({ agent_id, key: storedKey(idempotency_key), now: scope.now });

/** Whether the record's time is over, and its key free again. */
export const isOver = (row: CommandRow, now: number): boolean =>
  row.kept_until !== null && row.kept_until <= now;
