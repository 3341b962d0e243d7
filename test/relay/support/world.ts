import { createRelay, type Relay, type RelayEnd } from "../../../relay-cli/relay/loop.ts";
import type { RelayPorts } from "../../../relay-cli/relay/ports.ts";
import type { Graph, Store } from "../../../relay-cli/store/contract.ts";
import { createStore } from "../../../relay-cli/store/index.ts";
import { migrate } from "../../../relay-cli/store/migrate.ts";
import { nodeSql } from "../../../relay-cli/store/node-sql.ts";
import type { Sql } from "../../../relay-cli/store/sql.ts";
import { settle, VirtualClock } from "./clock.ts";
import { FakeEngine } from "./engine.ts";
import { FakeServer, OTHER_PROJECT, PROJECT, SERVER } from "./server.ts";

export const GRAPH: Graph = {
  graph_session_id: "gs_00000000000000000000000000000001",
  slug: "report",
  name: "Report",
  description: "Says what there is",
  version: "1.0.0",
  path: "/graphs/report.mjs",
  arguments_schema: null,
  added_at: 0,
};
export const SECOND_GRAPH: Graph = {
  ...GRAPH,
  graph_session_id: "gs_00000000000000000000000000000002",
  slug: "review",
  path: "/graphs/review.mjs",
};

/** A paired laptop with two saved Graphs, of which the first is shared, a server, and time in the test's hand. */
export class World {
  readonly clock = new VirtualClock();
  readonly server = new FakeServer();
  readonly engine = new FakeEngine();
  readonly sql: Sql;
  readonly store: Store;
  readonly lines: string[] = [];
  relay: Relay | undefined;
  end: RelayEnd | undefined;
  #random = 1;

  constructor() {
    this.sql = nodeSql(":memory:");
    migrate(this.sql);
    this.store = createStore(this.sql);
    this.store.device.pair(
      {
        device_id: "dev_00000000000000000000000000000001",
        account_name: "Owner",
        server_url: SERVER,
        name: "laptop",
        private_jwk: "{}",
        paired_at: 0,
      },
      [
        { project_id: PROJECT, name: "First" },
        { project_id: OTHER_PROJECT, name: "Second" },
      ],
    );
    this.store.graphs.add(GRAPH);
    this.store.graphs.add(SECOND_GRAPH);
    this.store.projects.share(PROJECT, GRAPH.graph_session_id, 0);
  }

  /** Ports of a relay on this laptop; a test may replace some. */
  ports(replaced: Partial<RelayPorts> = {}): RelayPorts {
    const log = (line: string) => void this.lines.push(line);
    return {
      clock: this.clock,
      transport: this.server.transport,
      random: { bytes: this.bytes },
      store: this.store,
      engine: this.engine,
      signer: { sign: async (audience, at) => `${audience}@${at}` },
      isReady: () => true,
      log: { info: log, warn: log },
      ...replaced,
    };
  }

  /** Starts a relay and lets its first pass come to rest. */
  async start(replaced: Partial<RelayPorts> = {}, concurrency = 1): Promise<Relay> {
    const options = { serverUrl: SERVER, clientVersion: "0.1.0", concurrency };
    const relay = createRelay(this.ports(replaced), options);
    this.relay = relay;
    this.end = undefined;
    void relay.run().then((end) => {
      this.end = end;
    });
    await settle();
    return relay;
  }

  /** Seeded, so that every run of a test draws the same. */
  bytes = (length: number): Uint8Array =>
    Uint8Array.from({ length }, () => {
      this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) >>> 0;
      return this.#random >>> 24;
    });

  /** The one graph command, as it is queued. */
  queue(args: Record<string, unknown> = {}) {
    return this.server.queue(GRAPH, args);
  }
}
