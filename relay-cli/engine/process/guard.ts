import type { ChildProcess } from "node:child_process";
import type { EnginePorts } from "../ports.ts";
import { GROUP_VARIABLE } from "./strays.ts";

/**
 * A shell that outlives a killed engine by one moment: it is told of every process group the engine starts, and
 * when its standard input closes, which the operating system sees to however the engine died, it kills those
 * that are left. So a Graph that spins and never looks at its channel ends too.
 */
const SCRIPT = `
groups=" "
while read -r op group; do
  case "$op" in
    add) groups="$groups$group " ;;
    end) exit 0 ;;
    del) case "$groups" in *" $group "*) groups="\${groups%% $group *} \${groups#* $group }" ;; esac ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
for environment in /proc/[0-9]*/environ; do
  if grep -qs "${GROUP_VARIABLE}=$1" "$environment" 2>/dev/null; then
    process="\${environment#/proc/}"
    kill -s KILL "\${process%/environ}" 2>/dev/null
  fi
done
`;

/** Keeps the list of groups that must not outlive this process. */
export interface Guard {
  /** A mark for the next group: what carries it goes too, if it left its group. */
  nextMark(): string;
  add(group: number): void;
  remove(group: number): void;
}

/** A guard that runs only while there is something to guard. Windows has no process groups; there it does nothing. */
export function createGuard({ processes, random }: Pick<EnginePorts, "processes" | "random">): Guard {
  const name = Buffer.from(random.bytes(12)).toString("hex");
  let marks = 0;
  const groups = new Set<number>();
  let shell: ChildProcess | undefined;

  const tell = (line: string): void => {
    shell?.stdin?.write(`${line}\n`);
  };
  const start = (): void => {
    const started = processes.spawn("/bin/sh", ["-c", SCRIPT, "graph-relay-guard", name], {
      stdio: ["pipe", "ignore", "ignore"],
      detached: true,
      env: { PATH: "/usr/bin:/bin" },
    });
    const lost = (): void => {
      if (shell === started) shell = undefined;
    };
    started.on("error", lost);
    started.on("exit", lost);
    started.stdin?.on("error", lost);
    started.unref();
    shell = started;
    for (const group of groups) tell(`add ${group}`);
  };

  return {
    nextMark: () => `${name}.${++marks}`,
    add(group) {
      if (process.platform === "win32") return;
      groups.add(group);
      if (shell === undefined) start();
      else tell(`add ${group}`);
    },
    remove(group) {
      if (!groups.delete(group)) return;
      tell(`del ${group}`);
      if (groups.size > 0) return;
      tell("end");
      shell?.stdin?.end();
      shell = undefined;
    },
  };
}
