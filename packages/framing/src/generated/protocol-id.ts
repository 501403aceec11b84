// Written by scripts/generate.mjs: SHA-256 over schema and golden vectors, see README.md.
export const protocolId = 'a79047d1cdea2efa19a46e10be4244151e0e930ac96e6c2bf88655513d4771fe'
