/** How the last stage chooses a token; the fields and defaults are those of llama.cpp's sampler chain. */
export interface SamplerSettings {
  /** 0 takes the most likely token and ignores the other fields except the penalties. */
  readonly temperature: number
  /** 0 keeps all. */
  readonly topK: number
  /** 1 keeps all. */
  readonly topP: number
  /** 0 keeps all. */
  readonly minP: number
  /** Tokens looked back on by the penalties; 0 turns them off. */
  readonly penaltyLastN: number
  /** 1 turns it off. */
  readonly repeatPenalty: number
  readonly frequencyPenalty: number
  readonly presencePenalty: number
  /** uint32. A token depends on the seed, the settings and its own sequence alone. */
  readonly seed: number
}
