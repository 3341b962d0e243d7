/** The same answer, kept by no cache (RFC 6749 section 5.1). */
export function noStore(response: Response): Response {
  response.headers.set("cache-control", "no-store");
  response.headers.set("pragma", "no-cache");
  return response;
}

/** An OAuth error as JSON (RFC 6749 section 5.2). */
export const oauthError = (
  status: number,
  error: string,
  description: string,
  headers: HeadersInit = {},
): Response => noStore(Response.json({ error, error_description: description }, { status, headers }));
