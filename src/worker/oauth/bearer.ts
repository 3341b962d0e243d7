/** The token of an `Authorization: Bearer` header (RFC 6750 section 2.1). A token in a URL or a body is none. */
export function bearerToken(request: Request): string | undefined {
  return /^Bearer +([A-Za-z0-9\-._~+/:]+=*)$/i.exec(request.headers.get("authorization") ?? "")?.[1];
}
