#!/usr/bin/env node
// `pnpm bench`
import { launch } from './launch.mjs'

await launch('bench')
