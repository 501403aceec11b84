// Written by scripts/generate.mjs: SHA-256 over schema and golden vectors, see README.md.
export const protocolId = '2de885456d304e139e9306407a94450ad2bee0bdf3da82db0ee4a1d856b126c3'
