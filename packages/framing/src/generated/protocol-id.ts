// Written by scripts/generate.mjs: SHA-256 over schema and golden vectors, see README.md.
export const protocolId = '0f58dd9e8ca4064bc16c3b1e9a3130e3f27d11e0d6aa959e06577c2ec68b73f0'
