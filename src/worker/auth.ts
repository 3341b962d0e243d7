/** A connected agent whose access token was verified. */
export interface AgentAuth {
  agent_id: string;
  account_id: string;
  client_id: string;
  scopes: readonly string[];
  /** The projects ticked when this token's grant was given. A route, not a right: the object decides. */
  projects: readonly string[];
}

/** A paired device whose access token was verified. */
export interface DeviceAuth {
  device_id: string;
  account_id: string;
  /** The account's projects when the token was issued. */
  projects: readonly string[];
  /** Milliseconds since the epoch. */
  issued_at: number;
}

/** Why a request carries no usable token. */
export type AuthFailure = { error: "missing" | "invalid"; description: string };
