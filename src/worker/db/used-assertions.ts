import type { Database } from "./client.ts";
import { won } from "./client.ts";
import { usedAssertions } from "./schema.ts";

/** Uses an assertion up. False: it was used before. */
export const rememberAssertion = async (db: Database, deviceId: string, jti: string, expiresAt: number) =>
  won(
    await db
      .insert(usedAssertions)
      .values({ device_id: deviceId, jti, expires_at: expiresAt })
      .onConflictDoNothing(),
  );
