import { DatabaseSync, StatementSync } from "node:sqlite";

// Loaded into a relay before the relay itself (`node --import`): kills it at a statement of its state file.
// What the statement wrote is on the disk if it dies after, and is not if it dies before.

/** Where to die: at the `nth` statement that holds all `texts` (in its values, too), or at the first commit from there on. */
export interface KillAt {
  texts: readonly string[];
  nth: number;
  atCommit?: boolean;
  when: "before" | "after";
}

/** The variable that carries a `KillAt` as JSON. */
export const KILL_AT = "GRAPH_RELAY_TEST_KILL_AT";

const wanted = process.env[KILL_AT];
if (wanted !== undefined) {
  delete process.env[KILL_AT];
  const at = JSON.parse(wanted) as KillAt;
  let left = at.nth;
  let armed = false;

  const isPoint = (text: string, values: readonly unknown[]): boolean => {
    if (armed) return text === "COMMIT";
    const whole = `${text} ${values.join(" ")}`;
    if (!at.texts.every((part) => whole.includes(part)) || --left > 0) return false;
    armed = at.atCommit === true;
    return !armed;
  };
  const around = <T>(text: string, values: readonly unknown[], body: () => T): T => {
    const dies = isPoint(text, values);
    if (dies && at.when === "before") process.kill(process.pid, "SIGKILL");
    const result = body();
    if (dies) process.kill(process.pid, "SIGKILL");
    return result;
  };

  for (const name of ["run", "get", "all"] as const) {
    const original = StatementSync.prototype[name] as (...values: unknown[]) => unknown;
    Object.defineProperty(StatementSync.prototype, name, {
      value(this: StatementSync, ...values: unknown[]) {
        return around(this.sourceSQL, values, () => original.apply(this, values));
      },
    });
  }
  const exec = DatabaseSync.prototype.exec;
  Object.defineProperty(DatabaseSync.prototype, "exec", {
    value(this: DatabaseSync, text: string) {
      return around(text, [], () => exec.call(this, text));
    },
  });
}
