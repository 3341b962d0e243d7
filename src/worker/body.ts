/** A request body as text, or why it was not read. */
export type BodyText = { ok: true; text: string } | { ok: false; error: "too_large" | "not_utf8" };

/**
 * Reads a body of at most `maxBytes`. A longer one is refused by its `Content-Length`, or as soon as one
 * byte too many has arrived. Bytes that are no UTF-8 are refused: decoding would change them silently.
 */
export async function readBodyText(request: Request, maxBytes: number): Promise<BodyText> {
  if (Number(request.headers.get("content-length")) > maxBytes) return { ok: false, error: "too_large" };
  if (request.body === null) return { ok: true, text: "" };
  const reader = request.body.getReader();
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });
  let received = 0;
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return { ok: true, text: text + decoder.decode() };
      received += value.byteLength;
      if (received > maxBytes) {
        await reader.cancel();
        return { ok: false, error: "too_large" };
      }
      text += decoder.decode(value, { stream: true });
    }
  } catch (error) {
    if (error instanceof TypeError) return { ok: false, error: "not_utf8" };
    throw error;
  }
}
