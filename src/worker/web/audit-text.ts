import type { AuditAction, AuditDetails } from "../db/audit.ts";

const WAYS = {
  "one-time link": "a one-time link",
  passkey: "a passkey",
  provider: "the identity provider",
} as const;

/** Each kind of entry as a sentence. */
const SENTENCES: { [A in AuditAction]: (detail: AuditDetails[A]) => string } = {
  signed_up: ({ how }) => `Account made with ${WAYS[how]}`,
  signed_in: ({ how }) => `Signed in with ${WAYS[how]}`,
  passkey_added: ({ name }) => `Passkey “${name}” added`,
  passkey_removed: ({ name }) => `Passkey “${name}” removed`,
  provider_linked: ({ issuer }) => `Sign-in through ${issuer} linked`,
  provider_unlinked: ({ issuer }) => `Sign-in through ${issuer} unlinked`,
  agent_allowed: ({ name, host, projects, scopes }) =>
    `Agent “${name}” (${host}) allowed: ${projects} ${projects === 1 ? "project" : "projects"}, ${scopes.includes("osfoundry:run") ? "read and run" : "read"}`,
  agent_refused: ({ name, host }) => `Agent “${name}” (${host}) refused`,
  agent_revoked: ({ name }) => `Agent “${name}” revoked`,
  agent_disconnected: ({ name, project }) => `Agent “${name}” disconnected from “${project}”`,
  agent_token_reused: ({ name }) => `Agent “${name}” was signed out: a used refresh token came again`,
  enrolment_code_made: () => "Enrolment code made",
  device_allowed: ({ name, thumbprint }) => `Laptop “${name}” allowed to join (${thumbprint})`,
  device_refused: ({ name }) => `Laptop “${name}” refused`,
  device_paired: ({ name, thumbprint }) => `Laptop “${name}” paired (${thumbprint})`,
  device_removed: ({ name, by }) => `Laptop “${name}” removed ${by === "owner" ? "here" : "by itself"}`,
  project_created: ({ name }) => `Project “${name}” created`,
  project_renamed: ({ name }) => `Project renamed to “${name}”`,
  project_settings_changed: ({ name }) => `Settings of project “${name}” changed`,
  project_deleted: ({ name }) => `Project “${name}” deleted`,
  data_exported: () => "All data exported",
};

/** An entry of the audit list for its reader. One that this version does not know keeps its name. */
export function auditText(row: { action: string; detail: string }): string {
  const sentence = SENTENCES[row.action as AuditAction] as ((detail: unknown) => string) | undefined;
  return sentence ? sentence(JSON.parse(row.detail)) : row.action;
}
