#!/usr/bin/env node
import { runProgram } from './command.ts'
import { createProgram } from './program.ts'

await runProgram(createProgram(), process.argv.slice(2))
