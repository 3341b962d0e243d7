/** The period of the limits (wrangler.toml), in seconds: what a refused caller is told to wait. */
export const RATE_PERIOD_SECONDS = 60;

/** A caller's address for counting: an IPv6 one by its /64, which is one customer. Cloudflare sets the header itself. */
export function addressKey(request: Request): string {
  const address = request.headers.get("cf-connecting-ip") ?? "unknown";
  return `address:${address.includes(":") ? address.split(":").slice(0, 4).join(":") : address}`;
}

/** Whether a call may go on. Counts are kept per location and are approximate: they damp guessing, codes' own entropy stops it. */
export async function withinLimit(limit: RateLimit, key: string): Promise<boolean> {
  const { success } = await limit.limit({ key });
  return success;
}
