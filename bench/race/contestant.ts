import type { SourceOf } from "./profile.ts";
import type { Profiler } from "./profiler.ts";

/** A job in a laptop's hands: its claim is recorded, and nobody else gets it. */
export interface PickedUp {
  /** The idempotency key it was asked for with. */
  key: string;
  argumentsJson: string;
  /** Renews the lease, stores progress. */
  heartbeat(): Promise<void>;
}

/** The laptops' side, given by the race. */
export interface Laptop {
  /** Called with each job as soon as its claim is recorded; resolves with the result to store, as JSON. */
  run(job: PickedUp): Promise<string>;
  /** Called once the result is durable. */
  completed(key: string): void;
  /** Something broke; the round ends with it. */
  failed(error: unknown): void;
}

/** What the owner's agent reads. */
interface StoredRun {
  finished: boolean;
  resultJson: string | undefined;
}

/** One way of building the queue, opened anew for each round. All its callers share one process; the store has its own. */
export interface Contestant {
  /** Connects `clients` agents and as many laptops, and lets the laptops serve. */
  open(clients: number, laptop: Laptop): Promise<void>;
  /** Queues a run for `client`'s laptop, once for each key; answers its id. */
  enqueue(client: number, key: string, argumentsJson: string): Promise<string>;
  /** The run, if it is this client's. */
  read(client: number, id: string): Promise<StoredRun | undefined>;
  /** Brings the number of stored finished runs to `total`, however is fastest. Nothing is open meanwhile. */
  fill(total: number): Promise<void>;
  /** The id of the stored run `index` (0 to total - 1), all of them client 0's. */
  storedId(index: number): string;
  /** Closes what `open` opened. */
  close(): Promise<void>;
  /** Ends what the contestant itself started; it is not used after. */
  end?(): Promise<void>;
  /** How its processor time is sampled, if that is not the driver's own. */
  profiler?: {
    /** Makes it ready to be sampled; no round was run since. */
    prepare(): Promise<void>;
    start: Profiler;
    /** Where a bundle's frames come from. */
    sources(): SourceOf;
  };
  /** The processes beside the driver's that do its work; what they start counts too. */
  readonly servers: readonly number[];
}

/** Where a contestant's store is, as the race started it. */
export interface Place {
  /** The server on loopback; 0 for a contestant that has none or starts its own. */
  port: number;
  pid: number;
  /** A folder of its own on a real disk. */
  folder: string;
}

export type OpenContestant = (place: Place) => Promise<Contestant>;
