#!/usr/bin/env node
// `pnpm demo`: short for `pnpm seamline demo`.
process.argv.splice(2, 0, 'demo')
await import('./seamline.mjs')
