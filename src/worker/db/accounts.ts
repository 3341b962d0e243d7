import { eq } from "drizzle-orm";
import type { Database } from "./client.ts";
import { accounts } from "./schema.ts";

/** What the account calls itself. */
export async function accountName(db: Database, accountId: string): Promise<string> {
  const [row] = await db.select({ name: accounts.name }).from(accounts).where(eq(accounts.id, accountId));
  return row?.name ?? "";
}
