#!/usr/bin/env node
// `pnpm seamline`. The doctor must be able to run where the native part does not build.
import { launch } from './launch.mjs'

await launch('seamline', { native: process.argv[2] !== 'doctor' })
