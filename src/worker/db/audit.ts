import { desc, eq } from "drizzle-orm";
import type { Database, Statement } from "./client.ts";
import { auditEvents } from "./schema.ts";

/** What is written down for the owner, and what each entry tells. Names are as they were shown then. */
export interface AuditDetails {
  signed_up: { how: SignInWay };
  signed_in: { how: SignInWay };
  passkey_added: { name: string };
  passkey_removed: { name: string };
  provider_linked: { issuer: string };
  provider_unlinked: { issuer: string };
  agent_allowed: { name: string; host: string; projects: number; scopes: string };
  agent_refused: { name: string; host: string };
  agent_revoked: { name: string };
  agent_disconnected: { name: string; project: string };
  agent_token_reused: { name: string };
  enrolment_code_made: Record<never, never>;
  device_allowed: { name: string; thumbprint: string };
  device_refused: { name: string };
  device_paired: { name: string; thumbprint: string };
  device_removed: { name: string; by: "owner" | "device" };
  project_created: { name: string };
  project_renamed: { name: string };
  project_settings_changed: { name: string };
  project_deleted: { name: string };
  data_exported: Record<never, never>;
}
export type AuditAction = keyof AuditDetails;
type SignInWay = "one-time link" | "passkey" | "provider";

/** The statement that writes an entry, for the batch that does what it tells. */
export const audit = <A extends AuditAction>(
  db: Database,
  accountId: string,
  now: number,
  action: A,
  detail: AuditDetails[A],
): Statement =>
  db.insert(auditEvents).values({ account_id: accountId, at: now, action, detail: JSON.stringify(detail) });

/** An account's newest entries. */
export const recentAudit = (db: Database, accountId: string, limit: number) =>
  db
    .select({ at: auditEvents.at, action: auditEvents.action, detail: auditEvents.detail })
    .from(auditEvents)
    .where(eq(auditEvents.account_id, accountId))
    .orderBy(desc(auditEvents.id))
    .limit(limit);
