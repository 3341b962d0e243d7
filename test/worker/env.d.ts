declare namespace Cloudflare {
  interface Env extends ProductEnv {
    TEST_MIGRATIONS: import("@cloudflare/vitest-plugin").D1Migration[];
  }
  interface GlobalProps {
    mainModule: typeof import("../../src/worker/index.ts");
  }
  type ProductEnv = import("../../src/worker/env.ts").Env;
}
