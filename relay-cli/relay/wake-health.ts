import { fraction } from "./backoff.ts";
import type { RelayPorts, WakeSocket } from "./ports.ts";

/** How often an open socket is looked after. */
const TICK_MS = 5_000;
/** A ping 30 to 45 s after the last answer: proxies cut what is silent for a minute. */
const PING_MS = { least: 30_000, spread: 10_000 };
/** A socket whose ping is not answered within this time is dead. */
const PONG_MS = 15_000;
/** A clock that is this far ahead of where the last look left it means that the machine slept. */
const SLEPT_MS = 30_000;

/**
 * Looks after an open socket until it is over, and ends it if the other end is silent or the machine slept:
 * what was open before is then open on one side at most. `code` is the close's.
 */
export async function watchSocket(
  { clock, random }: Pick<RelayPorts, "clock" | "random">,
  socket: WakeSocket,
): Promise<{ code: number; slept: boolean }> {
  const over = new AbortController();
  const nextPing = () => clock.monotonic() + PING_MS.least + fraction(random) * PING_MS.spread;
  let pingAt = nextPing();
  let askedAt: number | undefined;
  let slept = false;

  function ping(): void {
    askedAt = clock.monotonic();
    void socket.ping().then(() => {
      askedAt = undefined;
      pingAt = nextPing();
    });
  }

  async function lookAfter(): Promise<void> {
    for (;;) {
      const before = { wall: clock.wall(), monotonic: clock.monotonic() };
      await clock.sleep(TICK_MS, over.signal);
      if (over.signal.aborted) return;
      const now = clock.monotonic();
      slept = Math.max(now - before.monotonic, clock.wall() - before.wall) > TICK_MS + SLEPT_MS;
      if (slept || (askedAt !== undefined && now - askedAt >= PONG_MS)) return socket.end();
      if (askedAt === undefined && now >= pingAt) ping();
    }
  }

  void lookAfter();
  const code = await socket.ended;
  over.abort();
  return { code, slept };
}
