import { SCOPES } from "../../protocol/tools.ts";
import { mcpResource } from "./issuer.ts";
import { ALL_SCOPES } from "./server.ts";

/** RFC 8414. Everything listed here is served on the issuer's own origin. */
export const authorizationServerMetadata = (issuer: string) => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  registration_endpoint: `${issuer}/register`,
  revocation_endpoint: `${issuer}/revoke`,
  scopes_supported: ALL_SCOPES,
  response_types_supported: ["code"],
  response_modes_supported: ["query"],
  grant_types_supported: ["authorization_code", "refresh_token"],
  token_endpoint_auth_methods_supported: ["none"],
  revocation_endpoint_auth_methods_supported: ["none"],
  code_challenge_methods_supported: ["S256"],
  authorization_response_iss_parameter_supported: true,
  client_id_metadata_document_supported: true,
  protected_resources: [mcpResource(issuer)],
});

/** RFC 9728, for the MCP endpoint. */
export const protectedResourceMetadata = (issuer: string) => ({
  resource: mcpResource(issuer),
  authorization_servers: [issuer],
  scopes_supported: SCOPES,
  bearer_methods_supported: ["header"],
  resource_name: "Graph Relay",
});
