import type { MigrationBundle } from "../migrate.ts";

declare const bundle: MigrationBundle;
export default bundle;
