/** The only source of time in the project. */
export interface Clock {
  /**
   * Nanoseconds on the host's monotonic clock as an integer-valued number (exact for 104 days of uptime).
   * Native compute stamps are in the same domain.
   */
  nowNs(): number
}

/** CLOCK_MONOTONIC through `process.hrtime()`: absolute, shared by all processes of one host. */
export const monotonicClock: Clock = {
  nowNs() {
    const [seconds, nanoseconds] = process.hrtime()
    return seconds * 1e9 + nanoseconds
  },
}
