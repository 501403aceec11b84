#!/usr/bin/env node
// `pnpm tracker`
import { launch } from './launch.mjs'

await launch('tracker')
