import { and, eq, isNull } from "drizzle-orm";
import { newId } from "../../protocol/ids.ts";
import type { RandomSource } from "../../protocol/ports.ts";
import type { Database, Statement } from "./client.ts";
import { projectInsert } from "./projects.ts";
import { accounts } from "./schema.ts";

/** What the account calls itself, if it is there and not being deleted. */
export async function accountName(db: Database, accountId: string): Promise<string | undefined> {
  const [row] = await db
    .select({ name: accounts.name })
    .from(accounts)
    .where(and(eq(accounts.id, accountId), isNull(accounts.deleted_at)));
  return row?.name;
}

export const newAccountId = (random: RandomSource): string => newId("acc", random);

/** The statements that make an account with its first project, and that project's id. */
export function accountInsert(
  db: Database,
  account: { id: string; name: string; now: number },
  random: RandomSource,
): { projectId: string; statements: [Statement, ...Statement[]] } {
  const project = projectInsert(db, { accountId: account.id, name: "My laptop", now: account.now }, random);
  const insert = db.insert(accounts).values({ id: account.id, name: account.name, created_at: account.now });
  return { projectId: project.id, statements: [insert, project.statement] };
}
