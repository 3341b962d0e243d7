import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** A server the race started, on loopback, with a folder that goes with it. */
export interface Server {
  version: string;
  port: number;
  pid: number;
  /** Ends that process, and no other. */
  stop(): Promise<void>;
}

/** Settings that make every acknowledged write durable; the rest is as Debian ships it. */
export const POSTGRES_SETTINGS = {
  fsync: "on",
  synchronous_commit: "on",
  full_page_writes: "on",
  wal_sync_method: "fdatasync",
  max_connections: "300",
  // A quarter of a small server's memory; Debian's 128 MB would starve it at a million runs.
  shared_buffers: "1GB",
  max_wal_size: "4GB",
} as const;
export const REDIS_SETTINGS = { appendonly: "yes", appendfsync: "always", save: "" } as const;

export function postgresBin(): string | undefined {
  const root = "/usr/lib/postgresql";
  if (!existsSync(root)) return undefined;
  return readdirSync(root)
    .sort((a, b) => Number(b) - Number(a))
    .map((version) => join(root, version, "bin"))
    .find((bin) => existsSync(join(bin, "postgres")));
}

export const redisBin = (): string | undefined =>
  ["/usr/bin/redis-server", "/usr/local/bin/redis-server"].find((path) => existsSync(path));

/** PostgreSQL refuses to run as root: then it runs as the user its package made, or as nobody. */
function unprivileged(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {};
  for (const user of ["postgres", "nobody"]) {
    const [uid, gid] = ["-u", "-g"].map((flag) => spawnSync("id", [flag, user], { encoding: "utf8" }));
    if (uid?.status === 0 && gid?.status === 0) return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
  }
  throw new Error("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as.");
}

export async function startPostgres(folder: string): Promise<Server> {
  const bin = postgresBin();
  if (!bin) throw new Error("PostgreSQL's server is not installed.");
  const who = unprivileged();
  mkdirSync(folder, { recursive: true });
  if (who.uid !== undefined && who.gid !== undefined) chownSync(folder, who.uid, who.gid);
  chmodSync(folder, 0o700);
  const data = join(folder, "data");
  const init = spawnSync(
    join(bin, "initdb"),
    ["-D", data, "-U", "race", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"],
    { ...who, cwd: folder, encoding: "utf8" },
  );
  if (init.status !== 0) throw new Error(`initdb failed:\n${init.stderr}`);
  const port = await freePort();
  const settings = {
    ...POSTGRES_SETTINGS,
    listen_addresses: "127.0.0.1",
    port,
    unix_socket_directories: folder,
  };
  const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const child = spawn(join(bin, "postgres"), ["-D", data, ...args], { ...who, cwd: folder, stdio: "ignore" });
  await answers(child, port, "PostgreSQL");
  const psql = (sql: string) =>
    spawnSync(
      join(bin, "psql"),
      ["-h", "127.0.0.1", "-p", String(port), "-U", "race", "-Atc", sql, "postgres"],
      {
        encoding: "utf8",
      },
    );
  // The port opens a moment before the server takes connections.
  for (let tries = 0; psql("select 1").status !== 0; tries++) {
    if (tries > 100) throw new Error("PostgreSQL does not take connections.");
    await sleep(100);
  }
  const made = psql("create database race");
  if (made.status !== 0) throw new Error(`create database failed:\n${made.stderr}`);
  const version = psql("show server_version").stdout.trim();
  return { version: `PostgreSQL ${version}`, port, pid: child.pid ?? 0, stop: () => stop(child, "SIGINT") };
}

export async function startRedis(folder: string): Promise<Server> {
  const bin = redisBin();
  if (!bin) throw new Error("Redis is not installed.");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const port = await freePort();
  const settings = {
    ...REDIS_SETTINGS,
    bind: "127.0.0.1",
    port,
    dir: folder,
    daemonize: "no",
    "auto-aof-rewrite-percentage": "0",
  };
  const file = join(folder, "redis.conf");
  writeFileSync(
    file,
    Object.entries(settings)
      .map(([name, value]) => `${name} ${value === "" ? '""' : value}\n`)
      .join(""),
  );
  const child = spawn(bin, [file], { stdio: "ignore" });
  await answers(child, port, "Redis");
  const version = spawnSync(bin, ["--version"], { encoding: "utf8" }).stdout.match(/v=(\S+)/)?.[1] ?? "?";
  return { version: `Redis ${version}`, port, pid: child.pid ?? 0, stop: () => stop(child, "SIGTERM") };
}

async function stop(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill(signal);
  await gone;
}

/** A port of loopback that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

/** Waits until something listens at `port`, at most 20 s. */
async function answers(child: ChildProcess, port: number, what: string): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    if (child.exitCode !== null) throw new Error(`${what} ended with ${child.exitCode} at its start.`);
    const open = await new Promise<boolean>((resolve) => {
      const socket = connect(port, "127.0.0.1", () => resolve(true));
      socket.on("connect", () => socket.end());
      socket.on("error", () => resolve(false));
    });
    if (open) return;
    await sleep(100);
  }
  throw new Error(`${what} does not answer on port ${port}.`);
}
