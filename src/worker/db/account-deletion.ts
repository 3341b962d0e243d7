import { and, eq, gt, inArray, isNotNull, isNull, lt } from "drizzle-orm";
import type { Database, Statement } from "./client.ts";
import { won } from "./client.ts";
import {
  accounts,
  agentProjects,
  agents,
  auditEvents,
  devices,
  graphSessions,
  identities,
  oauthStore,
  oneTimeCodes,
  passkeys,
  projects,
  refreshAnswers,
  usedAssertions,
  webChallenges,
  webSessions,
} from "./schema.ts";

/** Marks an account as leaving. False: it was already, or is not there. From here on nobody signs in to it. */
export const markLeaving = async (db: Database, accountId: string, now: number) =>
  won(
    await db
      .update(accounts)
      .set({ deleted_at: now })
      .where(and(eq(accounts.id, accountId), isNull(accounts.deleted_at))),
  );

/** Accounts whose deletion was begun, at most `limit`. */
export const leavingAccounts = (db: Database, limit: number) =>
  db.select({ id: accounts.id }).from(accounts).where(isNotNull(accounts.deleted_at)).limit(limit);

/** The statements that end every way in, and keep projects' objects from being given lists again. */
export const accessEnd = (db: Database, accountId: string, now: number): [Statement, ...Statement[]] => [
  db.update(projects).set({ disabled_at: now }).where(eq(projects.account_id, accountId)),
  db.update(devices).set({ removed_at: now }).where(eq(devices.account_id, accountId)),
  db.update(agents).set({ revoked_at: now }).where(eq(agents.account_id, accountId)),
  db.delete(webSessions).where(eq(webSessions.account_id, accountId)),
  db.delete(oneTimeCodes).where(eq(oneTimeCodes.account_id, accountId)),
  ...["grant", "token"].map((kind) =>
    db
      .delete(oauthStore)
      .where(and(gt(oauthStore.key, `${kind}:${accountId}:`), lt(oauthStore.key, `${kind}:${accountId};`))),
  ),
];

/** The statements that delete every row of an account, children first. */
export function accountRows(db: Database, accountId: string): [Statement, ...Statement[]] {
  const projectIds = db.select({ id: projects.id }).from(projects).where(eq(projects.account_id, accountId));
  const deviceIds = db.select({ id: devices.id }).from(devices).where(eq(devices.account_id, accountId));
  return [
    db.delete(agentProjects).where(inArray(agentProjects.project_id, projectIds)),
    db.delete(graphSessions).where(inArray(graphSessions.project_id, projectIds)),
    db.delete(usedAssertions).where(inArray(usedAssertions.device_id, deviceIds)),
    db.delete(refreshAnswers).where(eq(refreshAnswers.account_id, accountId)),
    db.delete(webChallenges).where(eq(webChallenges.account_id, accountId)),
    db.delete(passkeys).where(eq(passkeys.account_id, accountId)),
    db.delete(identities).where(eq(identities.account_id, accountId)),
    db.delete(webSessions).where(eq(webSessions.account_id, accountId)),
    db.delete(oneTimeCodes).where(eq(oneTimeCodes.account_id, accountId)),
    db.delete(auditEvents).where(eq(auditEvents.account_id, accountId)),
    db.delete(agents).where(eq(agents.account_id, accountId)),
    db.delete(devices).where(eq(devices.account_id, accountId)),
    db.delete(projects).where(eq(projects.account_id, accountId)),
    db.delete(accounts).where(eq(accounts.id, accountId)),
  ];
}
