/** What work cost in D1: round trips, and rows as they are billed. */
export interface D1Cost {
  queries: number;
  read: number;
  written: number;
}

interface Metered extends D1PreparedStatement {
  /** The statement that the real database runs. */
  readonly real: D1PreparedStatement;
}

/** A database that does what the real one does and counts what it costs. Its statements are kept, as text. */
export function meterD1(real: D1Database) {
  let cost: D1Cost = { queries: 0, read: 0, written: 0 };
  const statements = new Set<string>();
  const count = <T>(result: D1Result<T>): D1Result<T> => {
    cost.read += result.meta.rows_read;
    cost.written += result.meta.rows_written;
    return result;
  };
  const metered = (statement: D1PreparedStatement): Metered => {
    const all = async <T>() => {
      cost.queries++;
      return count(await statement.all<T>());
    };
    return {
      real: statement,
      bind: (...values: unknown[]) => metered(statement.bind(...values)),
      all,
      run: all,
      first: async <T>(column?: string) => {
        const [row] = (await all<Record<string, unknown>>()).results;
        return (row === undefined ? null : column === undefined ? row : row[column]) as T | null;
      },
      raw: async () => {
        throw new Error("raw() is not metered");
      },
    } as unknown as Metered;
  };
  const db = {
    prepare: (sql: string) => {
      statements.add(sql);
      return metered(real.prepare(sql));
    },
    batch: async <T>(batch: D1PreparedStatement[]) => {
      cost.queries++;
      const results = await real.batch<T>(batch.map((statement) => (statement as Metered).real));
      return results.map(count);
    },
  } as unknown as D1Database;
  return {
    db,
    statements,
    /** What was spent since it was last asked. */
    spent(): D1Cost {
      const spent = cost;
      cost = { queries: 0, read: 0, written: 0 };
      return spent;
    },
  };
}
