export interface LivenessOptions {
  /** 0 watches nothing. */
  readonly keepAliveMs: number
  /** Bytes received so far. */
  readonly bytesRead: () => number
  /** True while this side reads nothing and so cannot judge. */
  readonly isPaused: () => boolean
  /** Sends a sign of life. */
  readonly beat: () => void
  /** Nothing was received for about `keepAliveMs`, at least three quarters of it. Called once. */
  readonly onSilence: () => void
}

/**
 * Looks four times in each `keepAliveMs`. Returns what stops it. A process that was itself held up looks once more,
 * after it has read what waited, before it calls its peer silent.
 */
export function watchLiveness(options: LivenessOptions): () => void {
  const { keepAliveMs, bytesRead, isPaused, beat, onSilence } = options
  if (keepAliveMs <= 0) return () => {}
  let heardBytes = bytesRead()
  let silent = 0

  function heard(): boolean {
    const bytes = bytesRead()
    const news = bytes !== heardBytes || isPaused()
    heardBytes = bytes
    return news
  }

  const timer = setInterval(() => {
    beat()
    silent = heard() ? 0 : silent + 1
    if (silent < 3) return
    setImmediate(() => {
      if (heard()) {
        silent = 0
        return
      }
      clearInterval(timer)
      onSilence()
    })
  }, keepAliveMs / 4)
  return () => clearInterval(timer)
}
