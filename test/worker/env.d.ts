declare namespace Cloudflare {
  interface Env extends ProductEnv {
    TEST_MIGRATIONS: import("@cloudflare/vitest-plugin").D1Migration[];
  }
  type ProductEnv = import("../../src/worker/env.ts").Env;
}
