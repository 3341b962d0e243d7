import * as z from "zod";

interface Api {
  args: { to: string; copies: number };
}

export const meta = {
  name: "Typed",
  version: "2.0.0",
  arguments: z.strictObject({
    to: z.email().describe("Whom to write to."),
    copies: z.number().int().max(9).default(1),
  }),
};

export default async function ({ args }: Api): Promise<string> {
  return `${args.to} × ${args.copies}`;
}
