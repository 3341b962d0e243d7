/**
 * The wake socket (`GET {RELAY_PATH}/wake?project_id=`, with the device's token in its header): the server
 * says when a pass is worth making, and nothing else. It only saves waiting. What there is, a relay still
 * learns from its pass and its control call, and every message may be lost, late or repeated.
 */

/** The one message: something is queued for the device, or a run of its is to stop. */
export const WAKE_MESSAGE = "wake";

/** A relay has nothing to say on the socket. Longer messages than this many characters end it. */
export const WAKE_CLIENT_CHARACTERS = 64;

/** Why the server closes a wake socket, and what its relay does then. Any other end is a cut: it comes back after a pause. */
export const WAKE_CLOSES = {
  /** Its relay leaves the place to the newer one, for a good while. */
  replaced: { code: 4409, text: "A newer socket of this device took its place" },
  /** Its relay makes a pass, which tells it for sure. */
  device_removed: { code: 4403, text: "This device was removed from its account" },
  /** Its relay makes a pass, which tells it for sure. */
  project_not_found: { code: 4404, text: "The project is gone" },
  /** RFC 6455 section 7.4.1. */
  message_too_big: { code: 1009, text: "A wake socket takes no messages" },
} as const;
export type WakeClose = keyof typeof WAKE_CLOSES;
