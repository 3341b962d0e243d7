import { and, desc, eq, lt, sql } from "drizzle-orm";
import type { OwnerRun } from "./contract.ts";
import { commands, keptOut, payloads } from "./schema.ts";
import { given, isKept, type Scope, statements } from "./scope.ts";

const list = statements((db) => ({
  rows: db
    .select()
    .from(commands)
    .where(and(lt(commands.seq, given("before")), isKept))
    .orderBy(desc(commands.seq))
    .limit(sql.placeholder("limit"))
    .prepare(),
  payload: db
    .select({ arguments_json: payloads.arguments_json, outcome_json: payloads.outcome_json })
    .from(payloads)
    .where(eq(payloads.seq, given("seq")))
    .prepare(),
  keptOut: db
    .select()
    .from(keptOut)
    .where(eq(keptOut.seq, given("seq")))
    .prepare(),
}));

/** The project's runs for its owner, newest first, from before `before`; with all that is kept of each if `whole`. */
export function listRuns(
  scope: Scope,
  request: { before: number | null; limit: number; whole: boolean },
): OwnerRun[] {
  const statement = list(scope);
  const rows = statement.rows.all({
    before: request.before ?? Number.MAX_SAFE_INTEGER,
    limit: request.limit,
    now: scope.now,
  });
  if (!request.whole) return rows;
  return rows.map((row) => ({
    ...row,
    ...statement.payload.get({ seq: row.seq }),
    kept_out: statement.keptOut.get({ seq: row.seq }) ?? null,
  }));
}
