import type { Account, Agent } from "../scenario/scenario.ts";
import type { Server } from "../server/server.ts";
import { publicJwk, thumbprint } from "./laptop-key.ts";

/** What the account's page does for its owner: changes D1, then tells the projects' objects. */
export class Owner {
  readonly #server: Server;
  readonly #now: () => number;

  constructor(server: Server, now: () => number) {
    this.#server = server;
    this.#now = now;
  }

  /** An account with its projects and devices, as they are before the world begins. */
  async found(account: Account): Promise<void> {
    const { d1 } = this.#server;
    const now = this.#now();
    d1.apply("INSERT INTO accounts (id, name, created_at) VALUES (?, ?, ?)", [account.id, account.id, now]);
    for (const [n, project] of account.projects.entries())
      d1.apply("INSERT INTO projects (id, account_id, name, settings, created_at) VALUES (?, ?, ?, ?, ?)", [
        project.id,
        account.id,
        project.id,
        JSON.stringify(project.settings),
        now + n,
      ]);
    for (const { deviceId, name } of account.laptops)
      d1.apply(
        `INSERT INTO devices (id, account_id, name, platform, client_version, public_jwk, thumbprint, created_at)
         VALUES (?, ?, ?, 'simulated', '0.1.0', ?, ?, ?)`,
        [deviceId, account.id, name, JSON.stringify(publicJwk(deviceId)), await thumbprint(deviceId), now],
      );
    for (const agent of account.agents) await this.connect(account, agent, agent.projects);
    await this.#deliver(account);
  }

  async connect(account: Account, agent: Agent, projects: string[]): Promise<void> {
    const { modules, d1 } = this.#server;
    await modules.connectAgent(modules.database(d1), {
      accountId: account.id,
      clientId: agent.clientId,
      newAgentId: agent.id,
      name: agent.name,
      scopes: "osfoundry:read osfoundry:run",
      redirectHost: "localhost",
      projectIds: projects,
      now: this.#now(),
    });
    await this.#deliver(account);
  }

  async revoke(account: Account, agent: Agent): Promise<void> {
    const { modules, d1 } = this.#server;
    const db = modules.database(d1);
    const row = { id: agent.id, account_id: account.id, client_id: agent.clientId };
    await db.batch(modules.agentRevocation(db, row, this.#now()));
    await this.#deliver(account);
  }

  async removeDevice(account: Account, deviceId: string): Promise<void> {
    const { modules, d1 } = this.#server;
    const db = modules.database(d1);
    await db.batch(modules.deviceRemoval(db, { id: deviceId, account_id: account.id }, this.#now()));
    await this.#deliver(account);
  }

  #deliver(account: Account): Promise<void> {
    const { modules, env } = this.#server;
    return modules.deliverAccess(
      env,
      account.projects.map((p) => p.id),
    );
  }
}
