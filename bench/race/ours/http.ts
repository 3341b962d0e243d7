import { Agent, request } from "node:http";

/** Posts JSON over kept connections, at most `connections` of them, and reads the JSON that comes back. */
export interface Poster {
  post<T>(path: string, token: string, body: unknown, headers?: Record<string, string>): Promise<T>;
  close(): void;
}

/** node:http and not fetch: it costs the callers' process less, so that the server is what is measured. */
export function poster(port: number, connections: number): Poster {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  return {
    post<T>(path: string, token: string, body: unknown, headers: Record<string, string> = {}): Promise<T> {
      const text = JSON.stringify(body);
      return new Promise((resolve, reject) => {
        const sent = request(
          {
            agent,
            host: "localhost",
            port,
            path,
            method: "POST",
            headers: {
              authorization: `Bearer ${token}`,
              "content-type": "application/json",
              "content-length": Buffer.byteLength(text),
              ...headers,
            },
          },
          (response) => {
            let answer = "";
            response.setEncoding("utf8");
            response.on("data", (part: string) => {
              answer += part;
            });
            response.on("error", reject);
            response.on("end", () => {
              if (response.statusCode === 200) resolve(JSON.parse(answer) as T);
              else reject(new Error(`${path} answered ${response.statusCode}: ${answer.slice(0, 300)}`));
            });
          },
        );
        sent.on("error", reject);
        sent.end(text);
      });
    },
    close: () => agent.destroy(),
  };
}
