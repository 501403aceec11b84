/** Benches. */
export {}
